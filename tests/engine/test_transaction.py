"""Transactions and flow control: what counts when, and how overfull queues and transactions affect each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from brokers.engine.flow.parking import COMMIT_WAIT_MS
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import State as QueueState
from brokers.engine.flow.turn import Discharged, Effect, Settled
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.transaction import ROLLED_BACK, Acknowledgement, State, Transaction
from brokers.engine.services.fan_out import FanOut, RoutedMessage
from brokers.engine.services.transactions import MOST_OPEN, TIMED_OUT
from brokers.engine.values.message import PLAIN, Header
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.stops import Scope
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Link


class Recording(InMemoryBroker):
    """Records every effect."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        super().__init__()

    def _carry_out(self, effect: Effect) -> None:
        self.effects.append(effect)
        super()._carry_out(effect)

    def queue(self, name: str = "q", **policy: Any) -> Queue:
        return self.engine.create_queue(self.engine.virtualhost("default"), name, policy)

    def begin(self, producer: Producer) -> Transaction:
        transaction = self.engine.transactions.declare(producer.connection, Link())
        assert transaction is not None
        return transaction

    def send(
        self, transaction: Transaction, producer: Producer, *bodies: bytes, unsettled: bool = True
    ) -> list[Verdict]:
        verdicts = []
        for body in bodies:
            verdicts.append(transaction.publish(producer, body, unsettled=unsettled))
            self._end_turn()
        return verdicts

    def commit(self, transaction: Transaction) -> State:
        self.engine.transactions.commit(transaction)
        self._end_turn()
        return transaction.state

    def roll_back(self, transaction: Transaction) -> None:
        self.engine.transactions.roll_back(transaction)
        self._end_turn()

    def stop(self) -> None:
        self.engine.stopping.stop_producers(Scope(), "a test", "anna")
        self._end_turn()

    def start(self) -> None:
        self.engine.stopping.start_producers(Scope(), "", "anna")
        self._end_turn()

    def settled(self, producer: Producer) -> list[Outcome]:
        return [
            e.outcome
            for e in self.effects
            if isinstance(e, Settled) and e.port is producer.handle
            for _ in range(e.count)
        ]

    def discharged(self, transaction: Transaction) -> bool:
        return any(isinstance(e, Discharged) and e.transaction is transaction for e in self.effects)


@pytest.fixture
def broker() -> Iterator[Recording]:
    running = Recording()
    yield running
    for connection in list(running.engine.connections.values()):
        running.engine.close_connection(connection)
    running._end_turn()
    assert not running.engine.transactions._open
    for queue in running.engine.queues():
        assert (queue.gate.uncommitted_messages, queue.gate.uncommitted_bytes) == (0, 0)


def bodies(queue: Queue) -> list[bytes]:
    return [body for _, body in queue.lanes.copies(queue.lanes.usual, 0, 10_000)]


# -- what counts when -------------------------------------------------------------------------------------------------


def test_message_counts_on_arrival_and_is_visible_after_the_commit(broker: Recording) -> None:
    queue, producer = broker.queue(), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a", b"bb")
    assert (queue.gate.depth_messages, queue.gate.depth_bytes, queue.gate.uncommitted_messages) == (2, 3, 2)
    assert bodies(queue) == []
    assert queue.lanes.unacknowledged == 0
    assert broker.commit(transaction) is State.COMMITTED
    assert (queue.gate.depth_messages, queue.gate.depth_bytes, queue.gate.uncommitted_messages) == (2, 3, 0)
    assert bodies(queue) == [b"a", b"bb"]
    assert broker.discharged(transaction)


@pytest.mark.domain("3 known weakness")
def test_concurrent_transactions_overshoot_by_one_message_at_most_before_and_after_their_commits(
    broker: Recording,
) -> None:
    queue = broker.queue(capacity_messages=10)
    producers = [broker.attach_producer("q") for _ in range(20)]
    transactions = [broker.begin(p) for p in producers]
    for _ in range(200):
        broker.advance(100)
        for transaction, producer in zip(transactions, producers, strict=True):
            if producer.credit:
                broker.send(transaction, producer, b"x")
    assert queue.gate.depth_messages == 11
    assert sum(t.published_messages for t in transactions) == 11
    assert sum(bool(t.published) for t in transactions) > 1, "the transactions are concurrent"
    for transaction in transactions:
        assert broker.commit(transaction) is State.COMMITTED
    assert queue.gate.depth_messages == len(bodies(queue)) == 11


