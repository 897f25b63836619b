"""A shortage of one resource: the producers that it blocks, and the messages that arrive meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.flow import scarcity
from brokers.engine.flow.parking import COMMIT_WAIT_MS
from brokers.engine.flow.usage import Resource
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.transaction import Acknowledgement, State
from brokers.engine.values.clients import Client
from brokers.engine.values.message import PLAIN, Header
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.stops import Scope
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Link
from tests.engine.simulation import Sender, Simulation

DURABLE = Header(durable=True)
TRANSIENT, PERSISTENT = b"t", b"p"


class Scarce(Simulation):
    """Messages that begin with "p" are durable. `store`, `temp`: what the broker stores and spools."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.stores.provider = self.stores = FakeStores()
        self.broker.turn.header = lambda body: DURABLE if body[:1] == PERSISTENT else PLAIN
        self.broker.stores.open(self.host)

    @property
    def store(self) -> FakeStore:
        return self.stores.by_name["default"]

    def durable(self, name: str, **own: int | str) -> Queue:
        queue = self.broker.create_queue(self.host, name, own, durable=True)
        self.settle()
        return queue

    def run_short(self, what: str) -> None:
        """Limit one resource, with enough of the others."""
        self.broker.shortages.set_limits({f"{what}_limit": 1000})
        usage = self.broker.shortages.usages[Resource[what.upper()]]
        if what == "store":
            self.store.used_bytes = 2000
        elif what == "temp":
            temp = self.stores.open_temp()
            temp.used_bytes = 2000
            self.broker.turn.temp()
        else:
            filler = self.sender(self.queue("filler"))
            self.say(filler, TRANSIENT + b"x" * 2000)
        self.measure()
        assert usage.overfull

    def end_shortage(self) -> None:
        self.broker.shortages.set_limits({})
        self.measure()

    def measure(self) -> None:
        self.broker.shortages.measure()
        self.settle()

    def say(self, sender: Sender, *bodies: bytes) -> Verdict:
        """Publish while there is credit. Return the verdict of the last message."""
        verdict = Verdict.NO_CREDIT
        for body in bodies:
            if not sender.producer.credit:
                return Verdict.NO_CREDIT
            verdict = self.publish(sender, body)
            self.write()
        return verdict

    def write(self) -> None:
        if self.store.puts or self.store.removed:
            self.store.write(self.broker)
            self.settle()


def reasons(sender: Sender) -> list[str]:
    return list(sender.producer.reasons)


@pytest.mark.domain("4 what each limit counts")
@pytest.mark.parametrize(
    ("short", "blocked"), [("memory", {"transient"}), ("store", {"persistent"}), ("temp", {"spooled"})]
)
def test_limit_blocks_only_producers_whose_messages_use_the_resource(short: str, blocked: set[str]) -> None:
    simulation = Scarce()
    stored, plain = simulation.durable("stored"), simulation.queue("plain")
    spool = simulation.queue("spool", capacity_messages=1, spool="disk")
    other = simulation.broker.create_virtualhost("other")
    elsewhere = simulation.broker.create_queue(other, "plain", durable=True)
    senders = {
        "persistent": (simulation.sender(stored), PERSISTENT),
        "transient": (simulation.sender(plain), TRANSIENT),
        "spooled": (simulation.sender(spool), TRANSIENT),
    }
    beside = simulation.sender(stored), simulation.sender(elsewhere)
    for sender, body in (*senders.values(), *((each, TRANSIENT) for each in beside)):
        simulation.say(sender, body, body, body)
    simulation.run_short(short)
    assert {name for name, (sender, _) in senders.items() if sender.producer.blocked} == blocked
    for name, (sender, body) in senders.items():
        took = simulation.say(sender, *[body] * 5) in (Verdict.ACCEPTED, Verdict.PENDING)
        assert took is (name not in blocked)
    for sender in beside:
        assert reasons(sender) == (["memory-overfull"] if short == "memory" else [])
    simulation.end_shortage()
    for sender, body in senders.values():
        assert not sender.producer.blocked
        assert simulation.say(sender, *[body] * 3) is not Verdict.NO_CREDIT


