"""Local transactions: requests to the coordinator, against a stub of it; and the result for the
messages, and of the transaction when a queue is full, against the real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

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


def test_block_without_an_error_commits_its_messages(stub: StubBroker, connection: Connection) -> None:
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
    with pytest.raises(TransactionFailed, match="has ended"):
        transaction.commit()


def test_a_transaction_that_is_over_takes_no_message(stub: StubBroker, connection: Connection) -> None:
    with connection.transaction() as transaction:
        pass
    with pytest.raises(TransactionFailed, match="the transaction has ended: committed"):
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


# -- against the real broker ------------------------------------------------------------------------------------------


def test_messages_of_a_transaction_are_in_the_real_queue_from_the_commit_on(
    broker: BrokerThread, operator: Operator
) -> None:
    with connect(broker.url) as connection:
        publisher = connection.publisher("orders")
        with connection.transaction() as transaction:
            publisher.send("a", transaction=transaction)
            assert operator.uncommitted("orders") == operator.depth("orders") == 1
        assert operator.uncommitted("orders") == 0
        assert operator.take("orders", 1) == ["a"]


def test_a_rollback_leaves_nothing_in_the_real_queues(broker: BrokerThread, operator: Operator) -> None:
    with connect(broker.url) as connection:
        orders, bills = connection.publisher("orders"), connection.publisher("bills")
        transaction = connection.transaction()
        orders.send("a", transaction=transaction)
        bills.send(Message(body="b", durable=True), transaction=transaction)
        transaction.rollback()
        assert operator.depth("orders") == operator.depth("bills") == 0
        with connection.transaction() as another:
            orders.send("c", transaction=another)
        assert operator.take("orders", 1) == ["c"]


def test_durable_messages_of_a_transaction_survive_a_restart_together(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, connect(broker.url) as connection:
        with connection.transaction() as committed:
            for queue in ("orders", "bills"):
                connection.publisher(queue).send(Message(body="committed", durable=True), transaction=committed)
        lost = connection.transaction()
        connection.publisher("orders").send(Message(body="lost", durable=True), transaction=lost)
    with BrokerThread(tmp_path) as broker:
        operator = Operator(broker)
        assert operator.depth("orders") == operator.depth("bills") == 1
        assert operator.take("orders", 1) == operator.take("bills", 1) == ["committed"]


@pytest.mark.domain("2 client")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_send_that_times_out_on_a_full_queue_leaves_session_and_transaction_usable(
    broker: BrokerThread, operator: Operator, clock: FakeClock, ending: str
) -> None:
    operator.create("orders", capacity_messages=2)
    with connect(broker.url, clock=clock) as connection:
        orders, elsewhere = connection.publisher("orders", send_timeout=30), connection.publisher("elsewhere")
        transaction = connection.transaction()
        elsewhere.send("before", transaction=transaction)
        for body in "abc":
            orders.send(body, transaction=transaction)
        late = begin(orders.send, "late", transaction=transaction)
        operator.until_blocked("orders")
        assert "3 of them in open transactions" in operator.producers("orders")[0]["release"]
        clock.advance(30)
        with pytest.raises(SendTimeout):
            late.result(WITHIN)
        elsewhere.send("after", transaction=transaction)
        if ending == "commit":
            transaction.commit()
            assert operator.take("orders", 3) == ["a", "b", "c"]
            assert operator.take("elsewhere", 2) == ["before", "after"]
        else:
            transaction.rollback()
            assert operator.depth("orders") == operator.depth("elsewhere") == 0
        orders.send("later")
        assert operator.take("orders", 1) == ["later"]


def test_transaction_that_fills_a_queue_continues_when_others_consume(
    broker: BrokerThread, operator: Operator, clock: FakeClock
) -> None:
    operator.create("orders", capacity_messages=2)
    operator.publish("orders", "x", "y")
    with connect(broker.url, clock=clock) as connection:
        orders = connection.publisher("orders")
        with connection.transaction() as transaction:
            orders.send("a", transaction=transaction)
            second = begin(orders.send, "b", transaction=transaction)
            operator.until_blocked("orders")
            assert operator.take("orders", 2) == ["x", "y"]
            second.result(WITHIN)
        assert operator.take("orders", 2) == ["a", "b"]


def test_a_message_that_the_real_queue_rejects_leaves_the_transaction(broker: BrokerThread, operator: Operator) -> None:
    operator.create("orders", capacity_messages=1, mechanism="reject")
    with connect(broker.url) as connection:
        publisher = connection.publisher("orders")
        with connection.transaction() as transaction:
            publisher.send("a", transaction=transaction)
            publisher.send("b", transaction=transaction)
            with pytest.raises(Rejected, match="amqp:resource-limit-exceeded: queue orders is full"):
                publisher.send("c", transaction=transaction)
        assert operator.take("orders", 2) == ["a", "b"]


def test_transactions_of_threads_on_one_connection_are_apart(broker: BrokerThread, operator: Operator) -> None:
    def work(connection: Connection, number: int) -> None:
        publisher = connection.publisher("orders")
        for turn in range(10):
            transaction = connection.transaction()
            publisher.send(f"{number}.{turn} a", transaction=transaction)
            publisher.send(f"{number}.{turn} b", transaction=transaction)
            if turn % 3:
                transaction.commit()
            else:
                transaction.rollback()

    with connect(broker.url) as connection:
        working = [begin(work, connection, number) for number in range(8)]
        for each in working:
            each.result(WITHIN)
    found = operator.take("orders", 8 * 6 * 2)
    assert operator.depth("orders") == 0
    for at in range(0, len(found), 2):
        assert [found[at].split()[1], found[at + 1].split()[1]] == ["a", "b"]
        assert found[at].split()[0] == found[at + 1].split()[0], "each is seen as a whole"