def test_messages_are_ordered_by_their_commit(broker: Recording) -> None:
    queue = broker.queue()
    first, second = broker.attach_producer("q"), broker.attach_producer("q")
    one, two = broker.begin(first), broker.begin(second)
    broker.send(one, first, b"a")
    broker.send(two, second, b"b")
    queue.publish(first, b"c")
    broker.commit(two)
    broker.commit(one)
    assert bodies(queue) == [b"c", b"b", b"a"]


def test_rollback_ends_overfull_and_grants_credit_to_others(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=3)
    producer, other = broker.attach_producer("q"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.advance(1000)
    while producer.credit:
        broker.send(transaction, producer, b"x")
        broker.advance(500)
    assert queue.gate.state is QueueState.OVERFULL
    assert not other.credit
    assert "4 of them in open transactions" in other.release_condition()
    broker.roll_back(transaction)
    assert queue.gate.state is QueueState.NORMAL
    assert queue.gate.depth_messages == 0
    assert other.credit


def test_closed_connection_rolls_back(broker: Recording) -> None:
    queue, producer = broker.queue(), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"x")
    broker.engine.close_connection(producer.connection)
    assert transaction.state is State.ROLLED_BACK
    assert queue.gate.depth_messages == 0


def test_deleted_queue_loses_its_part_of_a_transaction(broker: Recording) -> None:
    gone, queue = broker.queue("gone"), broker.queue()
    producer, other = broker.attach_producer("gone"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"x")
    broker.send(transaction, other, b"y")
    broker.engine.delete_queue(gone)
    assert broker.commit(transaction) is State.COMMITTED
    assert bodies(queue) == [b"y"]
    gone.gate.uncommitted_messages = gone.gate.uncommitted_bytes = 0


def test_number_of_transactions_of_a_connection_is_bounded(broker: Recording) -> None:
    producer = broker.attach_producer("q")
    opened = [broker.begin(producer) for _ in range(MOST_OPEN)]
    assert broker.engine.transactions.declare(producer.connection, Link()) is None
    broker.roll_back(opened[0])
    broker.begin(producer)


# -- overflow policies ------------------------------------------------------------------------------------------------