@pytest.mark.domain("4 what each limit counts")
def test_new_producer_may_send_one_message_that_shows_its_resource() -> None:
    simulation = Scarce()
    stored = simulation.durable("stored")
    early = simulation.sender(stored)
    simulation.run_short("store")
    late = simulation.sender(stored)
    assert early.producer.credit == late.producer.credit == 1
    assert not early.producer.blocked
    assert simulation.say(early, TRANSIENT) is Verdict.ACCEPTED
    assert early.producer.credit > 0
    assert simulation.say(late, PERSISTENT) is Verdict.PENDING
    assert stored.gate.depth_messages == 1
    assert reasons(late) == ["store-overfull"]
    assert late.producer.credit == 0
    simulation.end_shortage()
    simulation.write()
    assert late.outcomes == {Outcome.ACCEPTED: 1}
    assert stored.gate.depth_messages == 2
    assert not late.producer.blocked
    assert late.producer.credit > 0


def test_parked_message_parks_later_ones_of_its_producer_in_order() -> None:
    simulation = Scarce()
    stored = simulation.durable("stored")
    sender, other = simulation.sender(stored), simulation.sender(stored)
    simulation.say(sender, b"t0")
    simulation.say(other, b"t")
    simulation.run_short("store")
    assert simulation.say(sender, b"t1") is Verdict.ACCEPTED
    assert simulation.publish(sender, b"p2") is Verdict.PENDING
    assert sender.producer.credit == 0
    assert simulation.publish(sender, b"t3") is Verdict.PENDING  # on credit withdrawn meanwhile
    assert simulation.say(other, b"t") is Verdict.ACCEPTED
    simulation.end_shortage()
    simulation.write()
    assert sender.outcomes == {Outcome.ACCEPTED: 2}
    consumer = simulation.receiver(stored, credit=100)
    found = [body for _, body in simulation.acquired[consumer] if body != b"t"]
    assert found == [b"t0", b"t1", b"p2", b"t3"]


@pytest.mark.domain("4 failing sends for systemUsage")
@pytest.mark.parametrize("place", ["queue", "virtualhost", "broker"])
@pytest.mark.parametrize("short", ["memory", "store"])
def test_with_reject_a_send_fails_at_once_while_a_limit_is_exceeded(short: str, place: str) -> None:
    simulation = Scarce()
    mechanism = {"mechanism": "reject"}
    stored = simulation.durable("stored", **(mechanism if place == "queue" else {}))
    if place == "virtualhost":
        simulation.broker.set_virtualhost_defaults(simulation.host, mechanism)
    elif place == "broker":
        simulation.broker.set_broker_defaults(mechanism)
    sender = simulation.sender(stored)
    body = TRANSIENT if short == "memory" else PERSISTENT
    simulation.say(sender, body)
    simulation.run_short(short)
    before = stored.gate.depth_messages
    assert not sender.producer.blocked
    for _ in range(5):
        assert simulation.say(sender, body) is Verdict.REJECTED
    assert (stored.gate.depth_messages, stored.gate.rejected) == (before, 5)
    simulation.end_shortage()
    assert simulation.say(sender, body) in (Verdict.ACCEPTED, Verdict.PENDING)


@pytest.mark.domain("4 failing sends for systemUsage")
def test_with_reject_after_a_send_fails_at_its_deadline_unless_the_shortage_ends_before() -> None:
    simulation = Scarce()
    queue = simulation.queue("orders", mechanism="reject-after", reject_after_ms=800)
    sender = simulation.sender(queue)
    simulation.say(sender, TRANSIENT)
    simulation.run_short("memory")
    assert simulation.say(sender, TRANSIENT) is Verdict.PENDING
    assert reasons(sender) == ["memory-overfull"]
    simulation.advance(750)
    assert not sender.outcomes
    simulation.advance(50)
    assert sender.outcomes == {Outcome.REJECTED: 1}
    assert simulation.say(sender, TRANSIENT) is Verdict.PENDING
    simulation.advance(400)
    simulation.end_shortage()
    assert sender.outcomes == {Outcome.REJECTED: 1, Outcome.ACCEPTED: 1}
    assert not sender.producer.blocked


