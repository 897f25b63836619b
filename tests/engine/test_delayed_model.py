"""Messages with delivery times against a plain list: none is seen before its time, all are one timer step later.

In a plain queue, one that spools and one that is durable; with lifetimes, priorities, consumers of every kind, a store
that writes late, clocks that are set, and restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from brokers.engine.queues import dispatching, durable_storage, lanes
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message
from brokers.engine.values.message import PLAIN, Header
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores
from tests.engine.ports import Link


class StrictStore(FakeStore):
    """Like the real store, it takes each place once per group: a message removed and put again would be lost."""

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        place = (queue, number)
        assert place not in self.stored
        assert place not in [put[:2] for put in self.puts]
        assert place not in self.removed
        return super().put(queue, number, body, expires)


class StrictStores(FakeStores):
    def open(self, virtualhost: str) -> FakeStore:
        return self.by_name.setdefault(virtualhost, StrictStore())


STEP = 50
SMALL = {"READY_MESSAGES": 4, "READY_BYTES": 120}
SMALL_LOADS = {"LOAD_MESSAGES": 3, "LOAD_BYTES": 90}


def encoded(number: int, *, durable: bool, priority: int, ttl: int, due: int, delay: int, size: int) -> bytes:
    timing = b"@%d" % due if due else b"+%d" % delay
    return b"%s %d %d %d %s %s" % (b"D" if durable else b"T", number, priority, ttl, timing, b"." * size)


def header(body: bytes) -> Header:
    kind, _, priority, ttl, timing, _ = body.split(b" ")
    value = int(timing[1:])
    due, delay = (value, 0) if timing.startswith(b"@") else (0, value)
    found = Header(kind == b"D", int(priority), int(ttl), due, delay)
    return PLAIN if found == PLAIN else found


def at_delivery_time(body: bytes, due: int) -> bytes:
    words = body.split(b" ")
    words[4] = b"@%d" % due
    return b" ".join(words)


def came(body: bytes) -> int:
    return int(body.split(b" ")[1])


@dataclass
class Expected:
    """`wall`: its delivery time as a time of day, 0 if it has none. `steady`: the same in the engine's time, of one
    with a delay. `ahead`: the time of day less the engine's time when it arrived. `delayed`: not due on arrival."""

    number: int
    durable: bool
    priority: int
    expires: float
    wall: float
    steady: float | None
    safe: bool
    behind: bool  # transient, and behind a message that is not safe
    ahead: int
    delayed: bool
    shown: bool = False
    size: int = 0
    consumer: Consumer | None = field(default=None, compare=False)


class DelayedModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.multiple(durable_storage, **SMALL),
            mock.patch.multiple(lanes, **SMALL_LOADS),
            mock.patch.multiple(dispatching, LOADS=2),
        ]
        for patch in self.patches:
            patch.start()
        self.stores = StrictStores()
        self.expected: list[Expected] = []
        self.acquired: list[Message] = []
        self.count = 0
        self.now = self.ahead = 0
        self.kind = ""

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()

    @initialize(kind=st.sampled_from(["plain", "spools", "durable", "durable and spools"]))
    def choose_queue(self, kind: str) -> None:
        self.kind = kind
        self.start()

    def start(self) -> None:
        self.broker = InMemoryBroker()
        engine = self.broker.engine
        engine.stores.provider = self.stores
        engine.turn.header, engine.turn.at_delivery_time = header, at_delivery_time
        self.now = engine.turn.now = self.now or engine.turn.now
        host = engine.virtualhost("default")
        engine.registry.last_store_id = 0
        policy: dict[str, int | str] = {"capacity_messages": 5, "spool": "disk"} if "spools" in self.kind else {}
        queue = engine.create_queue(host, "q", policy, durable="durable" in self.kind)
        self.queue = queue
        if queue.durable is not None:
            store = self.stores.by_name["default"]
            rows = [(q, n, len(body), 0, store.expiries[q, n]) for (q, n), body in sorted(store.stored.items())]
            assert engine.recover(host, rows) == len(rows)
        self.producer = self.broker.attach_producer("q")
        self.consumer = self.broker.attach_consumer("q")
        self.chooser = self.consumer_of(selects=lambda body: came(body) % 3 == 0)
        self.browser = self.consumer_of(browsing=True)
        self.browsed: list[int] = []

    def consumer_of(self, **of: object) -> Consumer:
        return self.broker.engine.attach_consumer(self.consumer.connection, self.queue, "c", Link(), **{**NONE, **of})

    # -- expectations ---------------------------------------------------------------------------------------------

    def is_due(self, each: Expected) -> bool:
        if each.shown:
            return True
        return self.now + self.ahead >= each.wall if each.steady is None else self.now >= each.steady

    @property
    def visible(self) -> list[Expected]:
        found = [e for e in self.expected if e.shown and e.safe and not e.behind]
        return sorted(found, key=lambda e: (-e.priority, e.number))

    def step(self) -> None:
        """A step of the timer."""
        self.broker.advance(STEP)
        self.now = self.broker.engine.turn.now
        self.broker.engine.expire()
        self.broker._end_turn()
        self.expected = [e for e in self.expected if not (e.expires <= self.now and e.safe and not e.behind)]
        for each in self.expected:
            if each.safe and not each.behind:
                each.shown = self.is_due(each)
        assert not self.broker.acquired

    def take_acquired(self) -> list[Message]:
        got = [message for _, message in self.broker.acquired]
        self.broker.acquired.clear()
        return got

    # -- steps ----------------------------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 8),
        durable=st.booleans(),
        priority=st.sampled_from([4, 4, 4, 0, 9]),
        due=st.sampled_from([0, 0, -7]),
        size=st.integers(0, 40),
    )
    def publish_to_be_seen_at_once(self, *, count: int, durable: bool, priority: int, due: int, size: int) -> None:
        self.publish(count=count, durable=durable, priority=priority, ttl=0, due=due, delay=0, size=size)

    @rule(
        count=st.integers(1, 8),
        durable=st.booleans(),
        priority=st.sampled_from([4, 4, 4, 0, 9]),
        ttl=st.sampled_from([0, 0, 0, 4, 30]),
        due=st.sampled_from([1, 2, 5, 20]),
        of_day=st.booleans(),
        size=st.integers(0, 40),
    )
    def publish_to_be_seen_later(
        self, *, count: int, durable: bool, priority: int, ttl: int, due: int, of_day: bool, size: int
    ) -> None:
        due, delay = (due, 0) if of_day else (0, due)
        self.publish(count=count, durable=durable, priority=priority, ttl=ttl, due=due, delay=delay, size=size)

    def publish(self, *, count: int, durable: bool, priority: int, ttl: int, due: int, delay: int, size: int) -> None:
        for _ in range(count):
            self.count += 1
            wall = self.now + self.ahead + due * STEP if due else 0
            body = encoded(
                self.count,
                durable=durable,
                priority=priority,
                ttl=ttl * STEP,
                due=wall,
                delay=delay * STEP,
                size=size,
            )
            before = self.queue.gate.depth_bytes
            self.queue.enqueue(body, self.producer)
            self.broker._end_turn()
            stored = durable and self.queue.durable is not None
            behind = not stored and any(not e.safe for e in self.expected)
            each = Expected(
                self.count,
                stored,
                priority,
                self.now + ttl * STEP if ttl else float("inf"),
                wall or (self.now + self.ahead + delay * STEP if delay else 0),
                self.now + delay * STEP if delay else None,
                not stored,
                behind,
                ahead=self.ahead,
                delayed=wall > self.now + self.ahead or bool(delay),
                size=self.queue.gate.depth_bytes - before,
            )
            # A message that is due on arrival is never hidden.
            each.shown = not each.delayed
            self.expected.append(each)

    @rule(steps=st.integers(1, 6))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    @rule(by=st.sampled_from([-40, -4, 4, 40]))
    def clock_is_set(self, by: int) -> None:
        self.ahead += by * STEP
        self.broker.engine.clock_set(self.ahead)
        self.step()

    @rule(fault=st.booleans())
    def write(self, fault: bool) -> None:
        for name, store in list(self.stores.by_name.items()):
            store.write(self.broker.engine, name, fault=fault)
        self.expected = [e for e in self.expected if e.safe or not fault]
        for each in self.expected:
            each.safe, each.behind = True, False
        self.broker._end_turn()
        self.step()

    @rule(count=st.integers(1, 9))
    def consume(self, count: int) -> None:
        self.step()
        self.consumer.credit = count
        self.queue.touch()
        self.broker.engine.agenda.redispatch.clear()
        self.broker._end_turn()
        got = self.take_acquired()
        assert [came(body) for _, body in got] == [e.number for e in self.visible][:count]
        self.consumer.credit = 0
        for message in got:
            self.forget(message)
            self.queue.remove(self.consumer, message)
        self.broker._end_turn()

    def forget(self, message: Message) -> None:
        self.expected = [e for e in self.expected if e.number != came(message[1])]

    @rule()
    def choose(self) -> None:
        """A consumer with a selector, which may have passed the places of messages that became due later."""
        self.step()
        self.chooser.credit = 4
        self.queue.touch()
        self.broker._end_turn()
        got = self.take_acquired()
        wanted = [e.number for e in self.visible if e.number % 3 == 0]
        assert len(got) == min(4, len(wanted))
        assert {came(body) for _, body in got} <= set(wanted)
        self.chooser.credit = 0
        for message in got:
            self.forget(message)
            self.queue.remove(self.chooser, message)
        self.broker._end_turn()

    @rule()
    def browse(self) -> None:
        """A browser gets each message once, including those that become due behind its position."""
        self.step()
        for _ in range(len(self.expected) + 1):
            self.browser.credit = 100
            self.queue.touch()
            self.broker._end_turn()
            found = [came(body) for _, body in self.take_acquired()]
            self.browsed += found
            if not found:
                break
        self.browser.credit = 0
        assert len(set(self.browsed)) == len(self.browsed)
        assert {e.number for e in self.visible} <= set(self.browsed)
        hidden = {e.number for e in self.expected if not e.shown}
        assert not hidden & set(self.browsed)

    @rule()
    def give_back(self) -> None:
        """A returned message is never hidden again, and is at its former place."""
        self.step()
        self.consumer.credit = 2
        self.queue.touch()
        self.broker._end_turn()
        self.consumer.credit = 0
        for message in self.take_acquired():
            self.queue.put_back(self.consumer, message)
        self.broker._end_turn()

    @rule(really=st.sampled_from([False, False, True]))
    def purge(self, really: bool) -> None:
        if not really:
            return  # a purge leaves little to test
        here = [e for e in self.expected if e.safe and not e.behind]
        assert self.queue.lanes.purge()[0] == len(here)
        self.expected = [e for e in self.expected if not e.safe or e.behind]

    @rule(count=st.integers(1, 3))
    def drop_oldest(self, count: int) -> None:
        """A ring drops delayed messages last."""
        self.step()
        for _ in range(count):
            visible = self.visible
            before = {e.number for e in self.expected}
            dropped = self.queue.lanes.drop_oldest()
            waiting = [e for e in self.expected if e.safe and not e.behind and not e.shown]
            assert dropped is bool(visible or waiting)
            if visible:
                lowest = min(e.priority for e in visible)
                gone = next(e for e in visible if e.priority == lowest)
            elif waiting:
                gone = waiting[0]
            else:
                break
            self.expected.remove(gone)
            assert before - {e.number for e in self.expected} == {gone.number}
        self.step()

    @precondition(lambda self: "durable" in self.kind)
    @rule()
    def restart(self) -> None:
        """After a restart, stored messages are hidden until their delivery time, by the time of day."""
        store = self.stores.by_name["default"]
        stored = {came(body) for body in store.stored.values()}
        store.puts, store.removed, store.moves = [], [], []
        if "" in self.stores.by_name:
            self.stores.by_name[""] = StrictStore()
        gone_settled = stored - {e.number for e in self.expected}
        for place, body in list(store.stored.items()):
            if came(body) in gone_settled:
                del store.stored[place]  # their removal was written
        self.expected = [e for e in self.expected if e.number in stored]
        for each in self.expected:
            each.safe, each.behind, each.steady = True, False, None
            # The store has the expiry as a time of day, by the clock on arrival, and which messages were delayed then.
            each.expires, each.ahead = each.expires + each.ahead, 0
            each.shown = not each.delayed or each.wall <= self.now + self.ahead
        self.now, self.ahead = self.now + self.ahead, 0
        self.start()
        self.step()

    # -- invariants -----------------------------------------------------------------------------------------------

    @invariant()
    def depth_and_counts_agree(self) -> None:
        if not self.kind:
            return
        queue = self.queue
        assert queue.gate.depth_messages == len(self.expected)
        assert queue.gate.depth_bytes == sum(e.size for e in self.expected)
        assert queue.lanes.unacknowledged == 0
        assert 0 <= queue.memory_bytes() <= queue.gate.depth_bytes
        assert 0 <= queue.lanes.delayed.bytes <= queue.lanes.delayed.depth_bytes <= queue.gate.depth_bytes
        assert not queue.lanes.delayed or queue in queue.agenda.delayed

    @invariant()
    def the_number_of_those_that_wait_is_right(self) -> None:
        if self.kind and not any(not e.safe or e.behind for e in self.expected):
            waiting = sum(not e.shown for e in self.expected)
            assert len(self.queue.lanes.delayed) == waiting


NONE: dict[str, object] = {"browsing": False}

DelayedModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestDelayedModel = pytest.mark.domain("clients delivery delay")(DelayedModel.TestCase)
