"""The limits of the broker bound what is used: an oracle adds up what is in the queues and outside them.

The oracle knows nothing of footprints and pledges: it looks at the messages.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.broker import Broker
from brokers.engine.flow.gate import FlowGate
from brokers.engine.flow.usage import Resource
from brokers.engine.services.fan_out import FanOut, RoutedMessage
from brokers.engine.values.message import Header
from tests.engine.fake_store import FakeStores
from tests.engine.ports import Link
from tests.engine.simulation import Sender, Simulation


def in_memory(broker: Broker, *fan_outs: FanOut) -> int:
    """Return the size of all bodies, one by one (no queue here spools or is durable)."""
    found = 0
    for queue in broker.queues():
        found += sum(len(body) for lane in queue.lanes.lanes for _, body in (*lane.returned, *lane.ready))
        found += sum(len(waiting.body) for waiting in (*queue.gate.parked, *queue.gate.awaiting))
    return found + sum(len(message.body) for fan_out in fan_outs for message in fan_out.waiting)


def until_no_producer_sends(simulation: Simulation, senders: list[Sender], sizes: dict[Sender, int]) -> None:
    """Have all senders use their credit, and let the broker's time pass, until none can send."""
    while True:
        sent = 0
        for sender in senders:
            sender.read()
            sent += sender.send(sizes[sender], sender.credit)
        for sender in senders:
            simulation.arrive(sender)
        simulation.advance(1000)
        simulation.broker.shortages.measure()
        simulation.settle()
        if not sent and not any(sender.flows for sender in senders):
            return


@pytest.mark.domain("4 limits bound what is used")
@pytest.mark.parametrize("count", [1, 10, 100])
@pytest.mark.parametrize("limit", [100_000, 16_000_000])
@given(data=st.data())
@settings(max_examples=3)
def test_memory_exceeds_its_limit_by_one_message_per_producer_at_most(
    count: int, limit: int, data: st.DataObject
) -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": limit})
    queues = [simulation.queue(f"q{n}") for n in range(data.draw(st.integers(1, 3)))]
    # Not below 1/2,000 of the limit: hundreds of thousands of messages would take minutes.
    size_of = {queue: data.draw(st.integers(max(50, limit // 2000), 300_000)) for queue in queues}
    for queue in queues:  # the size of its messages is known from the first on
        simulation.send(simulation.sender(queue, answers=False), 1, size_of[queue])
        queue.lanes.purge()
    simulation.settle()
    senders = [simulation.sender(queues[n % len(queues)]) for n in range(count)]
    sizes = {sender: size_of[sender.producer.queue] for sender in senders}
    until_no_producer_sends(simulation, senders, sizes)
    used = in_memory(simulation.broker)
    assert limit < used <= limit + sum(sizes.values())
    assert simulation.broker.shortages.used(Resource.MEMORY) == used
    assert all(sender.producer.blocked for sender in senders)
    assert not any(sender.refused for sender in senders)


@given(data=st.data())
@settings(max_examples=20)
def test_first_messages_of_unknown_size_exceed_the_limit_by_little_more(data: st.DataObject) -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 4_000_000})
    sizes = {}
    for name in ("a", "b", "c"):
        queue, size = simulation.queue(name), data.draw(st.integers(20_000, 300_000))
        sizes |= {simulation.sender(queue): size for _ in range(data.draw(st.integers(1, 10)))}
    until_no_producer_sends(simulation, list(sizes), sizes)
    assert 4_000_000 < in_memory(simulation.broker) <= 4_000_000 + 2 * sum(sizes.values())


@pytest.mark.parametrize("count", [1, 10, 100])
def test_producers_that_never_send_leave_the_whole_limit_to_others(count: int) -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 1_000_000})
    queue, other = simulation.queue("orders"), simulation.queue("other")
    for _ in range(count):
        simulation.sender(queue, answers=False)
        simulation.sender(other, answers=False)
    busy = simulation.sender(queue)
    until_no_producer_sends(simulation, [busy], {busy: 10_000})
    assert 1_000_000 < in_memory(simulation.broker) <= 1_010_000


def test_larger_message_withdraws_excess_credit() -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 1_000_000})
    sender = simulation.sender(simulation.queue())
    for _ in range(20):
        simulation.send(sender, 1, 100)
    sender.read()
    assert sender.credit > 100
    sender.send(100_000, 1)
    simulation.arrive(sender)
    sender.read()
    assert sender.credit <= 9


def test_all_producers_continue_after_a_shortage() -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 100_000})
    queue = simulation.queue()
    senders = [simulation.sender(queue) for _ in range(10)]
    consumer = simulation.receiver(queue)
    for _ in range(5):
        before = [sender.sent for sender in senders]
        until_no_producer_sends(simulation, senders, dict.fromkeys(senders, 5_000))
        assert all(sender.sent > sent for sender, sent in zip(senders, before, strict=True))
        simulation.consume(consumer, 1000)
        simulation.broker.shortages.measure()
        simulation.settle()
        assert not any(sender.producer.blocked for sender in senders)


def test_shortage_begins_with_the_message_that_exceeds_the_limit() -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 1_000})
    sender = simulation.sender(simulation.queue())
    assert simulation.send(sender, 100, 100) == 11
    assert list(sender.producer.reasons) == ["memory-overfull"]
    assert simulation.kinds()[-2:] == ["limit-exceeded", "producer-blocked"]


