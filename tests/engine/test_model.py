"""Random clients and operators against the whole engine, compared with a naive model and invariants after every step.

The model knows nothing of credit: it has the messages of each queue with their sizes, knows which of them a consumer
holds, and says what state follows. The invariants say what credit and reasons may never come to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.admin import InvalidValue
from brokers.engine.flow.credit import GRACE_MS, draining
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import State
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.values.message import NEVER, PLAIN, Header, number_of, rank_of
from brokers.engine.values.outcomes import Verdict
from brokers.engine.values.policy import Value
from brokers.engine.values.stops import Scope
from tests.engine.simulation import Sender, Simulation, origin

QUEUES = (("default", "orders.eu"), ("other", "stocks"))
SCOPES = (
    Scope(),
    Scope("default"),
    Scope(pattern="orders.*"),
    Scope("other", pattern=">"),
    Scope("default", "orders.eu"),
    Scope("other", "stocks"),
)
FINAL = {"queue-overfull": True, "queue-underfull": False}

picks = st.integers(0, 1 << 16)
small = st.integers(0, 12)
LARGEST = 700
sizes = st.sampled_from([40, 40, 100, LARGEST])
levels = st.one_of(small, st.sampled_from(["0%", "30%", "50%", "80%", "100%"]))
size_levels = st.one_of(st.integers(0, 2000), st.sampled_from(["50%", "100%"]))
policies = st.fixed_dictionaries(
    {},
    optional={
        "capacity_messages": small,
        "flow_stop_messages": levels,
        "flow_resume_messages": levels,
        "capacity_bytes": st.integers(0, 2000),
        "flow_stop_bytes": size_levels,
        "flow_resume_bytes": size_levels,
        "overflow": st.sampled_from(["producers", "producers", "producers", "ring"]),
        "mechanism": st.sampled_from(["block", "block", "hold", "reject", "reject-after"]),
        "reject_after_ms": st.sampled_from([0, 100, 1000]),
        "flow_control": st.sampled_from(["on", "on", "off"]),
        "producer_window_bytes": st.integers(0, 500),
        "producer_window_messages": st.integers(0, 5),
        "maximum_deliveries": st.sampled_from([0, 0, 1, 2]),
    },
)


def header(body: bytes) -> Header:
    """Return the header of a message, derived from its number among those of its producer."""
    _, number = origin((0, body))
    fields = Header(priority={0: 9, 1: 1}.get(number % 6, 4), ttl=400 if number % 7 == 0 else 0)
    return PLAIN if fields == PLAIN else fields


@dataclass
class Model:
    """The expected state of a queue. `available`: the numbers of messages that no consumer has acquired."""

    queue: Queue
    overfull: bool = False
    sizes: dict[int, int] = field(default_factory=dict)
    available: set[int] = field(default_factory=set)
    due: dict[int, int] = field(default_factory=dict)  # when messages expire
    failed: Counter[int] = field(default_factory=Counter)
    barred: dict[int, set[Consumer]] = field(default_factory=dict)
    acquired: Counter[Producer] = field(default_factory=Counter)  # enqueued messages with a withheld settlement
    outside: list[tuple[Producer, bytes, int]] = field(default_factory=list)  # producer, body, deadline
    enqueued: int = 0
    before: tuple[int, int] = (0, 0)  # the depth after the last step, messages and bytes

    def publish(self, producer: Producer, body: bytes, now: int, *, late: bool) -> Verdict:
        """`late`: on withdrawn credit."""
        limits = self.queue.gate.limits
        way = limits.overflow if self.overfull else "not full"
        behind_others = bool(self.outside) and not way.startswith("reject")
        if way == "hold" and not self.admits_withheld:
            way = "block"
        if (late and self.queue.gate.stops) or behind_others or way in ("block", "reject-after"):
            self.outside.append((producer, body, now + limits.reject_after_ms))
            return Verdict.PENDING
        if way == "reject":
            return Verdict.REJECTED
        self.enqueue(body)
        if way == "hold":
            self.acquired[producer] += 1
            return Verdict.PENDING
        return Verdict.ACCEPTED

    @property
    def admits_withheld(self) -> bool:
        """With `hold`: the depth is above the stop level by a tenth of it at most, or by one."""
        limits = self.queue.gate.limits
        messages, size = len(self.sizes), sum(self.sizes.values())
        return messages <= limits.stop_messages + max(1, limits.stop_messages // 10) and size <= (
            limits.stop_bytes + max(1, limits.stop_bytes // 10)
        )

    def enqueue(self, body: bytes) -> None:
        self.enqueued += 1
        fields = header(body)
        number = number_of(self.enqueued, fields.priority)
        self.sizes[number] = len(body)
        self.available.add(number)
        if fields.ttl:
            self.due[number] = self.queue.turn.now + fields.ttl
        self.drop()
        if self.above:
            self.overfull = True

    def let_in(self) -> None:
        """Enqueue messages that the engine has enqueued from the parked ones. An invariant checks when it must."""
        while self.enqueued < self.queue.gate.enqueued:
            self.enqueue(self.outside.pop(0)[1])

    def forget(self, number: int) -> None:
        del self.sizes[number]
        self.available.discard(number)
        self.barred.pop(number, None)
        self.due.pop(number, None)
        self.failed.pop(number, None)

    def put_back(self, number: int) -> None:
        """Put a message back at its former place, if it has not expired."""
        self.available.add(number)
        self.expire_messages(self.queue.turn.now)

    def expire_messages(self, now: int) -> None:
        due = [n for n in self.available if self.due.get(n, NEVER) <= now]
        for number in due:
            self.forget(number)
        if due:
            self.measure()

    def measure(self) -> None:
        limits = self.queue.gate.limits
        size, count = sum(self.sizes.values()), len(self.sizes)
        if limits.ring:
            self.resume()
        elif self.above:
            self.overfull = True
        elif size <= limits.resume_bytes and count <= limits.resume_messages:
            self.resume()

    def resume(self) -> None:
        self.overfull = False
        self.acquired.clear()

    @property
    def above(self) -> bool:
        limits = self.queue.gate.limits
        if limits.ring:
            return False
        return sum(self.sizes.values()) > limits.stop_bytes or len(self.sizes) > limits.stop_messages

    def expire(self, now: int) -> None:
        while self.queue.gate.limits.overflow == "reject-after" and self.outside and self.outside[0][2] <= now:
            del self.outside[0]

    def leave(self, producer: Producer) -> None:
        del self.acquired[producer]
        self.outside = [w for w in self.outside if w[0] is not producer]

    def limits_changed(self, way: str) -> None:
        """`way`: the overflow policy before the change."""
        if way != self.queue.gate.limits.overflow:
            self.acquired.clear()
            deadline = self.queue.turn.now + self.queue.gate.limits.reject_after_ms
            self.outside = [(producer, body, deadline) for producer, body, _ in self.outside]
        self.drop()
        self.let_in()
        self.measure()

    def withheld(self, producer: Producer) -> int:
        return self.acquired[producer] + sum(1 for w in self.outside if w[0] is producer)

    def drop(self) -> None:
        """Drop the oldest messages of the lowest priority from a ring."""
        limits = self.queue.gate.limits
        while (
            limits.ring
            and self.available
            and (sum(self.sizes.values()) > limits.stop_bytes or len(self.sizes) > limits.stop_messages)
        ):
            self.forget(min(self.available, key=lambda number: (-rank_of(number), number)))

    @property
    def state(self) -> State:
        stopped = bool(self.queue.gate.stops)
        if self.overfull:
            return State.OVERFULL_STOPPED if stopped else State.OVERFULL
        return State.STOPPED if stopped else State.NORMAL


class Watched(Simulation):
    """Reports dispatched messages to the models, and checks every grant."""

    def __init__(self) -> None:
        self.models: dict[Queue, Model] = {}
        super().__init__()
        self.broker.turn.header = header

    def dispatch(self, queue: Queue) -> None:
        model = self.models[queue]
        model.let_in()
        for consumer, messages in queue.dispatch():
            for message in messages:
                assert message[0] in model.sizes, "a removed message was dispatched"
                if not consumer.browsing:
                    self._dispatched(model, consumer, message)
            if not consumer.browsing:
                self.acquired[consumer].extend(messages)
        ready = {c for c in queue.dispatcher.consumers if c.credit}
        assert all(ready <= model.barred.get(n, set()) for n in model.available), "a ready consumer got nothing"

    def time_passed(self) -> None:
        for model in self.models.values():
            model.expire(self.broker.turn.now)
            model.expire_messages(self.broker.turn.now)

    @staticmethod
    def _dispatched(model: Model, consumer: Consumer, message: Message) -> None:
        number = message[0]
        barred = model.barred
        assert consumer not in barred.get(number, ()), "a consumer got a message that it is barred from"
        assert all(consumer in barred.get(n, ()) for n in model.available if n < number), "an older message was skipped"
        model.available.remove(number)

    def grant(self, queue: Queue) -> None:
        before, room, reserved = (
            {p: p.credit for p in queue.gate.producers},
            queue.gate.room(),
            queue.gate.ledger.reserved,
        )
        super().grant(queue)
        self.models[queue].let_in()
        if any(p.credit > before[p] for p in queue.gate.producers):
            assert not queue.gate.state.stopped
            assert queue.gate.state is State.NORMAL or queue.gate.limits.overflow.startswith("reject")
            assert 0 <= queue.gate.ledger.reserved - reserved <= room, "more credit was granted than there is room for"
        assert all(p.credit <= max(before[p], queue.gate.limits.window) for p in queue.gate.producers)


class EngineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = world = Watched()
        world.broker.create_virtualhost("other")
        for host, name in QUEUES:
            queue = world.broker.create_queue(world.broker.virtualhost(host), name)
            world.models[queue] = Model(queue)
        world.settle()
        self.queues = list(world.models)
        for queue in self.queues:
            world.broker.set_own_policy(queue, {"capacity_messages": 8, "flow_resume_messages": "50%"})
            for answers in (True, False):
                world.sender(queue, answers=answers)
            world.receiver(queue)
        self.overfull = dict.fromkeys((str(q.object_name) for q in self.queues), False)
        self.policy: dict[Queue, dict[str, Value]] = {}

    # -- producers ----------------------------------------------------------------------------------------------

    @rule(pick=picks, answers=st.booleans())
    def attach_a_sender(self, pick: int, answers: bool) -> None:
        if len(self.world.senders) < 12:
            self.world.sender(self.queues[pick % len(self.queues)], answers=answers)

    def sender(self, pick: int) -> Sender:
        """Return one of the existing ones; a new one if there is none."""
        if not self.world.senders:
            self.world.sender(self.queues[0])
        return list(self.world.senders.values())[pick % len(self.world.senders)]

    @rule(pick=picks)
    def detach_a_sender(self, pick: int) -> None:
        sender = self.sender(pick)
        self.world.models[sender.producer.queue].leave(sender.producer)
        self.world.detach(sender)

    @rule(pick=picks)
    def a_sender_reads(self, pick: int) -> None:
        self.sender(pick).read()

    @rule(pick=picks, most=st.integers(1, 20), size=sizes)
    def a_sender_sends(self, pick: int, most: int, size: int) -> None:
        """Send, and leave the messages in flight."""
        sender = self.sender(pick)
        sender.read()
        sender.send(size, most)

    @rule(pick=picks, most=st.integers(1, 20))
    def frames_arrive(self, pick: int, most: int) -> None:
        self.arrive(self.sender(pick), most)

    @rule(most=st.integers(1, 4), rounds=st.integers(1, 3), size=sizes)
    def all_senders_send(self, most: int, rounds: int, size: int) -> None:
        for _ in range(rounds):
            for sender in list(self.world.senders.values()):
                sender.read()
                sender.send(size, most)
            for sender in list(self.world.senders.values()):
                self.arrive(sender, 100)

    @rule(pick=picks)
    def a_sender_answers_late(self, pick: int) -> None:
        self.sender(pick).answer()

    @rule(pick=picks)
    def a_sender_gives_a_message_up_half_way(self, pick: int) -> None:
        sender = self.sender(pick)
        sender.read()
        if sender.credit and not sender.frames:
            sender.count += 1
            sender.received += 1
            sender.producer.queue.abort(sender.producer)
            self.world.settle()

    @rule(pick=picks)
    def a_sender_breaks_the_protocol(self, pick: int) -> None:
        """Send without credit, while no message is in flight."""
        sender = self.sender(pick)
        producer = sender.producer
        if producer.credit or producer.withdrawn or producer.lapsed or producer.doubtful:
            return
        queue = producer.queue
        self.world.models[queue].leave(producer)
        before = (queue.gate.depth_messages, queue.gate.enqueued, queue.gate.depth_bytes)
        assert self.world.publish(sender, b"!") is Verdict.NO_CREDIT
        assert (queue.gate.depth_messages, queue.gate.enqueued, queue.gate.depth_bytes) == before
        assert producer not in queue.gate.ledger.members

    def arrive(self, sender: Sender, most: int) -> None:
        """Deliver one frame after the other, and report each to the model."""
        producer, queue = sender.producer, sender.producer.queue
        model = self.world.models[queue]
        while sender.frames and most and producer in queue.gate.ledger.members:
            most -= 1
            frame, expected = sender.frames[0], sender.verdicts.copy()
            if isinstance(frame, bytes):
                known = producer.credit or producer.withdrawn or producer.lapsed or producer.doubtful
                assert known, "a conforming client counted as violating the protocol"
                now = self.world.broker.turn.now
                expected[model.publish(producer, frame, now, late=not producer.credit)] += 1
            self.world.arrive(sender, 1)
            assert sender.verdicts == expected

    # -- consumers ----------------------------------------------------------------------------------------------

    @rule(pick=picks, credit=st.integers(0, 20), browsing=st.booleans())
    def attach_a_receiver(self, pick: int, credit: int, browsing: bool) -> None:
        if len(self.world.acquired) < 6:
            self.world.receiver(self.queues[pick % len(self.queues)], credit, browsing=browsing)

    def receiver(self, pick: int) -> Consumer:
        if not self.world.acquired:
            self.world.receiver(self.queues[0])
        return list(self.world.acquired)[pick % len(self.world.acquired)]

    @rule(pick=picks, credit=st.integers(1, 20))
    def a_receiver_gives_credit(self, pick: int, credit: int) -> None:
        self.world.give(self.receiver(pick), credit)

    @rule()
    def all_consumers_accept_all(self) -> None:
        for pick in range(len(self.world.acquired)):
            self.world.give(self.receiver(pick), 10)
            self.a_receiver_accepts_all(pick)

    @rule(pick=picks, which=picks, outcome=st.sampled_from(["accept", "reject", "release", "failed", "barred"]))
    def a_receiver_settles_one(self, pick: int, which: int, outcome: str) -> None:
        consumer = self.receiver(pick)
        acquired = self.world.acquired[consumer]
        if not acquired:
            return
        message = acquired.pop(which % len(acquired))
        queue = consumer.queue
        model = self.world.models[queue]
        number, limits = message[0], queue.gate.limits
        if outcome in ("failed", "barred"):
            model.failed[number] += 1
        if outcome in ("accept", "reject") or 0 < limits.maximum_deliveries <= model.failed[number]:
            discarded = queue.discarded + (outcome != "accept")
            model.forget(number)
            if outcome == "accept":
                queue.remove(consumer, message)
            elif outcome == "reject":
                queue.reject(consumer, message)
            else:
                queue.put_back(consumer, message, failed=True, barred=outcome == "barred")
            assert queue.discarded == discarded
            model.measure()
        else:
            if outcome == "barred":
                model.barred.setdefault(number, set()).add(consumer)
            model.put_back(number)
            queue.put_back(consumer, message, failed=outcome != "release", barred=outcome == "barred")
        self.world.settle()

    def a_receiver_accepts_all(self, pick: int) -> None:
        consumer = self.receiver(pick)
        model = self.world.models[consumer.queue]
        for message in list(self.world.acquired[consumer]):
            model.forget(message[0])
            model.measure()
            self.world.acquired[consumer].remove(message)
            consumer.queue.remove(consumer, message)
            model.let_in()
        self.world.settle()

    @rule(pick=picks)
    def detach_a_receiver(self, pick: int) -> None:
        consumer = self.receiver(pick)
        model = self.world.models[consumer.queue]
        for barred in model.barred.values():
            barred.discard(consumer)
        model.available.update(m[0] for m in self.world.acquired[consumer])
        model.expire_messages(self.world.broker.turn.now)
        self.world.leave(consumer)

    # -- operators ----------------------------------------------------------------------------------------------

    @rule(where=st.sampled_from([0, 1, "virtualhost", "broker"]), policy=policies)
    def change_a_policy(self, where: int | str, policy: dict[str, Value]) -> None:
        broker = self.world.broker
        if where == "broker":
            self.change_limits(lambda: broker.set_broker_defaults(policy))
        elif where == "virtualhost":
            self.change_limits(lambda: broker.set_virtualhost_defaults(broker.virtualhost("default"), policy))
        else:
            self.change_limits(lambda: broker.set_own_policy(self.queues[int(where)], policy))

    def change_limits(self, change: Any) -> None:
        before = {q: q.gate.limits for q in self.queues}
        try:
            change()
        except InvalidValue:
            assert before == {q: q.gate.limits for q in self.queues}, "a refused change had an effect"
            return
        for queue, model in self.world.models.items():
            model.limits_changed(before[queue].overflow)
            # Parked messages may have been enqueued.
            model.before = queue.gate.depth_messages, queue.gate.depth_bytes
        self.world.settle()

    @rule(scope=st.sampled_from(SCOPES))
    def stop(self, scope: Scope) -> None:
        outcome = self.world.broker.stopping.stop_producers(scope, "incident", "ann")
        self.check_outcome(scope, outcome)
        self.world.settle()
        assert not self.world.broker.stopping.stop_producers(scope, "again", "bob").changed

    @rule(scope=st.sampled_from(SCOPES))
    def start(self, scope: Scope) -> None:
        outcome = self.world.broker.stopping.start_producers(scope, "over", "ann")
        self.check_outcome(scope, outcome)
        self.world.settle()
        assert not self.world.broker.stopping.start_producers(scope, "again", "bob").changed
        assert not any(scope.contains(s) for s in self.world.broker.stops)

    def check_outcome(self, scope: Scope, outcome: Any) -> None:
        producers = [p for q in self.queues if scope.covers(q.virtualhost, q.name) for p in q.gate.producers]
        assert outcome.queues == sum(scope.covers(q.virtualhost, q.name) for q in self.queues)
        assert outcome.producers == len(producers)
        assert outcome.draining == sum(p.blocked and bool(p.withdrawn or (p.draining and p.credit)) for p in producers)
        assert outcome.stopped == sum(p.blocked and not p.withdrawn for p in producers)

    @rule(pick=picks)
    def purge(self, pick: int) -> None:
        queue = self.queues[pick % len(self.queues)]
        model = self.world.models[queue]
        assert queue.lanes.purge() == len(model.available)
        for number in list(model.available):
            model.forget(number)
        model.measure()
        self.world.settle()

    @rule(sweeps=st.sampled_from([1, 1, 2, 5, 10, 1300]))
    def time_passes(self, sweeps: int) -> None:
        self.world.advance(sweeps * 50)

    # -- invariants ---------------------------------------------------------------------------------------------

    @invariant()
    def contents_are_those_of_the_model(self) -> None:
        for queue, model in self.world.models.items():
            assert queue.gate.depth_messages == len(model.sizes)
            assert queue.gate.depth_bytes == sum(model.sizes.values())
            there = [m for lane in queue.lanes.lanes for m in (*lane.returned, *lane.ready)]
            assert [m[0] for m in there] == sorted(model.available)
            acquired = [m for c, messages in self.world.acquired.items() if c.queue is queue for m in messages]
            unacknowledged = sum(c.unacknowledged for c in queue.dispatcher.consumers)
            assert queue.lanes.unacknowledged == len(acquired) == unacknowledged
            assert sorted(m[0] for m in [*there, *acquired]) == sorted(model.sizes)
            assert queue.gate.enqueued - queue.lanes.dequeued == queue.gate.depth_messages
            assert set(queue.lanes.deliveries) <= set(model.sizes)
            assert set(queue.lanes.excluded) <= set(model.sizes)
            assert queue.lanes.deadlines.at == model.due
            assert {n: count for n, count in queue.lanes.deliveries.items() if count} == +model.failed

    @invariant()
    def each_producers_messages_are_in_the_order_in_which_it_sent_them(self) -> None:
        for queue in self.queues:
            last: dict[tuple[int, int], int] = {}
            for lane in queue.lanes.lanes:
                for message in [*lane.returned, *lane.ready]:
                    producer, number = origin(message)
                    assert number > last.get((producer, lane.rank), 0)
                    last[producer, lane.rank] = number

    @invariant()
    def states_and_reasons_are_those_of_the_model(self) -> None:
        for queue, model in self.world.models.items():
            assert queue.gate.state is model.state
            expected = (
                [f"queue-overfull:{queue.name}"] if model.overfull and queue.gate.limits.overflow != "reject" else []
            )
            expected += [
                f"operator-stop:{s}" for s in self.world.broker.stops if s.covers(queue.virtualhost, queue.name)
            ]
            assert set(queue.gate.stops) == {
                s for s in self.world.broker.stops if s.covers(queue.virtualhost, queue.name)
            }
            for producer in queue.gate.producers:
                assert sorted(producer.reasons) == sorted(expected)
                assert producer.blocked is bool(expected)
                assert (producer.blocked_since is None) is not producer.blocked
                assert bool(producer.release_condition()) is producer.blocked
                if queue.gate.state.stopped or (queue.gate.state.overfull and queue.gate.limits.bounded):
                    assert not producer.credit, "a blocked producer has credit"
            assert queue.gate.blocked_producers == sum(p.blocked for p in queue.gate.producers)
            assert (queue.gate.overfull_since is not None) is queue.gate.state.overfull
            assert (queue.gate.stopped_since is not None) is queue.gate.state.stopped

    @invariant()
    def credit_adds_up_and_stays_within_the_limit(self) -> None:
        for queue, model in self.world.models.items():
            ledger, limits = queue.gate.ledger, queue.gate.limits
            members = list(ledger.members)
            assert all(min(p.credit, p.withdrawn, p.lapsed, p.doubtful) >= 0 for p in members)
            assert ledger.reserved == sum(p.credit * (not p.probing) + p.withdrawn for p in members)
            assert all(p.credit == 1 and p.idle and not p.waiting for p in members if p.probing)
            assert len(ledger.probes) == sum(p.probing for p in members)
            if (
                queue.gate.state is State.NORMAL
                and queue.gate.room() < 0
                and any(p.credit and not p.probing for p in members)
            ):
                assert sum(p.withdrawn for p in members) >= -queue.gate.room(), "too much credit stays outstanding"
            depth, size = queue.gate.depth_messages, queue.gate.depth_bytes
            if limits.bounded:
                assert depth <= max(model.before[0], limits.stop_messages + 1)
                assert size <= max(model.before[1], limits.stop_bytes + LARGEST)
            model.before = depth, size

    @invariant()
    def no_producer_is_forgotten(self) -> None:
        """Unblocked producers without credit wait or are drained; queues with timed work are swept."""
        for queue in self.queues:
            ledger = queue.gate.ledger
            members = set(ledger.members)
            lines = [*ledger.waiting, *ledger.idle]
            assert set(ledger.waiting) == {p for p in members if p.waiting and not p.idle}
            assert set(ledger.idle) == {p for p in members if p.waiting and p.idle}
            assert len(lines) == len(set(lines))
            assert set(ledger.pending) <= members
            assert {p for p in members if p.withdrawn or p.draining} <= set(ledger.pending)
            assert draining(ledger.pending) == draining(members)
            for producer in members:
                if queue.gate.state is State.NORMAL and not producer.credit and not producer.unsettled:
                    assert producer.waiting or producer.draining, "an unblocked producer does not wait for credit"
            starved = queue.gate.state is State.NORMAL and any(not p.credit for p in lines)
            if ledger.pending or starved:
                assert queue in self.world.broker.agenda.watched, "the sweep would not take credit back"
            if queue.gate.state is State.NORMAL and any(not p.credit for p in ledger.waiting):
                assert queue.gate.room() <= 0

    @invariant()
    def clients_know_their_credit(self) -> None:
        for producer, sender in self.world.senders.items():
            known = sum(sender.flows[-1][:2]) if sender.flows else sender.limit
            assert known == sender.received + producer.credit

    @invariant()
    def every_outcome_that_is_withheld_comes(self) -> None:
        for producer, sender in self.world.senders.items():
            acquired = self.world.models[producer.queue].withheld(producer)
            assert producer.unsettled == acquired
            assert sender.verdicts[Verdict.PENDING] == acquired + sum(sender.outcomes.values())
        for queue, model in self.world.models.items():
            assert [w.producer for w in queue.gate.parked] == [w[0] for w in model.outside]
            if queue.gate.parked and queue.gate.state is State.NORMAL:
                raise AssertionError("a message is parked though the queue is not overfull")

    @invariant()
    def overfull_and_underfull_come_in_turns(self) -> None:
        for fact in self.world.facts:
            if fact.kind in FINAL:
                assert self.overfull[str(fact.object)] is not FINAL[fact.kind]
                self.overfull[str(fact.object)] = FINAL[fact.kind]
        self.world.facts.clear()
        assert self.overfull == {str(q.object_name): q.gate.state.overfull for q in self.queues}

    def teardown(self) -> None:
        """Without traffic every reservation ends, and no queue without credit to take back is swept."""
        world = self.world
        for sender in world.senders.values():
            sender.answers = False
        world.broker.stopping.stop_producers(Scope(), "", "ann")
        world.settle()
        world.advance(1000 + 4 * GRACE_MS)
        for queue in self.queues:
            assert queue.gate.ledger.reserved == 0
            assert not queue.gate.ledger.pending
            assert not queue.gate.parked or queue.gate.limits.overflow != "reject-after"
        assert not world.broker.agenda.watched
        world.broker.stopping.start_producers(Scope(), "", "ann")
        world.settle()
        for pick, queue in enumerate(self.queues):
            for _ in range(len(queue.gate.parked) + 1):
                self.all_consumers_accept_all()
                self.purge(pick)
            assert not queue.gate.parked


EngineMachine.TestCase.settings = settings(settings.default, max_examples=120, stateful_step_count=50)
TestEngineUnderRandomClientsAndOperators = EngineMachine.TestCase