def test_rejected_message_leaves_the_rest_of_the_transaction(broker: Recording) -> None:
    queue, producer = broker.queue(capacity_messages=2, mechanism="reject"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    assert broker.send(transaction, producer, b"a", b"b", b"c", b"d") == [Verdict.ACCEPTED] * 3 + [Verdict.REJECTED]
    assert broker.commit(transaction) is State.COMMITTED
    assert bodies(queue) == [b"a", b"b", b"c"]


def test_rejected_message_that_was_sent_settled_fails_the_transaction(broker: Recording) -> None:
    queue, producer = broker.queue(capacity_messages=2, mechanism="reject"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a", b"b", b"c", b"d", unsettled=False)
    assert transaction.fault is not None
    assert transaction.fault[0] == ROLLED_BACK
    assert queue.gate.depth_messages == 0
    assert broker.commit(transaction) is State.ROLLED_BACK
    assert transaction not in transaction.connection.transactions.values()


def test_commit_waits_for_a_parked_message_until_there_is_room(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=1, mechanism="reject-after", reject_after_ms=60_000)
    producer = broker.attach_producer("q")
    queue.publish(producer, b"1")
    queue.publish(producer, b"2")
    transaction = broker.begin(producer)
    assert broker.send(transaction, producer, b"a") == [Verdict.PENDING]
    assert broker.commit(transaction) is State.COMMITTING
    queue.lanes.purge()
    broker._end_turn()
    assert transaction.state is State.COMMITTED
    assert bodies(queue) == [b"a"]
    assert broker.settled(producer) == [Outcome.ACCEPTED]


LONG = 600_000


def waiting_commits(broker: Recording, count: int) -> tuple[Queue, list[Transaction]]:
    """A queue above its 1,000 bytes by the messages of the first transaction, and `count` transactions that wait for
    a message of 5,000 bytes, all but the last being committed."""
    queue = broker.queue(capacity_bytes=1000, mechanism="reject-after", reject_after_ms=LONG)
    queue.enqueue(b"x" * 900)
    producers = [broker.attach_producer("q") for _ in range(count)]
    transactions = [broker.begin(producer) for producer in producers]
    assert broker.send(transactions[0], producers[0], b"x" * 200) == [Verdict.ACCEPTED]
    for transaction, producer in zip(transactions, producers, strict=True):
        assert broker.send(transaction, producer, b"x" * 5000) == [Verdict.PENDING]
    for transaction in transactions[:-1]:
        assert broker.commit(transaction) is State.COMMITTING
    return queue, transactions


def states(transactions: list[Transaction]) -> list[State]:
    return [transaction.state for transaction in transactions]


@pytest.mark.domain("3 known weakness")
def test_commit_that_waits_for_its_own_room_is_admitted_alone_after_a_second(broker: Recording) -> None:
    queue, transactions = waiting_commits(broker, 4)
    broker.advance(COMMIT_WAIT_MS - 100)
    assert (queue.gate.depth_bytes, set(states(transactions[:3]))) == (1100, {State.COMMITTING})
    broker.advance(200)
    assert states(transactions) == [State.COMMITTED, State.COMMITTING, State.COMMITTING, State.OPEN]
    assert queue.gate.depth_bytes == 6100
    broker.advance(10 * COMMIT_WAIT_MS)  # the others wait for consumers to make room
    assert (queue.gate.depth_bytes, len(queue.gate.parked)) == (6100, 3)
    queue.lanes.purge()
    broker._end_turn()
    broker.advance(50)
    assert states(transactions)[:2] == [State.COMMITTED, State.COMMITTED]
    assert queue.gate.depth_bytes == 5000
    queue.lanes.purge()
    broker._end_turn()
    assert states(transactions) == [State.COMMITTED, State.COMMITTED, State.COMMITTED, State.OPEN]


def test_one_commit_is_admitted_at_a_time_while_another_transaction_has_the_room(broker: Recording) -> None:
    queue, transactions = waiting_commits(broker, 4)
    holder = broker.attach_producer("q")
    acquired = broker.begin(holder)
    queue.gate.uncommitted_messages += 1  # as if it had published something
    seen = []
    for _ in range(40):
        broker.advance(50)
        seen.append(queue.gate.depth_bytes)
    queue.gate.uncommitted_messages -= 1
    assert sorted(set(seen)) == [1100, 6100, 11_100, 16_100]
    assert states(transactions) == [State.COMMITTED] * 3 + [State.OPEN]
    broker.roll_back(acquired)


def test_commit_that_consumes_from_the_queue_it_waits_for_is_admitted_after_a_second(broker: Recording) -> None:
    queue = broker.queue(capacity_bytes=1000, mechanism="reject-after", reject_after_ms=LONG)
    consumer = broker.attach_consumer("q")
    consumer.credit = 1
    queue.enqueue(b"x" * 1100)
    broker._end_turn()
    producer = broker.attach_producer("q")
    transaction = broker.begin(producer)
    assert broker.send(transaction, producer, b"y" * 1100) == [Verdict.PENDING]
    (message,) = [message for _, message in broker.acquired]
    transaction.acknowledge(Acknowledgement(consumer, message, removes=True, failed=False, barred=False, settled=False))
    assert broker.commit(transaction) is State.COMMITTING
    broker.advance(COMMIT_WAIT_MS + 100)
    assert transaction.state is State.COMMITTED
    assert bodies(queue) == [b"y" * 1100]


@pytest.mark.parametrize("how", ["not in a transaction", "not being committed", "nothing uncommitted"])
def test_other_commits_wait_for_room(broker: Recording, how: str) -> None:
    queue = broker.queue(capacity_bytes=1000, mechanism="reject-after", reject_after_ms=LONG)
    queue.enqueue(b"x" * 1100)
    broker._end_turn()
    producer = broker.attach_producer("q")
    if how == "not in a transaction":
        assert queue.publish(producer, b"y" * 100) is Verdict.PENDING
    else:
        transaction = broker.begin(producer)
        assert broker.send(transaction, producer, b"y" * 100) == [Verdict.PENDING]
        if how == "nothing uncommitted":
            broker.commit(transaction)
    broker.advance(10 * COMMIT_WAIT_MS)
    assert (queue.gate.depth_bytes, len(queue.gate.parked)) == (1100, 1)


def test_parked_message_past_its_deadline_leaves_the_transaction(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=2, mechanism="reject-after", reject_after_ms=200)
    producer = broker.attach_producer("q")
    transaction = broker.begin(producer)
    verdicts = broker.send(transaction, producer, b"a", b"b", b"c", b"late")
    assert verdicts == [Verdict.ACCEPTED] * 3 + [Verdict.PENDING]
    assert broker.commit(transaction) is State.COMMITTING
    broker.advance(300)
    assert broker.settled(producer) == [Outcome.REJECTED]
    assert transaction.state is State.COMMITTED
    assert bodies(queue) == [b"a", b"b", b"c"]


def test_parked_message_sent_settled_past_its_deadline_fails_the_commit(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=2, mechanism="reject-after", reject_after_ms=200)
    producer = broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a", b"b", b"c", b"late", unsettled=False)
    broker.commit(transaction)
    broker.advance(300)
    assert transaction.state is State.ROLLED_BACK
    assert broker.discharged(transaction)
    assert queue.gate.depth_messages == 0


def test_rollback_rejects_parked_messages(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=1, mechanism="reject-after", reject_after_ms=60_000)
    producer = broker.attach_producer("q")
    queue.publish(producer, b"1")
    queue.publish(producer, b"2")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a")
    broker.roll_back(transaction)
    assert broker.settled(producer) == [Outcome.ROLLED_BACK]
    queue.lanes.purge()
    broker._end_turn()
    assert queue.gate.depth_messages == 0


def test_link_that_ends_with_a_parked_message_rolls_back_the_waiting_commit(broker: Recording) -> None:
    queue = broker.queue(capacity_messages=1, mechanism="reject-after", reject_after_ms=60_000)
    producer, elsewhere = broker.attach_producer("q"), broker.attach_producer("elsewhere")
    queue.publish(producer, b"1")
    queue.publish(producer, b"2")
    transaction = broker.begin(producer)
    broker.send(transaction, elsewhere, b"x")
    broker.send(transaction, producer, b"a")
    broker.commit(transaction)
    broker.engine.detach(producer)
    broker._end_turn()
    assert transaction.state is State.ROLLED_BACK
    assert elsewhere.queue.gate.depth_messages == 0


def test_withheld_settlement_does_not_delay_the_commit(broker: Recording) -> None:
    queue, producer = broker.queue(capacity_messages=1, mechanism="hold"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    assert broker.send(transaction, producer, b"a", b"b", b"c") == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.PENDING]
    assert broker.commit(transaction) is State.COMMITTED
    assert bodies(queue) == [b"a", b"b", b"c"]
    assert broker.settled(producer) == []
    queue.lanes.purge()
    broker._end_turn()
    assert broker.settled(producer) == [Outcome.ACCEPTED]


def test_ring_drops_its_oldest_at_the_commit_and_nothing_for_a_rollback(broker: Recording) -> None:
    queue, producer = broker.queue(capacity_messages=3, overflow="ring"), broker.attach_producer("q")
    for body in (b"1", b"2", b"3"):
        queue.publish(producer, body)
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a", b"b")
    assert bodies(queue) == [b"1", b"2", b"3"]
    queue.publish(producer, b"4")
    assert bodies(queue) == [b"2", b"3", b"4"]
    broker.roll_back(transaction)
    assert bodies(queue) == [b"2", b"3", b"4"]
    again = broker.begin(producer)
    broker.send(again, producer, b"a", b"b")
    broker.commit(again)
    assert bodies(queue) == [b"4", b"a", b"b"]


def test_committed_message_of_a_spooling_queue_goes_to_the_temp_store(broker: Recording) -> None:
    stores = FakeStores()
    broker.engine.stores.provider = stores
    broker.queue(capacity_messages=2, spool="disk")
    producer = broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, *(b"%d" % n for n in range(5)))
    broker.commit(transaction)
    assert [body for _, _, body in stores.by_name[""].puts], "messages above the capacity are spooled"
    consumer = broker.attach_consumer("q")
    assert broker.consume(consumer, 10) == 5


def test_commit_succeeds_while_producers_are_stopped(broker: Recording) -> None:
    queue, producer = broker.queue(), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"a")
    broker.stop()
    assert broker.commit(transaction) is State.COMMITTED
    assert bodies(queue) == [b"a"]


