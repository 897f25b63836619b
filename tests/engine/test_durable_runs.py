"""Runs have the effects of their messages one by one: the same random history in two brokers, one of which gets runs.

After each step everything is compared: verdicts, dispatched messages, effects and facts in their order, counters,
credit, the contents of lanes and backlogs, what is in the store or buffered for it. Only the store's calls differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from brokers.engine.broker import Broker
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import CreditChanged, Detach, Discharged, Drain, Effect, Removed, Settled
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.queues import dispatching, durable_storage, lanes
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.queues.storage import UnsafeRun
from brokers.engine.registry.transaction import Acknowledgement, State, Transaction
from brokers.engine.registry.virtualhost import DEFAULT
from brokers.engine.values.message import PLAIN, USUAL_PRIORITY, Header
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.stops import Scope
from tests.engine.fake_store import FakeStores
from tests.engine.ports import Link, Peer

START = 1_700_000_000_000
QUEUES = ("d", "dead")
LINKS = 3  # producers, and consumers
CAPACITY = {"capacity_messages": 30, "capacity_bytes": 1500, "flow_resume_messages": 10}

#: Small, so that the test reaches the backlog, loads and the limit of loads in a turn.
SMALL = {"READY_MESSAGES": 6, "READY_BYTES": 300}
SMALL_LOADS = {"LOAD_MESSAGES": 3, "LOAD_BYTES": 120}


def header(body: bytes) -> Header:
    """Return the header of a body `D|T number priority ttl filling`: D is durable."""
    kind, _, priority, ttl, _ = body.split(b" ")
    found = Header(kind == b"D", int(priority), int(ttl))
    return PLAIN if found == PLAIN else found


def ids(links: Iterable[Producer | Consumer]) -> list[int]:
    return [link.id for link in links]


class Side:
    """One of the brokers. `runs`: ordinary messages are published and acknowledged in runs, as the protocol layer does.
    `seen`: what has happened since the last comparison, by link or object. `longest`: messages in the longest run."""

    def __init__(self, *, runs: bool) -> None:
        self.runs = runs
        self.longest = 0
        self.stores = FakeStores()
        self.store = self.stores.open(DEFAULT)
        self.temp = self.stores.open_temp()
        self.shortage = Usage(Resource.STORE)
        self.start(START, [1, 2])

    def start(self, now: int, numbers: list[int]) -> None:
        """Start the broker, which recovers what is stored. `numbers`: those of its queues in the store."""
        self.broker = broker = Broker(now, stores=self.stores)
        broker.turn.header = header
        broker.turn.as_dead_letter = lambda body, *_: body
        host = broker.create_virtualhost(DEFAULT)
        host.create_on_attach = host.anonymous = True
        self.queues = []
        for name, number in zip(QUEUES, numbers, strict=True):
            broker.registry.last_store_id = number - 1
            self.queues.append(broker.create_queue(host, name, CAPACITY, durable=True))
        broker.registry.last_store_id = max(numbers)
        rows = [
            (queue, number, len(body), self.store.failed.get((queue, number), 0), self.store.expiries[queue, number])
            for (queue, number), body in sorted(self.store.stored.items())
        ]
        assert broker.recover(host, rows) == sum(1 for row in rows if row[0] in numbers)
        self.producers: list[Producer | None] = [None] * LINKS
        self.consumers: list[Consumer | None] = [None] * LINKS
        self.acquired: list[list[Message]] = [[] for _ in range(LINKS)]
        self.transaction: Transaction | None = None
        self.seen: dict[str, list[Any]] = {}
        for at in range(LINKS):
            self.attach(at)
        self.end_turn()

    # -- links ----------------------------------------------------------------------------------------------------

    def client(self) -> Any:
        return self.broker.open_connection(
            f"vhost:{DEFAULT}", user="guest", remote_address="", container_id="", idle_timeout=0, handle=Peer()
        )

    def attach(self, at: int) -> None:
        """Attach the producer and the consumer number `at`, if they are not attached."""
        queue = self.queues[0]
        if self.producers[at] is None:
            self.producers[at] = self.broker.attach_producer(self.client(), queue, f"p{at}", 0, Link())
        if self.consumers[at] is None:
            self.consumers[at] = self.broker.attach_consumer(self.client(), queue, f"c{at}", Link(), browsing=False)

    def detach_producer(self, at: int) -> None:
        producer, self.producers[at] = self.producers[at], None
        if producer is not None:
            self.broker.detach(producer)
            assert (producer.unsettled, len(producer.receipts)) == (0, 0)

    def detach_consumer(self, at: int, *, failed: bool) -> None:
        consumer, self.consumers[at] = self.consumers[at], None
        if consumer is not None:
            messages, self.acquired[at] = self.acquired[at], []
            for message in messages:
                consumer.queue.put_back(consumer, message, failed=failed)
            self.broker.detach(consumer)

    # -- messages -------------------------------------------------------------------------------------------------

    def send(self, at: int, bodies: list[bytes]) -> list[Verdict]:
        """Publish while the client may send: it has credit, or had some that was withdrawn."""
        producer, verdicts = self.producers[at], list[Verdict]()
        while producer is not None and len(verdicts) < len(bodies):
            if not (producer.credit or producer.withdrawn or producer.lapsed or producer.doubtful):
                break
            rest = bodies[len(verdicts) :]
            run = self.run_of(producer, rest) if self.runs else []
            if run:
                durable = header(run[0]).durable
                verdict = producer.queue.publish_run(producer, run, sum(map(len, run)), durable=durable)
                self.longest = max(self.longest, len(run))
            else:
                run = rest[:1]
                verdict = producer.queue.publish(producer, run[0])
            verdicts += [verdict] * len(run)
        return verdicts

    @staticmethod
    def run_of(producer: Producer, bodies: list[bytes]) -> list[bytes]:
        """Return as many of the first messages as may be published as one run."""
        messages, most_bytes, largest = producer.queue.run_allowance(producer)
        run, size = list[bytes](), 0
        for body in bodies:
            wanted = header(body)
            ordinary = wanted.priority == USUAL_PRIORITY and not wanted.ttl and len(body) <= largest
            same = not run or wanted.durable == header(run[0]).durable
            if not (ordinary and same) or len(run) == messages or (run and size > most_bytes):
                break
            run.append(body)
            size += len(body)
        return run

    def take(self, at: int, count: int) -> None:
        consumer = self.consumers[at]
        if consumer is not None:
            consumer.credit = count
            consumer.queue.touch()
            self.end_turn()
            consumer.credit = 0

    def chosen(self, at: int, first: int, count: int) -> list[Message]:
        """Remove and return some of the messages that a consumer has acquired."""
        chosen = self.acquired[at][first : first + count]
        del self.acquired[at][first : first + count]
        return chosen

    def settle(self, at: int, first: int, count: int, how: str) -> None:
        """Settle some of the messages that a consumer has acquired."""
        consumer, queue, messages = self.consumers[at], self.queues[0], self.chosen(at, first, count)
        if consumer is None or not messages:
            return
        if how == "accept" and self.runs:
            queue.acknowledge_run(consumer, messages)
            return
        for message in messages:
            if how == "accept":
                queue.remove(consumer, message)
            elif how == "accept unsettled":  # the client settles only after the broker
                if ticket := queue.remove(consumer, message):
                    queue.confirm(consumer, ticket)
            elif how == "reject":
                queue.reject(consumer, message)
            elif how == "transaction" and self.open_transaction is not None:
                self.open_transaction.acknowledge(
                    Acknowledgement(consumer, message, removes=True, failed=False, barred=False, settled=True)
                )
            else:
                queue.put_back(consumer, message, failed=how == "failed", barred=how == "barred")

    # -- transactions ---------------------------------------------------------------------------------------------

    @property
    def open_transaction(self) -> Transaction | None:
        return self.transaction if self.transaction is not None and self.transaction.state is State.OPEN else None

    def publish_in_transaction(self, at: int, bodies: list[bytes]) -> list[bool]:
        producer = self.producers[at]
        if self.transaction is None:
            self.transaction = self.broker.transactions.declare(self.client(), Link())
        transaction = self.open_transaction
        if producer is None or transaction is None:
            return []
        return [bool(transaction.publish(producer, body, unsettled=True)) for body in bodies if producer.credit]

    def discharge(self, *, commits: bool) -> None:
        transaction = self.open_transaction
        if transaction is not None:
            (self.broker.transactions.commit if commits else self.broker.transactions.roll_back)(transaction)

    # -- operators ------------------------------------------------------------------------------------------------

    def stop_or_start(self) -> None:
        scope, stopping = Scope(DEFAULT, "d"), self.broker.stopping
        if scope in self.broker.registry.stops:
            stopping.start_producers(scope, "test", "test")
        else:
            stopping.stop_producers(scope, "test", "test")

    def begin_or_end_a_shortage(self) -> None:
        gate = self.queues[0].gate
        if self.shortage in gate.shortages:
            gate.end_shortage(self.shortage)
        else:
            gate.begin_shortage(self.shortage)

    def replace_queue(self, *, orderly: bool, confirmed: bool) -> None:
        for at in range(LINKS) if orderly else ():
            self.detach_consumer(at, failed=False)
            self.detach_producer(at)
        self.broker.delete_queue(self.queues[0])
        self.producers, self.consumers = [None] * LINKS, [None] * LINKS
        self.acquired = [[] for _ in range(LINKS)]
        self.end_turn()
        if confirmed:
            self.store.write(self.broker)
        self.queues[0] = self.broker.create_queue(self.broker.virtualhost(DEFAULT), "d", CAPACITY, durable=True)
        for at in range(LINKS):
            self.attach(at)

    # -- turns ----------------------------------------------------------------------------------------------------

    def see(self, where: object, what: Any) -> None:
        self.seen.setdefault(str(where), []).append(what)

    def end_turn(self) -> None:
        """Do as a server after each input; queues in a fixed order, so that both brokers have the same."""
        turn, agenda = self.broker.turn, self.broker.agenda
        while agenda.touched or turn.effects or agenda.redispatch:
            agenda.touched.update(agenda.redispatch)
            agenda.redispatch.clear()
            for queue in sorted(agenda.touched, key=lambda each: each.name):
                agenda.touched.discard(queue)
                for consumer, messages in queue.dispatch():
                    at = self.consumers.index(consumer)
                    self.acquired[at] += messages
                    self.see(consumer.link, messages)
                queue.gate.grant()
            for effect in turn.take_effects():
                self.carry_out(effect)
        turn.take_records()
        for fact in turn.take_facts():
            self.see(fact.object, fact)

    def carry_out(self, effect: Effect) -> None:
        port = effect.port
        owners: list[Producer | Consumer | None] = [*self.producers, *self.consumers]
        link = next((each for each in owners if each is not None and each.handle is port), None)
        name = "" if link is None else link.link
        if isinstance(effect, Settled | Removed):
            outcome = effect.outcome if isinstance(effect, Settled) else "removed"
            for _ in range(effect.count):
                self.see(name, outcome)
        elif isinstance(effect, Drain):
            self.see(name, "drain")
            if isinstance(link, Producer) and link is not self.producers[0] and link.draining:
                link.queue.credit_returned(link, link.credit)  # the first one never answers
        elif isinstance(effect, CreditChanged):
            assert link is None or isinstance(link, Producer)
            self.see(name, link and link.credit)
        elif isinstance(effect, Discharged):
            self.see("transaction", effect.transaction.state)
            self.transaction = None
        else:
            assert isinstance(effect, Detach)
            self.see(name, effect.condition)

    # -- what is compared -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        agenda, store = self.broker.agenda, self.store
        seen, self.seen = self.seen, {}
        groups = {n: (sorted(puts), sorted(removed)) for n, (puts, removed) in store.groups.items()}
        return {
            "seen": seen,
            "acquired": self.acquired,
            "queues": [self.state_of(queue) for queue in self.queues],
            "producers": [self.state_of_producer(each) for each in self.producers if each is not None],
            "consumers": [(c.id, c.credit, c.messages, c.unacknowledged) for c in self.consumers if c is not None],
            "stored": (store.stored, self.temp.stored),
            "buffered in the temp store": (self.temp.puts, self.temp.removed),
            "buffered": (sorted(store.puts), sorted(store.removed), store.moves, store.failed, groups, store.expiries),
            "agenda": [
                sorted(queue.name for queue in each)
                for each in (agenda.unsafe, agenda.watched, agenda.expiring, agenda.redispatch)
            ],
        }

    def state_of(self, queue: Queue) -> dict[str, Any]:
        gate, contents, ledger = queue.gate, queue.lanes, queue.gate.ledger
        return {
            "depth": (gate.depth_messages, gate.depth_bytes, gate.uncommitted_messages, gate.uncommitted_bytes),
            "counters": (gate.enqueued, contents.dequeued, gate.rejected, contents.dropped, contents.expired),
            "state": (gate.state, gate.overfull_count, gate.overfull_since, gate.active_overflow),
            "blocked": gate.blocked_producers,
            "parked": [(p.producer.id, p.body) for p in (*gate.parked, *gate.awaiting)],
            "ledger": (ledger.reserved, ledger.granted, ledger.largest, ledger.recent),
            "waiting": (ids(ledger.waiting), ids(ledger.idle), ids(ledger.pending), len(ledger.probes)),
            "footprint": (gate.footprint.size, gate.footprint.left(), queue.memory_bytes()),
            "failed": dict(contents.deliveries),
            "barred": {number: sorted(ids(barred)) for number, barred in contents.excluded.items()},
            "deadlines": dict(contents.deadlines.at),
            "lanes": [
                (lane.rank, lane.deep, list(lane.returned), list(lane.ready), lane.backlog.head(1 << 30, 1 << 60))
                for lane in contents.lanes
            ],
            "storage": (queue.storage.stored, contents.unacknowledged, contents.oldest()),
            "unsafe": [
                (number, body, each.stored, each.ticket)
                for each in queue.storage.unsafe
                for number, body in enumerate(each.bodies if isinstance(each, UnsafeRun) else [each.body], each.number)
            ],
            "others": (queue.dead_lettered, queue.discarded, queue.deleted),
        }

    @staticmethod
    def state_of_producer(producer: Producer) -> dict[str, Any]:
        objects = {"connection", "fan_out", "handle", "queue", "receipts", "siblings"}
        state = {name: getattr(producer, name) for name in Producer.__slots__ if name not in objects}
        receipts = [(each.pending, each.outcome) for each in producer.receipts for _ in range(each.count)]
        assert producer.unsettled == len(receipts)
        return {**state, "receipts": receipts, "reasons": list(producer.reasons)}


links = st.integers(0, LINKS - 1)
settlements = st.sampled_from(
    ["accept"] * 6 + ["accept unsettled", "reject", "failed", "failed", "failed", "barred", "released", "transaction"]
)
messages = st.lists(
    st.tuples(
        st.sampled_from([b"D", b"D", b"T"]),
        st.sampled_from([0, 0, 1, 30, 90]),  # bytes of filling
        st.sampled_from([4] * 12 + [9, 0]),
        st.sampled_from([0] * 12 + [200]),
    ),
    min_size=1,
    max_size=4,
)


DISTURBANCES: dict[str, Callable[[Side, int], Any]] = {
    "purge": lambda side, _: side.queues[0].lanes.purge(),
    "stop or start": lambda side, _: side.stop_or_start(),
    "shortage": lambda side, _: side.begin_or_end_a_shortage(),
    "producer ends": lambda side, at: side.detach_producer(at),
    "consumer ends": lambda side, at: side.detach_consumer(at, failed=False),
    "consumer is lost": lambda side, at: side.detach_consumer(at, failed=True),
    "links come": lambda side, at: side.attach(at),
}


class Runs(RuleBasedStateMachine):
    """See the module. Both sides get every step. `longest`: the longest run of all histories."""

    longest = 0

    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.multiple(durable_storage, **SMALL),
            mock.patch.multiple(lanes, **SMALL_LOADS),
            mock.patch.multiple(dispatching, LOADS=2),
        ]
        for patch in self.patches:
            patch.start()
        self.number = 0
        self.now = START
        self.sides = [Side(runs=True), Side(runs=False)]
        self.compare()

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()
        Runs.longest = max(Runs.longest, self.sides[0].longest)

    def both(self, step: Callable[[Side], Any]) -> None:
        """Do the same on both sides, end their turns, and compare them."""
        results = []
        for side in self.sides:
            side.broker.turn.now = self.now
            results.append(step(side))
            side.end_turn()
        assert results[0] == results[1]
        self.compare()

    def compare(self) -> None:
        with_runs, single = (side.state() for side in self.sides)
        for part, value in with_runs.items():
            assert value == single[part], part

    def bodies(self, kinds: list[tuple[bytes, int, int, int]], times: int) -> list[bytes]:
        """Return a message of each kind, repeated: so that runs are long."""
        found = []
        for kind, filling, priority, ttl in kinds:
            for _ in range(times):
                self.number += 1
                found.append(b"%s %d %d %d %s" % (kind, self.number, priority, ttl, b"." * filling))
        return found

    @rule(at=links, kinds=messages, times=st.integers(1, 8))
    def publish(self, at: int, kinds: list[tuple[bytes, int, int, int]], times: int) -> None:
        bodies = self.bodies(kinds, times)
        self.both(lambda side: side.send(at, bodies))

    @rule(times=st.integers(1, 12), turns=st.integers(1, 3), size=st.sampled_from([0, 20]))
    def all_publish(self, times: int, turns: int, size: int) -> None:
        for _ in range(turns):
            for at in range(LINKS):
                bodies = self.bodies([(b"D", size, 4, 0)], times)
                self.both(lambda side, at=at, bodies=bodies: side.send(at, bodies))  # type: ignore[misc]

    @rule(fault=st.sampled_from([False, False, True]), refuses=st.sampled_from([False, False, True]))
    def write(self, fault: bool, refuses: bool) -> None:
        """`fault`: no message outside transactions is stored; `refuses`: no transaction is."""

        def step(side: Side) -> None:
            refused = list(side.store.groups) if refuses else []
            side.store.write(side.broker, fault=fault, refused=refused)

        self.both(step)

    @rule(fault=st.booleans())
    def write_the_temp_store(self, fault: bool) -> None:
        self.both(lambda side: side.temp.write(side.broker, "", fault=fault))

    @rule(fault=st.booleans())
    def write_without_removals(self, fault: bool) -> None:
        """The store retries removals and moves: it confirms only what it has put. Not with a transaction."""
        if any(side.store.groups for side in self.sides):
            return

        def step(side: Side) -> None:
            store = side.store
            if not fault:
                store.stored.update({(queue, number): body for queue, number, body in store.puts})
            store.puts = []
            ticket, store.ticket = store.ticket, store.ticket + 1
            side.broker.committed(DEFAULT, ticket, stored=not fault, removed=False)

        self.both(step)

    @rule(at=links, take=st.integers(0, 40), first=st.integers(0, 4), count=st.integers(1, 30), how=settlements)
    def take_and_settle(self, at: int, take: int, first: int, count: int, how: str) -> None:
        self.both(lambda side: side.take(at, take))
        self.both(lambda side: side.settle(at, first, count, how))

    @rule(take=st.integers(1, 50), count=st.sampled_from([5, 100]))
    def all_take_and_acknowledge(self, take: int, count: int) -> None:
        for at in range(LINKS):
            self.both(lambda side, at=at: side.take(at, take))  # type: ignore[misc]
            self.both(lambda side, at=at: side.settle(at, 0, count, "accept"))  # type: ignore[misc]

    @rule(at=links, kinds=messages, ends=st.sampled_from(["", "", "commit", "roll back"]))
    def use_a_transaction(self, at: int, kinds: list[tuple[bytes, int, int, int]], ends: str) -> None:
        bodies = self.bodies([(kind, filling, 4, 0) for kind, filling, _, _ in kinds], 1)
        self.both(lambda side: side.publish_in_transaction(at, bodies))
        if ends:
            self.both(lambda side: side.discharge(commits=ends == "commit"))

    @rule(ms=st.sampled_from([50, 100, 300, 70_000]))
    def time_passes(self, ms: int) -> None:
        def step(side: Side) -> None:
            side.broker.sweep()
            side.broker.expire()

        self.now += ms
        self.both(step)

    @rule(
        mechanism=st.sampled_from(["block", "block", "hold", "reject", "reject-after", "ring", "spool", "off"]),
        capacity=st.sampled_from([3, 12, 30, 200]),
        dead=st.booleans(),
        deliveries=st.sampled_from([0, 2]),
    )
    def change_policy(self, mechanism: str, capacity: int, dead: bool, deliveries: int) -> None:
        own: dict[str, Any] = {"capacity_messages": capacity, "maximum_deliveries": deliveries}
        if dead:
            own["dead_letter_queue"] = "dead"
        if mechanism == "ring":
            own["overflow"] = "ring"
        elif mechanism == "spool":
            own["spool"] = "disk"
        elif mechanism == "off":
            own["flow_control"] = "off"
        else:
            own["mechanism"] = mechanism
        self.both(lambda side: side.broker.set_own_policy(side.queues[0], own))

    @rule(at=links, what=st.sampled_from(sorted(DISTURBANCES)))
    def disturb(self, at: int, what: str) -> None:
        self.both(lambda side: DISTURBANCES[what](side, at))

    @precondition(lambda self: all(side.transaction is None for side in self.sides))
    @rule(orderly=st.booleans(), confirmed=st.booleans())
    def delete_the_queue_and_create_another(self, orderly: bool, confirmed: bool) -> None:
        """`orderly`: its clients detach before. `confirmed`: the store confirms runs of a queue that is gone."""
        self.both(lambda side: side.replace_queue(orderly=orderly, confirmed=confirmed))

    @rule()
    def restart(self) -> None:
        """What the store has not written is lost."""
        for side in self.sides:
            for store in (side.store, side.temp):
                store.puts, store.removed, store.moves, store.groups = [], [], [], {}
            side.temp.stored = {}
            side.start(self.now, [queue.store_id for queue in side.queues])
        self.compare()


Runs.TestCase.settings = settings(max_examples=250, stateful_step_count=50, deadline=None)
TestDurableRuns = Runs.TestCase


# -- what makes a run cheap -------------------------------------------------------------------------------------------


def published(count: int, window: int = 0) -> tuple[Side, Producer]:
    """Return a broker after a run of `count` messages, none of which is written, and their producer."""
    side = Side(runs=True)
    side.broker.set_own_policy(side.queues[0], {"producer_window_messages": window, "capacity_bytes": 0})
    side.end_turn()
    producer = side.producers[0]
    assert producer is not None
    body = b"D 0 4 0 " + b"." * 92
    assert side.send(0, [body]) == [Verdict.PENDING]  # the queue knows no size before
    side.end_turn()
    side.store.write(side.broker)
    side.end_turn()
    assert side.send(0, [body] * count) == [Verdict.PENDING] * count
    assert side.longest == count
    return side, producer


def test_a_run_is_one_call_of_the_store_one_receipt_and_one_settlement() -> None:
    side, producer = published(9)
    queue = side.queues[0]
    assert (side.store.runs, len(producer.receipts), len(queue.storage.unsafe)) == (1, 1, 1)
    assert (producer.unsettled, queue.gate.depth_messages, queue.storage.stored) == (9, 10, 10)
    side.store.write(side.broker)
    assert [e for e in side.broker.turn.effects if isinstance(e, Settled)] == [
        Settled(producer.handle, 9, Outcome.ACCEPTED)
    ]
    assert (producer.unsettled, queue.lanes.unacknowledged, len(side.store.stored)) == (0, 0, 10)


def test_a_refused_run_loses_exactly_its_messages_and_is_one_settlement() -> None:
    side, producer = published(9)
    queue = side.queues[0]
    side.store.write(side.broker, fault=True)
    assert [e for e in side.broker.turn.effects if isinstance(e, Settled)] == [
        Settled(producer.handle, 9, Outcome.NOT_STORED)
    ]
    assert (queue.gate.rejected, queue.gate.depth_messages, queue.gate.depth_bytes) == (9, 1, 100)
    assert (producer.unsettled, queue.storage.stored, len(queue.lanes.usual)) == (0, 1, 1)


def test_acknowledgements_of_a_run_are_one_call_of_the_store() -> None:
    side, _ = published(9)
    side.store.write(side.broker)
    side.end_turn()
    side.take(0, 100)
    side.settle(0, 2, 5, "accept")
    assert (side.store.runs, len(side.store.removed)) == (2, 5)
    side.store.write(side.broker)
    assert sorted(number for _, number in side.store.stored) == [1, 2, 8, 9, 10]
    assert (side.queues[0].gate.depth_messages, side.queues[0].storage.stored) == (5, 5)


def test_withheld_messages_count_in_the_share_of_a_producer_by_their_number() -> None:
    """A producer with a run that is not settled gets no credit beyond its share of the window."""
    side, producer = published(9, window=12)
    side.end_turn()
    while producer.credit:
        side.send(0, [b"D 0 4 0 " + b"." * 92])
        side.end_turn()
    assert producer.unsettled == 12


def test_a_transient_run_waits_behind_durable_messages_and_can_make_the_queue_overfull() -> None:
    side, _ = published(9)
    queue, other = side.queues[0], side.producers[1]
    assert other is not None
    own = {"capacity_messages": 20, "flow_resume_messages": 10, "mechanism": "reject"}
    side.broker.set_own_policy(queue, own)
    side.end_turn()
    side.longest = 0
    assert side.send(1, [b"T 0 4 0 " + b"." * 92] * 11) == [Verdict.ACCEPTED] * 11
    assert side.longest == 11
    assert (len(queue.storage.unsafe), len(queue.lanes.usual), queue.storage.stored) == (2, 1, 10)
    assert (queue.gate.depth_messages, queue.gate.state.overfull, other.unsettled) == (21, True, 0)
    side.store.write(side.broker, fault=True)
    assert (queue.gate.depth_messages, len(queue.lanes.usual), queue.storage.stored) == (12, 12, 1)


def test_failed_deliveries_of_messages_acknowledged_in_a_run_are_forgotten() -> None:
    side, _ = published(9)
    side.store.write(side.broker)
    side.end_turn()
    side.take(0, 100)
    side.settle(0, 3, 4, "failed")
    side.take(0, 100)
    assert sorted(side.queues[0].failed_deliveries.values()) == [1] * 4
    side.settle(0, 0, 9, "accept")
    assert len(side.queues[0].failed_deliveries) == 1
    side.settle(0, 0, 9, "accept")
    assert (side.queues[0].failed_deliveries, side.queues[0].gate.depth_messages) == ({}, 0)