@pytest.mark.domain("4 parked messages use memory")
def test_messages_parked_at_an_overfull_queue_count_as_memory() -> None:
    simulation = Simulation()
    queue = simulation.queue(capacity_messages=2, mechanism="reject-after", reject_after_ms=60_000)
    sender = simulation.sender(queue)
    simulation.send(sender, 50, 1000)
    assert queue.gate.depth_messages == 3
    assert simulation.broker.shortages.used(Resource.MEMORY) == 50_000
    simulation.detach(sender)
    assert simulation.broker.shortages.used(Resource.MEMORY) == 3_000


@pytest.mark.domain("4 parked messages use memory")
def test_messages_waiting_in_a_fan_out_count_as_memory_and_respect_its_limit() -> None:
    simulation = Simulation()
    simulation.broker.shortages.set_limits({"memory_limit": 50_000})
    queues = [simulation.queue(name, capacity_messages=1) for name in ("a", "b")]
    settled: list[RoutedMessage] = []
    fan_out = FanOut(simulation.broker.links, simulation.connection(), "link", 0, settled.append)
    sent = 0
    while fan_out.credit:
        fan_out.publish(b"x" * 20_000, queues, None)
        sent += 1
        simulation.settle()
        fan_out.top_up()
    assert in_memory(simulation.broker, fan_out) <= 50_000 + 2 * 20_000
    assert simulation.broker.shortages.used(Resource.MEMORY) == in_memory(simulation.broker, fan_out)
    fan_out.close()
    assert simulation.broker.shortages.used(Resource.MEMORY) == in_memory(simulation.broker)


def test_messages_of_an_open_transaction_count_as_memory() -> None:
    simulation = Simulation()
    queue = simulation.queue()
    sender = simulation.sender(queue)
    transaction = simulation.broker.transactions.declare(sender.producer.connection, Link())
    assert transaction is not None
    for _ in range(5):
        transaction.publish(sender.producer, b"x" * 1000, unsettled=True)
    simulation.broker.shortages.measure()
    assert simulation.broker.shortages.used(Resource.MEMORY) == 5_000
    simulation.broker.transactions.fail(transaction, "amqp:transaction:rollback", "")
    simulation.broker.shortages.measure()
    assert simulation.broker.shortages.used(Resource.MEMORY) == 0


def test_only_the_changed_queues_are_measured_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation()
    queues = [simulation.queue(f"q{n}") for n in range(3)]
    simulation.broker.sample()
    simulation.send(simulation.sender(queues[1]), 1, 1000)
    measured: list[FlowGate] = []

    def weigh(gate: FlowGate) -> None:
        measured.append(gate)

    monkeypatch.setattr(FlowGate, "weigh", weigh)
    simulation.broker.shortages.measure(changed=simulation.broker.agenda.changed)
    assert measured == [queues[1].gate]
    simulation.broker.shortages.measure()
    assert measured[1:] == [queue.gate for queue in queues]


def test_parked_messages_are_enqueued_although_they_alone_exceed_the_limit() -> None:
    """They are in memory anyway: if they counted, they would wait for each other forever."""
    simulation = Simulation()
    queue = simulation.queue(capacity_messages=2, mechanism="reject-after", reject_after_ms=600_000)
    sender = simulation.sender(queue)
    simulation.send(sender, 50, 1000)
    simulation.broker.shortages.set_limits({"memory_limit": 5_000})
    simulation.settle()
    assert sender.producer.blocked
    consumer = simulation.receiver(queue)
    taken = 0
    while taken < 50:
        more = simulation.consume(consumer, 1)
        assert more, f"no progress after {taken} of 50"
        taken += more
        simulation.broker.shortages.measure()
        simulation.settle()
    assert not sender.producer.blocked


def test_deleted_queue_releases_its_usage() -> None:
    simulation = Simulation()
    queue = simulation.queue()
    sender = simulation.sender(queue)
    simulation.send(sender, 5, 1000)
    consumer = simulation.receiver(queue, credit=1)
    simulation.broker.delete_queue(queue)
    simulation.settle()
    usage = simulation.broker.shortages.usages[Resource.MEMORY]
    assert (usage.used, usage.pledged, usage.waiting) == (0, 0, 0)
    for message in simulation.acquired.pop(consumer, []):
        queue.put_back(consumer, message)
    simulation.settle()
    assert (usage.used, usage.pledged, usage.waiting) == (0, 0, 0)


@pytest.mark.parametrize("field", ["store_limit", "store_overfull_bytes"])
def test_store_usage_includes_messages_put_since_the_measurement(field: str) -> None:
    simulation = Simulation()
    broker, host = simulation.broker, simulation.host
    broker.stores.provider = stores = FakeStores()
    broker.turn.header = lambda body: Header(durable=True)
    broker.stores.open(host)
    store = stores.by_name["default"]
    if field == "store_limit":
        broker.shortages.set_limits({field: 100_000})
    else:
        broker.shortages.set_store_limits(host, {field: 100_000})
    queue = broker.create_queue(host, "stored", durable=True)
    sender = simulation.sender(queue)
    sent = 0
    while sender.read() or sender.send(10_000):
        simulation.arrive(sender)
        store.pending_bytes += 10_000  # written, and not measured
        if store.puts:
            store.write(broker)
        queue.touch()
        simulation.settle()
        sent += 1
        assert sent < 1000
    assert 100_000 < store.pending_bytes <= 110_000
    assert list(sender.producer.reasons) == ["store-overfull"]