def test_commit_waits_for_a_message_parked_by_a_stop(broker: Recording) -> None:
    queue, producer = broker.queue(), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.stop()
    assert broker.send(transaction, producer, b"in flight") == [Verdict.PENDING]
    assert broker.commit(transaction) is State.COMMITTING
    assert queue.gate.depth_messages == 0
    broker.start()
    assert transaction.state is State.COMMITTED
    assert bodies(queue) == [b"in flight"]


# -- a fan-out -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fan_out(broker: Recording) -> FanOut:
    producer = broker.attach_producer("other")
    settled: list[RoutedMessage] = []
    fan_out = FanOut(broker.engine.links, producer.connection, "link", 0, settled.append)
    fan_out.delivered = settled  # type: ignore[attr-defined]
    return fan_out


def pump(broker: Recording, *queues: Queue) -> None:
    for queue in queues:
        for producer in queue.gate.grant():
            if producer.handle is not None:
                producer.handle.sync_credit()


def declare(broker: Recording, fan_out: FanOut) -> Transaction:
    transaction = broker.engine.transactions.declare(fan_out.connection, Link())
    assert transaction is not None
    return transaction


def test_routed_message_is_in_all_its_queues_after_the_commit(broker: Recording, fan_out: FanOut) -> None:
    one, two = broker.queue("one"), broker.queue("two")
    transaction = declare(broker, fan_out)
    fan_out.publish(b"a", [one, two], 1, transaction.enrolment(unsettled=True))
    pump(broker, one, two)
    assert (one.gate.uncommitted_messages, two.gate.uncommitted_messages) == (1, 1)
    assert broker.commit(transaction) is State.COMMITTED
    assert bodies(one) == bodies(two) == [b"a"]


