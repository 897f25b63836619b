"""The transaction coordinator and transactional states, frame by frame (AMQP 1.0, part 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Described, Message, symbol, uint, ulong

from brokers.amqp.consumer_link import ConsumerLink
from brokers.amqp.producer_link import ProducerLink
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected, fill
from tests.amqp.frames import (
    ACCEPTED,
    ATTACH,
    COORDINATOR,
    DETACH,
    DISPOSITION,
    FLOW,
    RECEIVER,
    TRANSFER,
    Frame,
    Peer,
    described,
    frame,
)

REJECTED, RELEASED, MODIFIED, DECLARED, TRANSACTIONAL = 0x25, 0x26, 0x27, 0x33, 0x34
UNKNOWN = "amqp:transaction:unknown-id"

#: Handles.
CONTROL, OUT, IN = 0, 1, 2


class Client(Peer):
    """A peer with a link to the coordinator."""

    def __init__(self, broker: BrokerThread) -> None:
        super().__init__(broker.port)
        self.taken: list[Frame] = []

    def coordinate(self) -> Frame:
        self.attach(None, name="control", handle=CONTROL, target=described(COORDINATOR))
        answer = self.expect(ATTACH)
        self.expect(FLOW)
        return answer

    def sender(self, address: str | None, handle: int = OUT) -> None:
        self.attach(address, name=f"out {handle}", handle=handle)
        self.expect(ATTACH)
        self.expect(FLOW)

    def receiver(self, address: str, credit: int = 10) -> None:
        self.attach(address, name="in", handle=IN, role=RECEIVER)
        self.expect(ATTACH)
        self.give_credit(credit, handle=IN)

    def ask(self, request: Any, *, settled: bool = False) -> None:
        self.transfer(Message(body=request).encode(), handle=CONTROL, settled=settled)

    def outcome(self) -> Any:
        """The state in the next disposition."""
        return self.expect(DISPOSITION).field(4)

    def declare(self) -> bytes:
        self.ask(described(0x31))
        state = self.outcome()
        assert state.descriptor == DECLARED
        return bytes(state.value[0])

    def commit(self, transaction: bytes) -> Any:
        self.ask(described(0x32, transaction, False))
        return self.outcome()

    def roll_back(self, transaction: bytes) -> None:
        self.ask(described(0x32, transaction, True))
        assert self.outcome().descriptor == ACCEPTED

    def send(self, body: str, transaction: bytes, **options: Any) -> None:
        self.transfer(Message(body=body).encode(), handle=OUT, state=described(TRANSACTIONAL, transaction), **options)

    def outcome_of(self, body: str, transaction: bytes) -> tuple[bytes, int]:
        """Send and hear of it: (transaction, outcome in it)."""
        self.send(body, transaction)
        return within(self.outcome())

    def take(self) -> tuple[int, str, int]:
        """(number, body, delivery count) of the next delivery."""
        got = next((f for f in self.said if f.code == TRANSFER and f not in self.taken), None) or self.expect(TRANSFER)
        self.taken.append(got)
        message = Message()
        message.decode(got.payload)
        return int(got.field(1)), message.body, message.delivery_count

    def dispose(self, number: int, state: Any, *, settled: bool) -> None:
        self.write(frame(DISPOSITION, True, uint(number), uint(number), settled, state))

    def acknowledge(self, number: int, transaction: bytes, *, settled: bool, outcome: Any = None) -> None:
        outcome = outcome or described(ACCEPTED)
        self.dispose(number, described(TRANSACTIONAL, transaction, outcome), settled=settled)


def within(state: Any) -> tuple[bytes, int]:
    assert state.descriptor == TRANSACTIONAL
    return bytes(state.value[0]), int(state.value[1].descriptor)


def error(state: Any) -> str:
    assert state.descriptor == REJECTED
    return str(state.value[0].value[0])


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with Client(broker) as client:
        client.open()
        yield client


@pytest.fixture
def transaction(client: Client) -> bytes:
    client.coordinate()
    return client.declare()


def seen(broker: BrokerThread, queue: str = "q") -> list[str]:
    """The bodies that consumers may have, in order."""
    found = []
    for _, body in broker.see(queue, lambda q: q.lanes.copies(q.lanes.usual, 0, 1000)):
        message = Message()
        message.decode(body)
        found.append(message.body)
    return found


# -- the coordinator --------------------------------------------------------------------------------------------------


def test_a_coordinator_offers_local_transactions(client: Client) -> None:
    target = client.coordinate().field(6)
    assert target.descriptor == COORDINATOR
    assert "amqp:local-transactions" in [str(c) for c in target.value[0].elements]
    assert "amqp:distributed-transactions" not in [str(c) for c in target.value[0].elements]


@pytest.mark.parametrize(
    ("declare", "discharge"), [(ulong(0x31), ulong(0x32)), (symbol("amqp:declare:list"), symbol("amqp:discharge:list"))]
)
def test_requests_may_have_numbers_or_names(client: Client, declare: Any, discharge: Any) -> None:
    client.coordinate()
    client.ask(Described(declare, []))
    transaction = bytes(client.outcome().value[0])
    client.ask(Described(discharge, [transaction]))
    assert client.outcome().descriptor == ACCEPTED, "a fail flag that is not there means commit"


def test_an_unknown_transaction_is_not_discharged(client: Client, transaction: bytes) -> None:
    assert error(client.commit(b"another")) == UNKNOWN
    assert client.commit(transaction).descriptor == ACCEPTED
    assert error(client.commit(transaction)) == UNKNOWN, "it is over"


def test_a_transaction_of_another_connection_is_unknown(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    with Client(broker) as other:
        other.open()
        other.coordinate()
        assert error(other.commit(transaction)) == UNKNOWN
    assert client.commit(transaction).descriptor == ACCEPTED


def test_a_distributed_transaction_is_refused(client: Client) -> None:
    client.coordinate()
    client.ask(described(0x31, b"global"))
    assert error(client.outcome()) == "amqp:not-implemented"


@pytest.mark.parametrize("request_", ["text", described(0x99), Described(ulong(0x31), "no list"), None])
def test_invalid_request_ends_the_link_and_not_the_connection(client: Client, request_: Any) -> None:
    client.coordinate()
    client.ask(request_)
    condition, _ = client.expect_error(DETACH, 2)
    assert condition in {"amqp:decode-error", "amqp:not-implemented"}
    client.is_alive()


def test_a_declaration_that_is_settled_ends_the_link(client: Client) -> None:
    client.coordinate()
    client.ask(described(0x31), settled=True)
    assert client.expect_error(DETACH, 2)[0] == "amqp:not-allowed"


def test_a_client_has_credit_for_any_number_of_transactions_one_after_the_other(client: Client) -> None:
    client.coordinate()
    for _ in range(300):
        assert client.commit(client.declare()).descriptor == ACCEPTED


# -- messages ---------------------------------------------------------------------------------------------------------


def test_message_is_accepted_in_its_transaction_and_visible_after_the_commit(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    client.sender("q")
    assert client.outcome_of("a", transaction) == (transaction, ACCEPTED)
    assert client.outcome_of("b", transaction) == (transaction, ACCEPTED)
    assert (broker.depth("q"), seen(broker)) == (2, [])
    assert client.commit(transaction).descriptor == ACCEPTED
    assert seen(broker) == ["a", "b"]


def test_a_rollback_leaves_nothing(broker: BrokerThread, client: Client, transaction: bytes) -> None:
    client.sender("q")
    client.outcome_of("a", transaction)
    client.roll_back(transaction)
    assert broker.depth("q") == 0


def test_a_durable_message_is_committed_once_it_is_stored(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    client.sender("q")
    client.transfer(Message(body="a", durable=True).encode(), handle=OUT, state=described(TRANSACTIONAL, transaction))
    assert within(client.outcome()) == (transaction, ACCEPTED)
    assert client.commit(transaction).descriptor == ACCEPTED
    assert seen(broker) == ["a"]


def test_a_link_that_sent_before_there_was_a_coordinator_sends_in_transactions(
    broker: BrokerThread, client: Client
) -> None:
    client.sender("q")
    client.transfer(Message(body="before").encode(), handle=OUT)
    assert client.outcome().descriptor == ACCEPTED
    client.coordinate()
    transaction = client.declare()
    assert client.outcome_of("in it", transaction) == (transaction, ACCEPTED)
    client.transfer(Message(body="not in it").encode(), handle=OUT)
    assert client.outcome().descriptor == ACCEPTED
    assert seen(broker) == ["before", "not in it"]


def test_a_message_of_many_frames_is_in_its_transaction(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    client.sender("q")
    whole = Message(body="x" * 1000).encode()
    number = client.sent
    state = described(TRANSACTIONAL, transaction)
    client.transfer(whole[:500], handle=OUT, more=True, state=state)
    client.transfer(whole[500:], handle=OUT, number=number)
    assert within(client.outcome()) == (transaction, ACCEPTED)
    assert seen(broker) == []
    client.commit(transaction)
    assert seen(broker) == ["x" * 1000]


def test_a_message_that_a_full_queue_rejects_is_rejected_in_its_transaction(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    broker.queue("q", capacity_messages=1, mechanism="reject")
    client.sender("q")
    assert [client.outcome_of(body, transaction)[1] for body in "abc"] == [ACCEPTED, ACCEPTED, REJECTED]
    assert client.commit(transaction).descriptor == ACCEPTED
    assert seen(broker) == ["a", "b"]


def test_messages_of_two_transactions_and_of_none_in_one_read_are_in_their_own(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    other = client.declare()
    client.sender("q")
    client.outcome_of("first", transaction)
    states = [*[described(TRANSACTIONAL, each) for each in (transaction, transaction, other, transaction)], None]
    sent = [transfer(client, "abcde"[n], state) for n, state in enumerate(states)]
    client.write(b"".join(sent))
    outcomes = [client.outcome() for _ in states]
    assert [within(each)[0] for each in outcomes[:4]] == [transaction, transaction, other, transaction]
    assert (outcomes[4].descriptor, seen(broker)) == (ACCEPTED, ["e"])
    client.commit(transaction)
    assert seen(broker) == ["e", "first", "a", "b", "d"]
    client.roll_back(other)
    assert (seen(broker), broker.depth("q")) == (["e", "first", "a", "b", "d"], 5)


def transfer(client: Client, body: str, state: Any) -> bytes:
    """The frame of one more message, which the caller writes."""
    return client.transfer(Message(body=body).encode(), handle=OUT, state=state, written=False)


def test_run_whose_transaction_is_rolled_back_before_it_is_taken_is_rejected(
    messages: str, broker: BrokerThread, client: Client, transaction: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.sender("q")
    client.outcome_of("a", transaction)
    usual = ProducerLink.take_run

    def after_rollback(link: ProducerLink) -> None:
        link._transactions[transaction].fail("amqp:transaction:rollback", "rolled back by the test")
        usual(link)

    monkeypatch.setattr(ProducerLink, "take_run", after_rollback)
    state = described(TRANSACTIONAL, transaction)
    client.write(transfer(client, "b", state) + transfer(client, "c", state))
    if messages == "in_runs":
        assert [within(client.outcome()) for _ in "bc"] == [(transaction, REJECTED)] * 2
        assert error(client.commit(transaction)) == "amqp:transaction:rollback"
        assert broker.depth("q") == 0
    else:
        assert [within(client.outcome())[1] for _ in "bc"] == [ACCEPTED] * 2
        assert client.commit(transaction).descriptor == ACCEPTED
    monkeypatch.undo()
    again = client.declare()
    assert client.outcome_of("d", again) == (again, ACCEPTED), "the link and its credit are as before"


def test_acknowledged_run_whose_transaction_is_rolled_back_before_it_is_taken_is_delivered_again(
    messages: str, broker: BrokerThread, client: Client, transaction: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, "q", ["a", "b"])
    client.receiver("q", credit=2)
    taken = [client.take() for _ in range(2)]
    usual = ConsumerLink.take_run

    def after_rollback(link: ConsumerLink) -> None:
        assert link.context.engine is not None
        link.context.engine.transactions[transaction].fail("amqp:transaction:rollback", "rolled back by the test")
        usual(link)

    monkeypatch.setattr(ConsumerLink, "take_run", after_rollback)
    for number, _, _ in taken:
        client.acknowledge(number, transaction, settled=True)
    outcome = client.commit(transaction)
    if messages == "in_runs":
        assert error(outcome) == "amqp:transaction:rollback"
        client.give_credit(2, handle=IN, seen=2)
        assert [client.take()[1:] for _ in range(2)] == [(body, 1) for _, body, _ in taken]
    else:
        assert (outcome.descriptor, broker.depth("q")) == (ACCEPTED, 0)


def test_a_settled_message_that_is_rejected_fails_the_commit(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    broker.queue("q", capacity_messages=1, mechanism="reject")
    client.sender("q")
    for body in "abc":
        client.send(body, transaction, settled=True)
    assert error(client.commit(transaction)) == "amqp:transaction:rollback"
    assert broker.depth("q") == 0


def test_a_message_in_an_unknown_transaction_is_rejected(broker: BrokerThread, client: Client) -> None:
    client.sender("q")  # no coordinator: a client that goes on with what was lost with another connection
    client.send("a", b"unknown")
    assert error(client.outcome()) == UNKNOWN
    client.transfer(Message(body="b").encode(), handle=OUT)
    assert client.outcome().descriptor == ACCEPTED
    assert seen(broker) == ["b"]


def test_a_settled_message_in_an_unknown_transaction_ends_its_link(broker: BrokerThread, client: Client) -> None:
    client.sender("q")
    client.send("a", b"unknown", settled=True)
    assert client.expect_error(DETACH, 2)[0] == UNKNOWN
    assert broker.depth("q") == 0


@pytest.mark.parametrize("address", [None, "prices", "prices/eu"])
def test_messages_that_are_routed_are_in_their_transaction(
    broker: BrokerThread, client: Client, transaction: bytes, address: str | None
) -> None:
    broker.queue("q")
    broker.do(lambda s: _bind(s.broker, "prices", "q"))
    client.sender(address)
    state = described(TRANSACTIONAL, transaction)
    for body in "ab":
        message = Message(body=body, address="q", subject="eu")
        client.transfer(message.encode(), handle=OUT, state=state)
        assert within(client.outcome()) == (transaction, ACCEPTED)
    assert (broker.depth("q"), seen(broker)) == (2, [])
    client.commit(transaction)
    assert seen(broker) == ["a", "b"]


def _bind(broker: Any, exchange: str, queue: str) -> None:
    host = broker.virtualhost("default")
    made = broker.routing.create_exchange(host, exchange, "direct")
    broker.routing.bind(made, host.queues[queue], "eu")


# -- acknowledgements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("settled", [True, False])
def test_acknowledged_message_is_removed_at_the_commit(
    broker: BrokerThread, client: Client, transaction: bytes, settled: bool, durable: bool
) -> None:
    fill(broker, "q", [Message(body="a", durable=durable)])
    client.receiver("q")
    number, _, _ = client.take()
    client.acknowledge(number, transaction, settled=settled)
    client.is_alive()
    assert (broker.depth("q"), broker.see("q", lambda q: q.lanes.unacknowledged)) == (1, 1)
    client.ask(described(0x32, transaction, False))
    states = [client.outcome().descriptor for _ in range(1 if settled else 2)]
    assert states == [ACCEPTED] * len(states)
    assert broker.depth("q") == 0


def test_a_rolled_back_acknowledgement_that_was_settled_brings_the_message_back_as_failed_once(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    fill(broker, "q", ["a"])
    client.receiver("q")
    number, body, count = client.take()
    assert (body, count) == ("a", 0)
    client.acknowledge(number, transaction, settled=True)
    client.roll_back(transaction)
    assert client.take()[1:] == ("a", 1)


def test_a_client_hears_of_its_rollback_before_it_gets_the_messages_again(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    """One that drops what it has at a rollback (Qpid JMS after a failover) would deliver them twice otherwise."""
    fill(broker, "q", ["one", "two"])
    client.receiver("q")
    for _ in range(2):
        client.acknowledge(client.take()[0], transaction, settled=True)
    before = len(client.said)
    client.ask(described(0x32, transaction, True))
    assert [client.take()[1:] for _ in range(2)] == [("one", 1), ("two", 1)]
    said = [f.code for f in client.said[before:] if f.code in (TRANSFER, DISPOSITION)]
    assert said == [DISPOSITION, TRANSFER, TRANSFER]


def test_a_rolled_back_acknowledgement_that_was_not_settled_leaves_the_message_with_its_receiver(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    fill(broker, "q", ["a"])
    client.receiver("q")
    number, _, _ = client.take()
    client.acknowledge(number, transaction, settled=False)
    client.roll_back(transaction)
    assert broker.see("q", lambda q: q.lanes.unacknowledged) == 1
    again = client.declare()
    client.acknowledge(number, again, settled=True)
    assert client.commit(again).descriptor == ACCEPTED
    assert broker.depth("q") == 0


@pytest.mark.parametrize(
    ("outcome", "count"), [(described(RELEASED), 0), (described(MODIFIED, True), 1), (described(MODIFIED, False), 0)]
)
def test_message_released_in_a_transaction_is_redelivered_after_the_commit(
    broker: BrokerThread, client: Client, transaction: bytes, outcome: Any, count: int
) -> None:
    fill(broker, "q", ["a"])
    client.receiver("q")
    number, _, _ = client.take()
    client.acknowledge(number, transaction, settled=True, outcome=outcome)
    client.is_alive()
    assert broker.see("q", lambda q: q.lanes.unacknowledged) == 1
    client.commit(transaction)
    assert client.take()[1:] == ("a", count)


def test_acknowledgement_in_an_unknown_transaction_ends_the_link_and_requeues_the_message(
    broker: BrokerThread, client: Client
) -> None:
    fill(broker, "q", ["a"])
    client.receiver("q")
    number, _, _ = client.take()
    client.acknowledge(number, b"unknown", settled=True)
    assert client.expect_error(DETACH, 2)[0] == UNKNOWN
    assert seen(broker) == ["a"]


def test_a_receiver_may_close_before_the_commit(broker: BrokerThread, client: Client, transaction: bytes) -> None:
    fill(broker, "q", ["a", "b"])
    client.receiver("q")
    first, second = client.take(), client.take()
    client.acknowledge(first[0], transaction, settled=True)
    client.acknowledge(second[0], transaction, settled=False)
    client.write(frame(DETACH, uint(IN), True))
    client.expect(DETACH)
    assert broker.depth("q") == 2
    client.commit(transaction)
    assert broker.depth("q") == 0


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["coordinator", "connection"])
def test_what_is_not_discharged_is_rolled_back_at_the_end_of_the(
    broker: BrokerThread, client: Client, transaction: bytes, how: str
) -> None:
    fill(broker, "taken", ["a", "b"])
    client.sender("q")
    client.outcome_of("x", transaction)
    client.receiver("taken")
    first, second = client.take(), client.take()
    client.acknowledge(first[0], transaction, settled=True)
    client.acknowledge(second[0], transaction, settled=False)
    client.is_alive()
    if how == "coordinator":
        client.write(frame(DETACH, uint(CONTROL), True))
        assert client.take()[1:] == ("a", 1)
        assert broker.see("taken", lambda q: q.lanes.unacknowledged) == 2, "the other is its receiver's still"
    else:
        client.vanish()
        broker.until_queue("taken", lambda q: q.lanes.unacknowledged == 0, "all is back")
        assert seen(broker, "taken") == ["a", "b"]
        assert broker.see("taken", lambda q: set(q.lanes.deliveries.values())) == {1}
    broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "the message is gone")
    assert broker.look(lambda s: not s.broker.transactions._open)


def test_idle_transaction_is_rolled_back_and_its_client_gets_the_error(
    broker: BrokerThread, client: Client, transaction: bytes
) -> None:
    broker.do(lambda s: setattr(s.broker.virtualhost("default"), "transaction_idle_limit_ms", 1))
    client.sender("q")
    client.outcome_of("a", transaction)
    broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "it is rolled back")
    client.send("b", transaction)
    state = client.outcome()
    assert within(state) == (transaction, REJECTED)
    assert str(state.value[1].value[0].value[0]) == "amqp:transaction:timeout"
    assert error(client.commit(transaction)) == "amqp:transaction:timeout"
    with connected(broker) as connection:
        connection.create_sender("q").send(Message(body="after"))
    assert seen(broker) == ["after"]