def test_change_of_another_field_does_not_extend_the_deadline_of_a_shortage() -> None:
    simulation = Scarce()
    queue = simulation.queue("orders", mechanism="reject-after", reject_after_ms=500)
    sender = simulation.sender(queue)
    simulation.say(sender, TRANSIENT)
    simulation.run_short("memory")
    assert simulation.say(sender, TRANSIENT) is Verdict.PENDING
    for capacity in (900, 800, 700, 600):
        simulation.advance(150)
        simulation.broker.set_own_policy(queue, {**queue.own, "capacity_messages": capacity})
        simulation.settle()
    assert sender.outcomes == {Outcome.REJECTED: 1}


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("own", [{}, {"capacity_messages": 200}, {"mechanism": "reject-after"}], ids=str)
def test_messages_far_above_the_assumed_size_are_rejected_before_memory_runs_out(
    own: dict[str, int | str],
) -> None:
    simulation = Scarce()
    queue = simulation.queue("orders", **own)
    usage = simulation.broker.shortages.usages[Resource.MEMORY]
    senders = [simulation.sender(queue) for _ in range(4)]
    for sender in senders:
        simulation.say(sender, TRANSIENT)
        sender.read()
    simulation.broker.shortages.measure({Resource.MEMORY: 100_000})
    simulation.broker.shortages.set_limits({"memory_limit": 20_000})
    large = TRANSIENT * 5_000
    sent = len(senders)
    for sender in senders:  # each ignores later flows
        for _ in range(min(sender.credit, 50)):
            if simulation.publish(sender, large) is Verdict.NO_CREDIT:
                break
            sent += 1
            assert usage.used <= 75_000 + len(large)
    refused = sum(sender.verdicts[Verdict.REJECTED] for sender in senders)
    stored = queue.gate.depth_messages + len(queue.gate.parked) + len(queue.gate.awaiting)
    assert refused > 0
    assert stored + refused == sent
    taker = simulation.receiver(queue)
    for _ in range(100):
        simulation.consume(taker, 5)
        simulation.measure()
        simulation.advance(100)
    assert not usage.overfull
    for sender in [sender for sender in senders if not sender.refused]:
        sender.read()
        assert simulation.say(sender, TRANSIENT) is Verdict.ACCEPTED


def test_commit_waits_for_a_message_parked_by_a_limit() -> None:
    simulation = Scarce()
    stored = simulation.durable("stored")
    sender = simulation.sender(stored)
    simulation.run_short("store")
    transaction = simulation.broker.transactions.declare(sender.producer.connection, Link())
    assert transaction is not None
    assert transaction.publish(sender.producer, PERSISTENT, unsettled=True) is Verdict.PENDING
    assert transaction.waiting
    simulation.end_shortage()
    assert not transaction.waiting
    assert stored.gate.uncommitted_messages == 1
    simulation.broker.transactions.roll_back(transaction)


