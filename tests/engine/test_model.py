"""Random clients and operators against the whole engine, compared after every step with the naive models of its queues
(`queue_model.py`) and with what may never come to be (`engine_invariants.py`)."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from brokers.admin import InvalidValue
from brokers.engine.flow.credit import GRACE_MS
from brokers.engine.queues import purging
from brokers.engine.queues.consumer import Consumer
from brokers.engine.values.outcomes import Verdict
from brokers.engine.values.policy import Value
from brokers.engine.values.stops import Scope
from tests.engine.engine_invariants import LARGEST, EngineInvariants
from tests.engine.simulation import Sender

SCOPES = (
    Scope(),
    Scope("default"),
    Scope(pattern="orders.*"),
    Scope("other", pattern=">"),
    Scope("default", "orders.eu"),
    Scope("other", "stocks"),
)

picks = st.integers(0, 1 << 16)
small = st.integers(0, 12)
sizes = st.sampled_from([40, 40, 100, LARGEST])
levels = st.one_of(small, st.sampled_from(["0%", "30%", "50%", "80%", "100%"]))
size_levels = st.one_of(st.integers(0, 2000), st.sampled_from(["50%", "100%"]))
FIELDS: dict[str, st.SearchStrategy[Value]] = {
    "capacity_messages": st.one_of(small, st.just(30)),  # a tenth of which is more than the least that hold accepts
    "flow_stop_messages": levels,
    "flow_resume_messages": levels,
    "capacity_bytes": st.one_of(st.integers(0, 2000), st.just(4000)),
    "flow_stop_bytes": size_levels,
    "flow_resume_bytes": size_levels,
    "overflow": st.sampled_from(["producers", "producers", "producers", "ring"]),
    "mechanism": st.sampled_from(["block", "hold", "reject", "reject-after"]),
    "reject_after_ms": st.sampled_from([0, 100, 1000]),
    "flow_control": st.sampled_from(["on", "on", "off"]),
    "producer_window_bytes": st.integers(0, 500),
    "producer_window_messages": st.integers(0, 5),
    "maximum_deliveries": st.sampled_from([0, 0, 1, 2]),
}
policies = st.fixed_dictionaries({}, optional=FIELDS)
single_fields = st.sampled_from([*sorted(FIELDS), *["mechanism"] * 4, *["reject_after_ms"] * 2]).flatmap(
    lambda name: st.fixed_dictionaries({name: FIELDS[name]})
)
first_limits: list[dict[str, Value]] = [{"capacity_messages": 8}, {"capacity_messages": 30}, {"capacity_bytes": 4000}]
first_policies = st.builds(
    lambda limits, mechanism: {
        **limits,
        "flow_resume_messages": "50%",
        "flow_resume_bytes": "50%",
        "mechanism": mechanism,
    },
    st.sampled_from(first_limits),
    st.sampled_from(["block", "hold"]),
)
WHERE = (0, 1, 0, 1, "virtualhost", "broker")  # the layer of a policy: one of the queues, or defaults


class EngineMachine(EngineInvariants):
    def __init__(self) -> None:
        super().__init__()
        self.portions = mock.patch.object(purging, "PORTION", 2)
        self.portions.start()
        self.policies: dict[int | str, dict[str, Value]] = {}

    @initialize(policies=st.tuples(first_policies, first_policies))
    def attach_the_first_clients(self, policies: tuple[dict[str, Value], ...]) -> None:
        for where, policy in enumerate(policies):
            self.change_a_policy(where, policy)
            for answers in (True, False):
                self.world.sender(self.queues[where], answers=answers)
            self.world.receiver(self.queues[where])

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

    @rule(most=st.integers(1, 8), rounds=st.integers(1, 3), size=sizes)
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

    @rule(where=st.sampled_from(WHERE), policy=policies)
    def change_a_policy(self, where: int | str, policy: dict[str, Value]) -> None:
        broker = self.world.broker
        before = {q: q.gate.limits for q in self.queues}
        try:
            if where == "broker":
                broker.set_broker_defaults(policy)
            elif where == "virtualhost":
                broker.set_virtualhost_defaults(broker.virtualhost("default"), policy)
            else:
                broker.set_own_policy(self.queues[int(where)], policy)
        except InvalidValue:
            assert before == {q: q.gate.limits for q in self.queues}, "a refused change had an effect"
            return
        self.policies[where] = policy
        for queue, model in self.world.models.items():
            model.limits_changed(before[queue])
            # Parked messages may have been enqueued.
            model.before = queue.gate.depth_messages, queue.gate.depth_bytes
        self.world.settle()

    @rule(where=st.sampled_from(WHERE), field=single_fields)
    def change_a_field(self, where: int | str, field: dict[str, Value]) -> None:
        self.change_a_policy(where, {**self.policies.get(where, {}), **field})

    @rule(pick=picks)
    def lower_a_limit(self, pick: int) -> None:
        """Lower the capacity of a queue to half of its depth."""
        where = pick % len(self.queues)
        self.change_a_field(where, {"capacity_messages": self.queues[where].gate.depth_messages // 2})

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
        blocked = [p for p in producers if p.blocked]
        assert outcome.draining == sum(bool(p.credit or p.withdrawn) for p in blocked)
        assert outcome.stopped == sum(not p.credit and not p.withdrawn for p in blocked)

    @rule(pick=picks)
    def purge(self, pick: int) -> None:
        queue = self.queues[pick % len(self.queues)]
        model = self.world.models[queue]
        assert queue.lanes.purge()[0] == len(model.available)
        for number in list(model.available):
            model.forget(number)
            model.purged.add(number)
        model.measure()
        self.world.settle()

    @rule(sweeps=st.sampled_from([1, 1, 2, 5, 10, 1300]))
    def time_passes(self, sweeps: int) -> None:
        self.world.advance(sweeps * 50)

    def teardown(self) -> None:
        """Without traffic every reservation ends, and no queue without credit to take back is swept."""
        self.portions.stop()
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
            assert not any(producer.unsettled for producer in queue.gate.producers)


EngineMachine.TestCase.settings = settings(settings.default, max_examples=120, stateful_step_count=50)
TestEngineUnderRandomClientsAndOperators = EngineMachine.TestCase
