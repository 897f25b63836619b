"""The outcomes of a message, or a missing one, and how the client reports each."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from brokers.client import Connection, NotSent, Rejected, Released, SendInDoubt, SendTimeout, connect
from tests.amqp.broker_thread import WITHIN, wait_until
from tests.client.conftest import begin
from tests.client.fake_clock import FakeClock
from tests.client.stub_broker import StubBroker, accept, reject, release


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    with StubBroker() as running:
        yield running


@pytest.fixture
def connection(stub: StubBroker, clock: FakeClock) -> Iterator[Connection]:
    with connect(stub.url, clock=clock) as made:
        yield made


def test_a_rejected_message_raises_with_the_condition(stub: StubBroker, connection: Connection) -> None:
    publisher = connection.publisher("orders")
    stub.settle = reject
    with pytest.raises(Rejected, match=r"to orders: amqp:resource-limit-exceeded: queue orders is full") as raised:
        publisher.send("x")
    assert raised.value.condition == "amqp:resource-limit-exceeded"
    assert not isinstance(raised.value, NotSent)
    stub.settle = accept
    publisher.send("y")
    assert stub.bodies == ["x", "y"]


def test_a_released_message_raises_released(stub: StubBroker, connection: Connection) -> None:
    stub.settle = release
    with pytest.raises(Released, match="released a message to orders"):
        connection.publisher("orders").send("x")


def test_a_withheld_settlement_blocks_send_and_is_logged(
    stub: StubBroker, connection: Connection, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    sending = begin(connection.publisher("orders", notify_period=5).send, "x")
    stub.until(lambda: len(stub.unsettled) == 1, "the message has arrived")
    with caplog.at_level(logging.WARNING, "headgate.client"):
        clock.advance(5)
        wait_until(lambda: caplog.messages, "it is said")
    assert caplog.messages == ["Message send delayed by 5s due to broker enforced flow control"]
    assert not sending.done()
    stub.do(lambda: accept(stub, stub.unsettled.pop()))
    sending.result(WITHIN)


def test_no_settlement_within_the_time_limit_is_in_doubt_and_not_a_send_timeout(
    stub: StubBroker, connection: Connection, clock: FakeClock
) -> None:
    publisher = connection.publisher("orders", send_timeout=30)
    sending = begin(publisher.send, "x")
    stub.until(lambda: len(stub.unsettled) == 1, "the message has arrived")
    clock.advance(5)
    clock.advance(25)
    with pytest.raises(SendInDoubt, match="has not settled a message to orders within 30 s") as raised:
        sending.result(WITHIN)
    assert not isinstance(raised.value, NotSent)
    stub.settle = accept
    publisher.send("y")
    stub.do(lambda: accept(stub, stub.unsettled.pop()))  # too late to matter, and harmless
    publisher.send("z")
    assert stub.bodies == ["x", "y", "z"]


def test_without_credit_a_send_that_gave_up_is_not_sent_when_credit_comes(clock: FakeClock) -> None:
    with StubBroker(credit=0) as stub, connect(stub.url, clock=clock) as connection:
        stub.settle = accept
        publisher = connection.publisher("orders")
        sending = begin(publisher.send, "never", send_timeout=2)
        stub.until(lambda: stub.links, "the link is open")
        clock.advance(2)
        with pytest.raises(SendTimeout):
            sending.result(WITHIN)
        stub.do(lambda: stub.links[0].flow(1))
        publisher.send("next")
        assert stub.bodies == ["next"]


def test_a_drain_is_answered_with_all_credit_that_is_left(stub: StubBroker, connection: Connection) -> None:
    stub.settle = accept
    publisher = connection.publisher("orders")
    publisher.send("x")
    link = stub.links[0]
    assert stub.do(lambda: link.credit) == 9
    stub.do(lambda: link.drain(0))
    stub.until(lambda: link.credit == 0, "the credit is back")
    sending = begin(publisher.send, "y")
    stub.do(lambda: link.flow(1))
    sending.result(WITHIN)
    assert stub.bodies == ["x", "y"]


def test_a_drain_that_finds_a_message_waiting_is_answered_after_it(clock: FakeClock) -> None:
    with StubBroker(credit=0) as stub, connect(stub.url, clock=clock) as connection:
        stub.settle = accept
        sending = begin(connection.publisher("orders").send, "x")
        stub.until(lambda: stub.links, "the link is open")
        wait_until(lambda: clock.waiters, "it waits")
        stub.do(lambda: stub.links[0].drain(5))
        sending.result(WITHIN)
        stub.until(lambda: stub.links[0].credit == 0, "the rest is back")
        assert stub.bodies == ["x"]