class Waiting(Scarce):
    """A commit whose message waits for the end of a shortage. `bridge`: the transaction, which has removed a stored
    message if `removes`, and has published one before if `publishes`."""

    def __init__(self, short: str = "store", *, removes: bool = False, publishes: bool = False) -> None:
        super().__init__()
        self.source, self.target = self.durable("source"), self.durable("target")
        self.body = PERSISTENT if short == "store" else TRANSIENT
        self.consumer = self.receiver(self.source, 1)
        filling = self.sender(self.source)
        self.say(filling, self.body)
        self.publisher = self.sender(self.target)
        bridge = self.broker.transactions.declare(self.publisher.producer.connection, Link())
        assert bridge is not None
        self.bridge = bridge
        if publishes:
            assert bridge.publish(self.publisher.producer, self.body, unsettled=True)
        self.run_short(short)
        assert bridge.publish(self.publisher.producer, self.body, unsettled=True) is Verdict.PENDING
        if removes:
            ((message),) = self.acquired[self.consumer]
            bridge.acknowledge(
                Acknowledgement(self.consumer, message, removes=True, failed=False, barred=False, settled=False)
            )

    def write(self) -> None:
        self.store.write(self.broker)
        self.settle()

    def commit(self) -> None:
        self.broker.transactions.commit(self.bridge)
        self.settle()

    def wait(self, ms: int) -> None:
        for _ in range(ms // 50):
            self.advance(50)


@pytest.mark.domain("2 disk quota")
@pytest.mark.parametrize(("removes", "publishes"), [(True, False), (False, True)])
@pytest.mark.parametrize("short", ["store", "memory"])
def test_commit_that_may_end_the_shortage_it_waits_for_is_written_after_a_second(
    short: str, *, removes: bool, publishes: bool
) -> None:
    world = Waiting(short, removes=removes, publishes=publishes)
    world.wait(3 * COMMIT_WAIT_MS)
    assert world.bridge.state is State.OPEN, "its client has not requested the commit"
    assert len(world.target.gate.awaiting) == 1
    world.commit()
    world.wait(COMMIT_WAIT_MS - 100)
    assert world.bridge.state is State.COMMITTING
    world.wait(200)
    world.write()
    assert world.bridge.state is State.COMMITTED
    assert len(world.target.gate.awaiting) == 0
    assert world.publisher.producer.awaited is None
    assert world.target.gate.depth_messages == 1 + publishes
    assert world.source.gate.depth_messages == 1 - removes
    assert reasons(world.publisher) == [f"{short}-overfull"], "the shortage goes on"


@pytest.mark.parametrize("why", ["it has nothing", "the disk is full", "its client is stopped", "its queue is stopped"])
def test_commit_that_cannot_end_its_wait_is_not_written_during_a_shortage(why: str) -> None:
    world = Waiting(removes=why != "it has nothing")
    if why == "the disk is full":
        world.store.full = True
        world.broker.shortages.set_store_limits(world.host, {"store_overfull_bytes": 1000})
    elif why == "its client is stopped":
        stop = Scope("default", client=Client(user="guest"))
        world.broker.stopping.stop_producers(stop, "a test", "anna")
    elif why == "its queue is stopped":
        world.broker.stopping.stop_producers(Scope("default", queue="target"), "a test", "anna")
    world.commit()
    world.wait(5 * COMMIT_WAIT_MS)
    assert world.bridge.state is State.COMMITTING
    world.store.full = False
    world.broker.shortages.set_store_limits(world.host, {})
    world.end_shortage()
    for scope in list(world.broker.stops):
        world.broker.stopping.start_producers(scope, "", "anna")
    world.settle()
    world.wait(100)
    world.write()
    assert world.bridge.state is State.COMMITTED


def test_one_commit_a_second_is_written_during_a_shortage() -> None:
    world = Waiting(removes=True)
    others = []
    for _ in range(3):
        sender = world.sender(world.target)
        other = world.broker.transactions.declare(sender.producer.connection, Link())
        assert other is not None
        sender.producer.credit, sender.producer.queue.gate.ledger.reserved = (
            1,
            sender.producer.queue.gate.ledger.reserved + 1,
        )
        other.add_published(world.target, PERSISTENT)
        world.target.gate.count_uncommitted(1, 1)
        assert other.publish(sender.producer, PERSISTENT, unsettled=True) is Verdict.PENDING
        world.broker.transactions.commit(other)
        others.append(other)
    world.commit()
    states = []
    for _ in range(4):
        world.wait(COMMIT_WAIT_MS + 50)
        world.write()
        states.append(sum(each.state is State.COMMITTED for each in (world.bridge, *others)))
    assert states == [1, 2, 3, 4]


def test_parked_messages_of_a_detached_producer_are_dropped_during_a_shortage() -> None:
    simulation = Scarce()
    stored = simulation.durable("stored")
    sender = simulation.sender(stored)
    simulation.run_short("store")
    simulation.say(sender, PERSISTENT)
    assert len(stored.gate.awaiting) == 1
    simulation.detach(sender)
    assert (len(stored.gate.awaiting), stored.gate.awaiting.bytes) == (0, 0)


def test_store_of_a_virtual_host_blocks_all_its_producers() -> None:
    simulation = Scarce()
    plain = simulation.sender(simulation.queue("plain"))
    simulation.broker.shortages.set_store_limits(simulation.host, {"store_overfull_bytes": 1000})
    simulation.store.used_bytes = 1001
    simulation.measure()
    assert reasons(plain) == ["store-overfull"]
    simulation.store.used_bytes = 1000
    simulation.measure()
    assert reasons(plain) == []


@given(data=st.data())
@settings(max_examples=30)
def test_any_sequence_of_shortages_delivers_every_message_once_and_in_order(data: st.DataObject) -> None:
    """Safety: no message is lost, duplicated or out of order. Liveness: without shortages all producers continue."""
    simulation = Scarce()
    queues = [simulation.durable("stored"), simulation.queue("spool", capacity_messages=3, spool="disk")]
    senders = [simulation.sender(data.draw(st.sampled_from(queues))) for _ in range(4)]
    sent: dict[Sender, list[bytes]] = {sender: [] for sender in senders}
    simulation.stores.open_temp()
    simulation.broker.turn.temp()

    def step(sender: Sender) -> None:
        if sender.producer.credit:
            kind = data.draw(st.sampled_from([TRANSIENT, PERSISTENT]))
            body = b"%s%d:%d" % (kind, senders.index(sender), len(sent[sender]))
            assert simulation.publish(sender, body) in (Verdict.ACCEPTED, Verdict.PENDING)
            sent[sender].append(body)

    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["send", "send", "send", "limit", "write", "time"])):
            case "send":
                step(data.draw(st.sampled_from(senders)))
            case "limit":
                limits = data.draw(st.sets(st.sampled_from(["memory_limit", "store_limit", "temp_limit"])))
                simulation.store.used_bytes = simulation.stores.by_name[""].used_bytes = 2
                simulation.broker.shortages.set_limits(dict.fromkeys(limits, 1))
                simulation.settle()
            case "write":
                simulation.write()
                simulation.stores.by_name[""].write(simulation.broker, "")
            case _:
                simulation.advance(200)
                simulation.measure()
    simulation.end_shortage()
    for sender in senders:
        assert not sender.producer.blocked
        assert sender.producer.credit > 0
        step(sender)
    simulation.write()
    simulation.stores.by_name[""].write(simulation.broker, "")
    simulation.settle()
    found: list[bytes] = []
    for queue in queues:
        assert not queue.gate.awaiting
        consumer = simulation.receiver(queue, credit=1000)
        simulation.advance(100)
        found += [body for _, body in simulation.acquired[consumer]]
    for index, sender in enumerate(senders):
        mine = [body for body in found if body[1:].startswith(b"%d:" % index)]
        assert mine == sent[sender]


