"""Runs of messages have the effects of the same messages one by one: the same random history is fed to two brokers."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokers.engine.flow.producer import Producer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.queues.runs import Allowance
from brokers.engine.values.outcomes import Verdict
from brokers.engine.values.stops import Scope
from tests.engine.simulation import Sender, Simulation, origin

OWN: list[dict[str, int | str]] = [
    {},
    {"capacity_messages": 12, "flow_resume_messages": "50%"},
    {"capacity_bytes": 2000, "flow_resume_bytes": "50%"},
    {"capacity_messages": 8, "capacity_bytes": 900},
    {"capacity_messages": 10, "overflow": "ring"},
    {"capacity_messages": 10, "spool": "disk"},
    *(
        {"capacity_messages": 10, "flow_resume_messages": "50%", "mechanism": mechanism}
        for mechanism in ("hold", "reject", "reject-after")
    ),
    {"capacity_bytes": 2000, "flow_resume_bytes": "50%", "mechanism": "reject"},
]


class Broker(Simulation):
    """One of the two: `in_runs`, or one by one. Several frames of a client arrive in one turn in both."""

    def __init__(self, own: dict[str, int | str], *, in_runs: bool) -> None:
        super().__init__()
        self.in_runs = in_runs
        self.runs = 0
        self.dispatched: list[tuple[int, list[Message]]] = []
        self.orders: Queue = self.queue(**own)
        self.clients: list[Sender] = []
        self.consumers: list[Any] = []

    def dispatch(self, queue: Queue) -> None:
        for consumer, messages in queue.dispatch():
            self.dispatched.append((self.consumers.index(consumer), messages))
            self.acquired[consumer].extend(messages)

    def frames(self, client: int, sizes: list[int]) -> None:
        """Let a client send messages of these sizes, at most its credit, which arrive together."""
        sender = self.clients[client % len(self.clients)]
        sender.read()
        bodies = []
        for size in sizes:
            sender.send(size)
        while sender.frames and isinstance(sender.frames[0], bytes):
            bodies.append(sender.frames.popleft())
            sender.received += 1
        verdicts = self._in_runs(sender.producer, bodies) if self.in_runs else self._each(sender.producer, bodies)
        sender.verdicts.update(verdicts)
        self.settle()
        self.arrive(sender)  # answers to drains

    def _each(self, producer: Producer, bodies: list[bytes]) -> list[Verdict]:
        return [self.orders.publish(producer, body) for body in bodies]

    def _in_runs(self, producer: Producer, bodies: list[bytes]) -> list[Verdict]:
        """As the C extension collects them."""
        verdicts: list[Verdict] = []
        while bodies:
            allowance = self.orders.run_allowance(producer)
            count = _fitting(bodies, allowance)
            if not count:
                verdicts.append(self.orders.publish(producer, bodies.pop(0)))
                continue
            run, bodies = bodies[:count], bodies[count:]
            self.runs += count > 1
            verdicts += count * [self.orders.publish_run(producer, run, sum(map(len, run)), durable=False)]
        return verdicts

    def acknowledge(self, consumer: int, most: int) -> None:
        who = self.consumers[consumer % len(self.consumers)]
        messages = self.acquired[who][:most]
        del self.acquired[who][: len(messages)]
        if self.in_runs:
            self.orders.acknowledge_run(who, messages)
        else:
            for message in messages:
                self.orders.remove(who, message)
        self.settle()

    def seen(self) -> dict[str, Any]:
        gate, lanes = self.orders.gate, self.orders.lanes
        return {
            "state": gate.state,
            "depth": (gate.depth_messages, gate.depth_bytes, gate.enqueued, lanes.dequeued, lanes.dropped),
            "rejected": (gate.rejected, len(gate.parked), gate.overfull_count),
            "ledger": (gate.ledger.reserved, gate.ledger.granted, len(gate.ledger.waiting), len(gate.ledger.idle)),
            "producers": [
                (p.credit, p.withdrawn, p.lapsed, p.messages, p.bytes, p.unsettled, list(p.causes), p.waiting, p.idle)
                for p in (sender.producer for sender in self.clients)
            ],
            "clients": [(s.limit, s.count, s.verdicts, s.outcomes) for s in self.clients],
            "consumers": [(c.credit, c.unacknowledged, c.messages) for c in self.consumers],
            "failed": dict(lanes.deliveries),
            "dispatched": self.dispatched,
            "facts": [(f.kind, f.text, dict(f.attributes)) for f in self.facts],
        }


def _fitting(bodies: list[bytes], allowance: Allowance) -> int:
    count = size = 0
    for body in bodies:
        if count >= allowance.messages or len(body) > allowance.largest or size > allowance.size:
            break
        count += 1
        size += len(body)
    return count


EVERYTHING = Scope()
sizes = st.one_of(
    st.lists(st.just(100), min_size=1, max_size=30), st.lists(st.sampled_from([30, 100, 400]), min_size=1, max_size=10)
)
picks = st.integers(0, 2)
often = [
    st.tuples(st.just("frames"), picks, sizes),
    st.tuples(st.just("acknowledge"), picks, st.integers(1, 30)),
    st.tuples(st.just("credit"), picks, st.integers(1, 30)),
]
seldom = [
    st.tuples(st.just("time"), st.sampled_from([50, 500, 5_000])),
    st.tuples(st.just("fail"), picks),
    st.tuples(st.just("limits"), st.sampled_from(OWN)),
    st.tuples(st.just("short"), st.sampled_from([0, 600, 2_000])),
    st.tuples(st.just("stop")),
    st.tuples(st.just("start")),
    st.tuples(st.just("purge")),
]
steps = st.lists(st.one_of(*often, *often, *often, *seldom), min_size=10, max_size=60)


def fail(broker: Broker, who: int) -> None:
    consumer = broker.consumers[who % len(broker.consumers)]
    for message in broker.acquired[consumer][:1]:
        broker.acquired[consumer].remove(message)
        broker.orders.put_back(consumer, message, failed=True)


DO = {
    "frames": Broker.frames,
    "acknowledge": Broker.acknowledge,
    "credit": lambda broker, who, count: broker.give(broker.consumers[who % len(broker.consumers)], count),
    "time": Broker.advance,
    "fail": fail,
    "limits": lambda broker, own: broker.broker.set_own_policy(broker.orders, own),
    "short": lambda broker, most: broker.broker.shortages.set_limits({"memory_limit": most} if most else {}),
    "stop": lambda broker: broker.broker.stopping.stop_producers(EVERYTHING, "incident", "ann"),
    "start": lambda broker: broker.broker.stopping.start_producers(EVERYTHING, "over", "ann"),
    "purge": lambda broker: broker.orders.lanes.purge(),
}


ALL = [("frames", client, [100] * 30) for client in range(3)]


@settings(max_examples=200)
@example(OWN[1], [*ALL, ("acknowledge", 0, 30), *ALL])
@example(OWN[5], [*ALL, *ALL, ("limits", {"spool": "disk"}), *ALL, ("credit", 0, 90)])
@example(OWN[-1], [*ALL, *ALL, ("acknowledge", 0, 30), *ALL])
@given(st.sampled_from(OWN), steps)
def test_runs_have_the_effects_of_the_same_messages_one_by_one(own: Any, history: list[tuple[Any, ...]]) -> None:
    both = [Broker(own, in_runs=in_runs) for in_runs in (True, False)]
    for broker in both:
        broker.clients = [broker.sender(broker.orders) for _ in range(3)]
        for credit in (20, 0):
            consumer = broker.receiver(broker.orders)
            broker.consumers.append(consumer)
            broker.give(consumer, credit)
    for step in history:
        for broker in both:
            DO[step[0]](broker, *step[1:])
            broker.settle()
        assert both[0].seen() == both[1].seen(), step


def test_messages_of_a_run_keep_their_order_and_numbers() -> None:
    broker = Broker({}, in_runs=True)
    broker.clients = [broker.sender(broker.orders)]
    broker.frames(0, [100])
    broker.frames(0, [100] * 200)
    broker.frames(0, [100] * 200)
    assert broker.runs
    consumer = broker.receiver(broker.orders)
    broker.consumers.append(consumer)
    broker.give(consumer, 1000)
    sent = broker.clients[0].sent
    assert sent > 100
    assert [origin(message)[1] for message in broker.acquired[consumer]] == list(range(1, sent + 1))
    assert [message[0] for message in broker.acquired[consumer]] == list(range(1, sent + 1))