def test_commit_waits_for_a_routed_message_until_its_queues_have_room(broker: Recording, fan_out: FanOut) -> None:
    full, free = broker.queue("full", capacity_messages=1), broker.queue("free")
    filling = broker.attach_producer("full")
    full.publish(filling, b"1")
    full.publish(filling, b"2")
    transaction = declare(broker, fan_out)
    fan_out.publish(b"a", [full, free], 1, transaction.enrolment(unsettled=True))
    pump(broker, full, free)
    assert broker.commit(transaction) is State.COMMITTING
    full.lanes.purge()
    pump(broker, full, free)
    assert transaction.state is State.COMMITTED
    assert bodies(full) == bodies(free) == [b"a"]


def test_rollback_rejects_a_waiting_routed_message(broker: Recording, fan_out: FanOut) -> None:
    full = broker.queue("full", capacity_messages=1)
    filling = broker.attach_producer("full")
    full.publish(filling, b"1")
    full.publish(filling, b"2")
    transaction = declare(broker, fan_out)
    fan_out.publish(b"a", [full], 1, transaction.enrolment(unsettled=True))
    broker.roll_back(transaction)
    assert [p.outcome for p in fan_out.delivered] == [Outcome.ROLLED_BACK]  # type: ignore[attr-defined]
    full.lanes.purge()
    pump(broker, full)
    assert full.gate.depth_messages == 0


# -- idle transactions ------------------------------------------------------------------------------------------------


def test_idle_transaction_with_messages_is_rolled_back_and_its_commit_fails(
    broker: Recording,
) -> None:
    broker.engine.virtualhost("default").transaction_idle_limit_ms = 1000
    queue, producer = broker.queue(), broker.attach_producer("q")
    transaction, empty = broker.begin(producer), broker.begin(producer)
    broker.send(transaction, producer, b"a")
    broker.engine.turn.now += 999
    broker.engine.transactions.sweep()
    assert transaction.state is State.OPEN
    broker.engine.turn.now += 1
    broker.engine.transactions.sweep()
    broker._end_turn()
    assert transaction.fault == (TIMED_OUT, "the transaction was idle for 1,000 ms")
    assert queue.gate.depth_messages == 0
    assert "CON-1011 : Idle Transaction : 1,000 ms" in broker._events[-1].text
    assert empty.state is State.OPEN, "it has no messages"
    assert broker.commit(transaction) is State.ROLLED_BACK
    assert broker.commit(empty) is State.COMMITTED