@pytest.mark.domain("3 check after enqueue")
@pytest.mark.parametrize("what", ["shortage", "stop of a client"])
def test_producers_of_a_queue_are_counted_once_for_the_events_of_all(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Scarce()
    stored = simulation.durable("stored")
    connection = simulation.connection()
    senders = [simulation.sender(stored, connection=connection, link=f"{n}") for n in range(50)]
    for sender in senders:
        simulation.say(sender, PERSISTENT)
    counted = [0]
    count = scarcity.blocked_producers

    def counting(gate: Any, limits: Any) -> int:
        counted[0] += 1
        return count(gate, limits)

    monkeypatch.setattr(scarcity, "blocked_producers", counting)
    scope = Scope("default", client=Client(user="guest"))

    def events(kind: str) -> list[int]:
        return [fact.attributes["blocked_producers"] for fact in simulation.facts if fact.kind == kind]

    if what == "shortage":
        simulation.run_short("store")
    else:
        simulation.broker.stopping.stop_producers(scope, "a test", "anna")
        simulation.settle()
    assert counted[0] < 10
    assert events("producer-blocked") == [50] * 50
    assert all(sender.producer.blocked for sender in senders)
    if what == "shortage":
        simulation.end_shortage()
    else:
        simulation.broker.stopping.start_producers(scope, "", "anna")
        simulation.settle()
    assert counted[0] < 20
    assert events("producer-released") == [0] * 50
    assert not any(sender.producer.blocked for sender in senders)
