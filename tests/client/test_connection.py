"""Connections: establishment, loss, refusal, and release of all resources."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from brokers.client import (
    Connection,
    ConnectionFailed,
    LinkRefused,
    NotSent,
    Publisher,
    SendInDoubt,
    SendTimeout,
    connect,
)
from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until
from tests.client.conftest import begin
from tests.client.fake_clock import FakeClock
from tests.client.operator import Operator
from tests.client.stub_broker import StubBroker, accept


def lose(broker: BrokerThread) -> None:
    broker.do(lambda s: [listener.transport.abort() for listener in list(s._listeners) if listener.transport])


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_refused_connection_raises_with_the_address() -> None:
    url = f"amqp://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionFailed, match=f"cannot connect to {url}: .*refused"):
        connect(url)


def test_a_host_that_does_not_exist_raises_with_its_name() -> None:
    with pytest.raises(ConnectionFailed, match=r"cannot connect to amqp://nowhere\.invalid:5672"):
        connect("amqp://nowhere.invalid:5672")


def test_a_listener_that_says_nothing_raises_after_the_connect_timeout(clock: FakeClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"amqp://127.0.0.1:{mute.getsockname()[1]}"
        connecting = begin(connect, url, clock=clock, connect_timeout=30)
        clock.advance(30)
        with pytest.raises(ConnectionFailed, match="within 30 s"):
            connecting.result(WITHIN)


def test_a_wrong_password_raises_and_a_right_one_does_not(broker: BrokerThread, operator: Operator) -> None:
    with pytest.raises(ConnectionFailed, match="refused the sign-in"):
        connect(broker.url, user="console", password="wrong")
    with connect(broker.url, user="console", password=broker.secret) as connection:
        connection.publisher("orders").send("x")
    assert operator.depth("orders") == 1


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("http://localhost", {}, "is not like amqp://"),
        ("amqp://", {}, "is not like amqp://"),
        ("amqp://me:secret@localhost", {}, "arguments of their own"),
        ("amqp://broker.example", {"user": "me", "password": "x"}, "could be read on its way"),
        ("amqp://localhost", {"connect_timeout": 0}, "connect_timeout must be above 0"),
        ("amqp://localhost", {"heartbeat": -1}, "heartbeat must be above 0"),
    ],
)
def test_invalid_arguments_are_refused_by_name(url: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        connect(url, **options)  # type: ignore[arg-type]


def test_waiting_send_continues_after_a_lost_connection(
    broker: BrokerThread, operator: Operator, connection: Connection
) -> None:
    operator.create("orders", capacity_messages=1)
    publisher = connection.publisher("orders")
    publisher.send(1)
    publisher.send(2)
    sending = begin(publisher.send, 3)
    operator.until_blocked("orders")
    lose(broker)
    wait_until(lambda: connection.epoch > 2, "it is connected again")
    operator.until_blocked("orders")
    assert not sending.done()
    assert operator.take("orders", 2) == [1, 2]
    sending.result(WITHIN)
    assert operator.take("orders", 1) == [3]


def test_a_message_on_its_way_when_the_connection_is_lost_is_in_doubt_and_not_sent_again(clock: FakeClock) -> None:
    with StubBroker() as stub, connect(stub.url, clock=clock) as connection:
        publisher = connection.publisher("orders")
        sending = begin(publisher.send, "x")
        stub.until(lambda: len(stub.unsettled) == 1, "it has arrived")
        stub.drop()
        with pytest.raises(SendInDoubt, match="to orders was sent and not settled: shutting down"):
            sending.result(WITHIN)
        stub.settle = accept
        publisher.send("y")
        assert stub.bodies == ["x", "y"]


def test_of_many_sends_through_lost_connections_none_is_lost_or_doubled_without_a_word(
    broker: BrokerThread, operator: Operator
) -> None:
    threads, count = 4, 100
    said: dict[str, str] = {}

    def send_all(publisher: Publisher, thread: int) -> None:
        for n in range(count):
            try:
                publisher.send(f"{thread}:{n}")
                said[f"{thread}:{n}"] = "accepted"
            except SendInDoubt:
                said[f"{thread}:{n}"] = "in doubt"

    operator.create("orders")
    with connect(broker.url, longest_pause=0.1) as connection:
        publisher = connection.publisher("orders")
        sending = [begin(send_all, publisher, thread) for thread in range(threads)]
        for goal in (50, 150, 250):
            wait_until(lambda goal=goal: len(said) > goal, "some are sent")
            lose(broker)
        for one in sending:
            one.result(4 * WITHIN)
    arrived = operator.take("orders", operator.depth("orders"))
    assert len(said) == threads * count
    assert len(set(arrived)) == len(arrived)
    assert {text for text, outcome in said.items() if outcome == "accepted"} <= set(arrived)
    for thread in range(threads):
        of_one = [int(text.split(":")[1]) for text in arrived if text.startswith(f"{thread}:")]
        assert of_one == sorted(of_one)


def test_a_broker_that_is_down_makes_sends_wait_and_time_out_with_the_reason(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(tmp_path / "broker") as broker:
        connection = connect(broker.url, clock=clock, longest_pause=0.1)
    with connection:
        wait_until(lambda: connection.missing, "it has noticed")
        publisher = connection.publisher("orders", send_timeout=10, notify_period=5)
        sending = begin(publisher.send, "never")
        clock.advance(5)
        # Proton has a logger of its own, for broken pipes and the like.
        own = wait_until(lambda: [r.getMessage() for r in caplog.records if r.name == "headgate.client"], "it is said")
        assert own[0].startswith(f"Message send delayed by 5s: not connected to {broker.url}")
        clock.advance(5)
        with pytest.raises(SendTimeout, match="not connected"):
            sending.result(WITHIN)
        with BrokerThread(tmp_path / "broker", port=broker.port) as again:
            publisher.send("after")
            assert Operator(again).take("orders", 1) == ["after"]


def test_an_address_that_does_not_exist_refuses_the_send_until_it_does(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path / "broker", demo=False) as strict,
        connect(strict.url, user="console", password=strict.secret) as connection,
    ):
        publisher = connection.publisher("orders")
        with pytest.raises(LinkRefused, match="does not take messages to orders: amqp:not-found") as raised:
            publisher.send("x")
        assert raised.value.condition == "amqp:not-found"
        assert isinstance(raised.value, NotSent)
        Operator(strict).create("orders")
        publisher.send("y")
        assert Operator(strict).depth("orders") == 1


def test_a_deleted_queue_ends_the_sends_that_wait_for_it(operator: Operator, connection: Connection) -> None:
    operator.create("orders", capacity_messages=1)
    publisher = connection.publisher("orders")
    publisher.send(1)
    publisher.send(2)
    sending = begin(publisher.send, 3)
    operator.until_blocked("orders")
    operator.delete("orders")
    with pytest.raises(LinkRefused, match="does not take messages to orders"):
        sending.result(WITHIN)


def test_closing_ends_the_sends_that_wait(operator: Operator, connection: Connection) -> None:
    operator.create("orders", capacity_messages=1)
    publisher = connection.publisher("orders")
    publisher.send(1)
    publisher.send(2)
    sending = begin(publisher.send, 3)
    operator.until_blocked("orders")
    connection.close()
    with pytest.raises(ConnectionFailed, match="was closed"):
        sending.result(WITHIN)
    with pytest.raises(ConnectionFailed, match="was closed"):
        publisher.send(4)
    with pytest.raises(ConnectionFailed, match="was closed"):
        connection.publisher("orders")
    connection.close()
    assert operator.depth("orders") == 2


def test_a_closed_publisher_refuses_and_leaves_the_others(operator: Operator, connection: Connection) -> None:
    operator.create("orders", capacity_messages=1)
    with connection.publisher("orders") as publisher:
        publisher.send(1)
        publisher.send(2)
        sending = begin(publisher.send, 3)
        operator.until_blocked("orders")
    with pytest.raises(NotSent, match="the publisher to orders is closed"):
        sending.result(WITHIN)
    with pytest.raises(NotSent, match="the publisher to orders is closed"):
        publisher.send(4)
    operator.until(lambda: not operator.producers("orders"), "its link has gone")
    connection.publisher("elsewhere").send(5)


def test_closed_connections_leave_no_thread_and_no_file_behind(broker: BrokerThread) -> None:
    def left() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    with connect(broker.url) as connection:
        connection.publisher("orders").send("x")  # the broker, in this process too, opens its store for the queue
    wait_until(lambda: not broker.look(lambda s: s._listeners), "the broker has closed its end")
    before = left()
    for _ in range(3):
        with connect(broker.url) as connection:
            connection.publisher("orders").send("x")
        with pytest.raises(ConnectionFailed):
            connect(f"amqp://127.0.0.1:{free_port()}")
    wait_until(lambda: left() <= before, "they have gone")
