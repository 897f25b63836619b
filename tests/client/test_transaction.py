"""Messages that count together. Against a stub that plays the coordinator, since what counts here is what is told to
it; `tests/interop` and the engine's own tests see what becomes of the messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokers.client import Connection, Rejected, SendTimeout, TransactionFailed, connect
from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until
from tests.client.conftest import begin
from tests.client.fake_clock import FakeClock
from tests.client.operator import Operator
from tests.client.stub_broker import StubBroker, accept, reject


@pytest.fixture
def stub() -> Iterator[StubBroker]:
    with StubBroker(credit=2) as running:
        running.settle = accept
        yield running


@pytest.fixture
def connection(stub: StubBroker, clock: FakeClock) -> Iterator[Connection]:
    with connect(stub.url, clock=clock) as made:
        yield made


def test_a_block_that_ends_well_commits_what_was_sent_in_it(stub: StubBroker, connection: Connection) -> None:
    orders, bills = connection.publisher("orders"), connection.publisher("bills")
    with connection.transaction() as transaction:
        orders.send("a", transaction=transaction)
        bills.send("b", transaction=transaction)
        orders.send("not in it")
    assert stub.control == [("declare", None), ("commit", b"tx-1")]
    assert list(zip(stub.bodies, stub.transactions, strict=True)) == [
        ("a", b"tx-1"),
        ("b", b"tx-1"),
        ("not in it", None),
    ]


def test_an_exception_in_the_block_rolls_back(stub: StubBroker, connection: Connection) -> None:
    def fails() -> None:
        with connection.transaction() as transaction:
            connection.publisher("orders").send("a", transaction=transaction)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert stub.control == [("declare", None), ("rollback", b"tx-1")]


def test_a_send_that_times_out_leaves_the_transaction_to_be_committed(
    stub: StubBroker, connection: Connection, clock: FakeClock
) -> None:
    publisher = connection.publisher("orders", send_timeout=30, notify_period=None)
    with connection.transaction() as transaction:
        publisher.send("a", transaction=transaction)
        publisher.send("b", transaction=transaction)
        late = begin(publisher.send, "late", transaction=transaction)
        clock.advance(30)
        with pytest.raises(SendTimeout):
            late.result(WITHIN)
        stub.do(lambda: stub.links[0].flow(1))
        publisher.send("c", transaction=transaction)
    assert stub.control == [("declare", None), ("commit", b"tx-1")]
    assert stub.bodies == ["a", "b", "c"]
    assert set(stub.transactions) == {b"tx-1"}


def test_a_message_rejected_in_a_transaction_raises_and_leaves_it(stub: StubBroker, connection: Connection) -> None:
    publisher = connection.publisher("orders")
    with connection.transaction() as transaction:
        stub.settle = reject
        with pytest.raises(Rejected, match="amqp:resource-limit-exceeded: queue orders is full"):
            publisher.send("a", transaction=transaction)
        stub.settle = accept
        publisher.send("b", transaction=transaction)
    assert stub.control[-1] == ("commit", b"tx-1")


def test_a_commit_that_the_broker_refuses_raises_with_the_condition(stub: StubBroker, connection: Connection) -> None:
    stub.refuse_commit = True
    transaction = connection.transaction()
    with pytest.raises(TransactionFailed, match="it does not fit") as raised:
        transaction.commit()
    assert raised.value.condition == "amqp:transaction:rollback"
    with pytest.raises(TransactionFailed, match="over"):
        transaction.commit()


def test_a_transaction_that_is_over_takes_no_message(stub: StubBroker, connection: Connection) -> None:
    with connection.transaction() as transaction:
        pass
    with pytest.raises(TransactionFailed, match="the transaction is over: committed"):
        connection.publisher("orders").send("late", transaction=transaction)
    assert stub.bodies == []


def test_a_lost_connection_loses_the_transaction(stub: StubBroker, connection: Connection) -> None:
    publisher = connection.publisher("orders")
    publisher.send("a")
    transaction = connection.transaction()
    stub.drop()
    wait_until(lambda: connection.epoch > 1, "the client has noticed")
    publisher.send("b")  # on the connection that came after it
    with pytest.raises(TransactionFailed, match="lost with the connection"):
        publisher.send("c", transaction=transaction)
    with pytest.raises(TransactionFailed, match="lost with the connection"):
        transaction.commit()
    assert stub.bodies == ["a", "b"]


def test_messages_of_a_transaction_are_in_the_real_queue_from_the_commit_on(
    broker: BrokerThread, operator: Operator
) -> None:
    with connect(broker.url) as connection:
        publisher = connection.publisher("orders")
        with connection.transaction() as transaction:
            publisher.send("a", transaction=transaction)
            assert operator.read("orders")["uncommitted_messages"] == 1
            assert operator.copies("orders") == []
        assert operator.take("orders", 1) == ["a"]
