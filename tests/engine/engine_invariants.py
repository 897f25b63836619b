"""What may never come to be in an engine, whatever clients and operators do: checked after every step of a history.

The contents, states, reasons and withheld settlements are those of the models. Credit adds up, stays within the room
that the rules leave, and reaches every producer that may have some.
"""

from __future__ import annotations

from hypothesis.stateful import RuleBasedStateMachine, invariant

from brokers.engine.flow.credit import draining
from brokers.engine.flow.table import State
from brokers.engine.values.outcomes import Verdict
from tests.engine.queue_model import Model, Watched
from tests.engine.simulation import origin

#: The size of the largest message that senders send, bytes.
LARGEST = 700
QUEUES = (("default", "orders.eu"), ("other", "stocks"))
FINAL = {"queue-overfull": True, "queue-underfull": False}


class EngineInvariants(RuleBasedStateMachine):
    """An engine with two queues in two virtual hosts. `overfull`: which of them are overfull by the facts so far."""

    def __init__(self) -> None:
        super().__init__()
        self.world = world = Watched()
        world.broker.create_virtualhost("other")
        for host, name in QUEUES:
            queue = world.broker.create_queue(world.broker.virtualhost(host), name)
            world.models[queue] = Model(queue)
        world.settle()
        self.queues = list(world.models)
        self.overfull = dict.fromkeys((str(q.object_name) for q in self.queues), False)

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
            deliveries, deadlines = dict(queue.lanes.deliveries), dict(queue.lanes.deadlines.at)
            excluded = set(queue.lanes.excluded)
            if self.world.broker.agenda.freeing:  # what is known of purged messages is forgotten later
                for number in model.purged:
                    deliveries.pop(number, None)
                    deadlines.pop(number, None)
                    excluded.discard(number)
            assert set(deliveries) <= set(model.sizes)
            assert excluded <= set(model.sizes)
            assert deadlines == model.due
            assert {n: count for n, count in deliveries.items() if count} == +model.failed

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
                if queue.gate.state.stopped or (queue.gate.state.overfull and queue.gate.limits.overflow == "block"):
                    assert not producer.credit, "a blocked producer has credit"
            assert queue.gate.blocked_producers == sum(p.blocked for p in queue.gate.producers)
            assert (queue.gate.overfull_since is not None) is queue.gate.state.overfull
            assert (queue.gate.stopped_since is not None) is queue.gate.state.stopped

    @invariant()
    def credit_adds_up_and_stays_within_the_limit(self) -> None:
        for queue, model in self.world.models.items():
            ledger = queue.gate.ledger
            members = list(ledger.members)
            assert all(min(p.credit, p.withdrawn, p.lapsed, p.doubtful) >= 0 for p in members)
            assert ledger.reserved == sum(p.credit * (not p.probing) + p.withdrawn for p in members)
            assert all(p.credit == 1 and p.idle and not p.waiting for p in members if p.probing)
            assert len(ledger.probes) == sum(p.probing for p in members)
            if any(p.credit and not p.probing for p in members):
                assert sum(p.withdrawn for p in members) >= -model.room, "too much credit stays outstanding"
            depth, size = queue.gate.depth_messages, queue.gate.depth_bytes
            if not queue.gate.limits.ring:
                assert depth <= max(model.before[0], model.most_messages + 1)
                assert size <= max(model.before[1], model.most_bytes + LARGEST)
            model.before = depth, size

    @invariant()
    def no_producer_is_forgotten(self) -> None:
        """Unblocked producers without credit wait or are drained; queues with timed work are swept."""
        for queue, model in self.world.models.items():
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
            if model.may_grant and any(not p.credit for p in ledger.waiting):
                assert model.room <= 0, "a producer waits though there is room for its credit"

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
