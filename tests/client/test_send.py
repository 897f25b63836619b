"""Sending to the real broker: what blocks, for how long, the warnings meanwhile, and that sending continues after."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Any

import pytest
from proton import Message

from brokers.client import Connection, SendTimeout
from tests.amqp.broker_thread import WITHIN, wait_until
from tests.client.conftest import begin
from tests.client.fake_clock import FakeClock
from tests.client.operator import Operator

CAPACITY = 3
FULL = CAPACITY + 1  # overfull is above the capacity


@pytest.fixture
def full(operator: Operator, connection: Connection) -> str:
    """Create an overfull queue."""
    operator.create("orders", capacity_messages=CAPACITY, flow_resume_messages=1)
    with connection.publisher("orders") as publisher:
        for n in range(FULL):
            publisher.send(n)
    assert operator.read("orders")["state"] == "OVERFULL"
    return "orders"


def test_a_queue_with_room_has_the_message_when_send_returns(operator: Operator, connection: Connection) -> None:
    publisher = connection.publisher("orders")
    publisher.send(Message(body="a message", id="m-1"))
    publisher.send("its body alone")
    assert operator.depth("orders") == 2
    assert operator.take("orders", 2) == ["a message", "its body alone"]


def test_a_full_queue_blocks_send_until_it_resumes(operator: Operator, connection: Connection, full: str) -> None:
    sending = begin(connection.publisher(full).send, "late")
    operator.until_blocked(full)
    assert operator.take(full, FULL - 2) == [0, 1]
    assert operator.blocked(full) == 1  # not yet at its resume level
    assert not sending.done()
    assert operator.take(full, 1) == [2]
    sending.result(WITHIN)
    assert operator.take(full, 2) == [3, "late"]


def test_a_message_of_many_frames_arrives_whole(operator: Operator, connection: Connection) -> None:
    body = "0123456789abcdef" * 131_072
    connection.publisher("large").send(body)
    assert operator.take("large", 1) == [body]


@pytest.mark.domain("2 client")
def test_a_long_wait_is_logged_every_notify_period(
    operator: Operator, connection: Connection, clock: FakeClock, full: str, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = connection.publisher(full, notify_period=5)
    with caplog.at_level(logging.WARNING, "headgate.client"):
        sending = begin(publisher.send, "late")
        clock.advance(4)
        assert not caplog.records
        for said, seconds in enumerate((1, 5, 5), start=1):
            clock.advance(seconds)
            wait_until(lambda said=said: len(caplog.records) == said, "it is said")
        operator.take(full, FULL)
        sending.result(WITHIN)
    assert caplog.messages == [
        f"Message send delayed by {seconds}s due to broker enforced flow control" for seconds in (5, 10, 15)
    ]
    assert {(r.name, r.levelname) for r in caplog.records} == {("headgate.client", "WARNING")}


@pytest.mark.domain("2 client")
def test_no_room_within_the_time_limit_raises_and_sends_nothing(
    operator: Operator, connection: Connection, clock: FakeClock, full: str
) -> None:
    publisher = connection.publisher(full, send_timeout=30, notify_period=None)
    sending = begin(publisher.send, "never")
    clock.advance(29.5)
    assert not sending.done()
    clock.advance(0.5)
    with pytest.raises(SendTimeout, match="to orders was not sent within 30 s: the broker gave no credit") as raised:
        sending.result(WITHIN)
    assert raised.value.waited == 30
    assert operator.take(full, FULL) == list(range(FULL))
    publisher.send("next")  # the same publisher goes on
    assert operator.take(full, 1) == ["next"]
    assert operator.depth(full) == 0


def test_timeout_of_a_call_overrides_the_publishers(connection: Connection, clock: FakeClock, full: str) -> None:
    sending = begin(connection.publisher(full, send_timeout=30).send, "never", send_timeout=1)
    clock.advance(1)
    with pytest.raises(SendTimeout, match="within 1 s"):
        sending.result(WITHIN)


def test_of_several_publishers_only_the_one_with_the_full_queue_waits(
    operator: Operator, connection: Connection, full: str
) -> None:
    blocked = begin(connection.publisher(full).send, "late")
    operator.until_blocked(full)
    other = connection.publisher("elsewhere")
    for n in range(20):
        other.send(n)
    assert operator.depth("elsewhere") == 20
    assert not blocked.done()
    operator.take(full, FULL)
    blocked.result(WITHIN)


def test_threads_share_a_publisher_and_get_their_turns_in_order(
    operator: Operator, connection: Connection, clock: FakeClock, full: str
) -> None:
    publisher = connection.publisher(full)
    sendings: list[Future[Any]] = []
    for n in range(5):
        sendings.append(begin(publisher.send, f"thread {n}"))
        wait_until(lambda n=n: clock.waiters == n + 1, "it waits")
    assert operator.take(full, FULL) == list(range(FULL))
    got = operator.take(full, len(sendings))
    for sending in sendings:
        sending.result(WITHIN)
    assert got == [f"thread {n}" for n in range(5)]


def test_stopped_producers_wait_and_go_on_when_they_are_started(operator: Operator, connection: Connection) -> None:
    publisher = connection.publisher("orders")
    publisher.send(1)
    operator.stop_producers()
    sending = begin(publisher.send, 2)
    operator.until_blocked("orders")
    assert operator.depth("orders") == 1
    assert not sending.done()
    operator.start_producers()
    sending.result(WITHIN)
    assert operator.depth("orders") == 2


def test_idle_publishers_answer_a_drain_so_that_another_gets_their_credit(
    operator: Operator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokers.engine.flow.credit.DRAIN_TIMEOUT_MS", 60_000)  # only an answer ends a drain
    operator.create("orders", capacity_messages=1)
    idle = [connection.publisher("orders") for _ in range(2)]
    operator.until(lambda: [p["credit"] for p in operator.producers("orders")] == [1, 1], "they have all the credit")
    busy = connection.publisher("orders")
    busy.send("a")
    busy.send("b")
    assert operator.take("orders", 2) == ["a", "b"]
    idle[0].send("c")
    assert operator.take("orders", 1) == ["c"]


@pytest.mark.parametrize("seconds", [0, -1])
def test_invalid_timeout_is_refused_by_name(connection: Connection, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"send_timeout must be above 0 seconds, or None, and is {seconds}"):
        connection.publisher("orders", send_timeout=seconds)
    with pytest.raises(ValueError, match="send_timeout"):
        connection.publisher("orders").send("x", send_timeout=seconds)
    with pytest.raises(ValueError, match="notify_period"):
        connection.publisher("orders", notify_period=seconds)


@pytest.mark.domain("2 client")
def test_the_environment_sets_the_times_of_publishers_that_are_made_without(
    connection: Connection, clock: FakeClock, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = connection.publisher(full)
    assert (made.send_timeout, made.notify_period) == (60, 5)
    monkeypatch.setenv("HEADGATE_SEND_TIMEOUT", "2.5")
    monkeypatch.setenv("HEADGATE_NOTIFY_PERIOD", "none")
    made = connection.publisher(full)
    assert (made.send_timeout, made.notify_period) == (2.5, None)
    sending = begin(made.send, "never")
    clock.advance(2.5)
    with pytest.raises(SendTimeout, match=r"within 2\.5 s"):
        sending.result(WITHIN)
    assert connection.publisher(full, send_timeout=None).send_timeout is None, "what is said in the program goes first"


@pytest.mark.parametrize("name", ["HEADGATE_SEND_TIMEOUT", "HEADGATE_NOTIFY_PERIOD"])
@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf", "5 s"])
def test_a_wrong_time_in_the_environment_is_refused_by_the_variable_s_name(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"environment variable {name} must be seconds above 0, or none, and is"):
        connection.publisher("orders")