# -- the store --------------------------------------------------------------------------------------------------------


@pytest.fixture
def durable(broker: Recording) -> Queue:
    broker.engine.stores.provider = FakeStores()
    broker.engine.turn.header = lambda body: Header(durable=True) if body.startswith(b"D") else PLAIN
    queue = broker.engine.create_queue(broker.engine.virtualhost("default"), "durable", durable=True)
    assert queue.durable is not None
    return queue


def store(queue: Queue) -> FakeStore:
    assert isinstance(queue.durable.store, FakeStore)
    return queue.durable.store


def test_transaction_is_invisible_until_the_store_has_it(broker: Recording, durable: Queue) -> None:
    other = broker.queue()
    producer, elsewhere = broker.attach_producer("durable"), broker.attach_producer("q")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"T", b"D")
    broker.send(transaction, elsewhere, b"not stored")
    assert not store(durable).puts
    assert broker.commit(transaction) is State.WRITING
    durable.publish(producer, b"behind")
    assert bodies(durable) == bodies(other) == []
    assert not broker.discharged(transaction)
    store(durable).write(broker.engine)
    broker._end_turn()
    assert bodies(durable) == [b"T", b"D", b"behind"]
    assert bodies(other) == [b"not stored"]
    assert broker.discharged(transaction)


def test_transaction_refused_by_the_store_is_rolled_back_everywhere(broker: Recording, durable: Queue) -> None:
    other = broker.queue()
    producer, elsewhere = broker.attach_producer("durable"), broker.attach_producer("q")
    consumer = broker.attach_consumer("q", 0)
    other.publish(elsewhere, b"taken")
    consumer.credit = 1
    broker._end_turn()
    ((_, message),) = broker.acquired
    transaction = broker.begin(producer)
    acknowledgement = Acknowledgement(consumer, message, removes=True, failed=False, barred=False, settled=True)
    transaction.acknowledge(acknowledgement)
    broker.send(transaction, producer, b"D")
    broker.send(transaction, elsewhere, b"not stored")
    broker.commit(transaction)
    store(durable).write(broker.engine, refused=[transaction.number])
    broker._end_turn()
    assert transaction.state is State.ROLLED_BACK
    assert transaction.fault is not None
    assert transaction.fault[0] == ROLLED_BACK
    assert (durable.gate.depth_messages, durable.gate.rejected) == (0, 0)
    assert bodies(other) == [b"taken"]
    assert other.lanes.deliveries == {message[0]: 1}
    assert not store(durable).stored


def test_deleting_a_virtual_host_ends_its_unanswered_commits(broker: Recording, durable: Queue) -> None:
    producer = broker.attach_producer("durable")
    transaction = broker.begin(producer)
    broker.send(transaction, producer, b"D")
    broker.commit(transaction)
    broker.engine.close_connection(producer.connection)
    broker.engine.delete_virtualhost(broker.engine.virtualhost("default"))
    broker.engine.transactions.sweep()
    assert not broker.engine.transactions._open


# -- management -------------------------------------------------------------------------------------------------------


def test_open_transactions_are_counted_in_attributes(broker: Recording) -> None:
    broker.queue()
    producer = broker.attach_producer("q")
    first, _second = broker.begin(producer), broker.begin(producer)
    broker.send(first, producer, b"abc")
    read = broker.management.read
    assert read(object_name("Broker")).attributes["open_transactions"] == 2
    assert read(object_name("VirtualHost", name="default")).attributes["open_transactions"] == 2
    connection = read(producer.connection.name).attributes
    assert (connection["open_transactions"], connection["oldest_transaction"]) == (2, first.began)
    queue = read(object_name("Queue", virtualhost="default", name="q")).attributes
    assert (queue["uncommitted_messages"], queue["uncommitted_bytes"]) == (1, 3)
