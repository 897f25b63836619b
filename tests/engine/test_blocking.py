"""When a producer counts as blocked, and its lines in the broker log: the first cause, after its explanation, and the
end of the last one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.broker import Broker
from brokers.engine.flow.blocking import ALL_QUEUES
from brokers.engine.flow.usage import Resource
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.services.fan_out import FanOut
from brokers.engine.values.stops import Scope
from brokers.testing import InMemoryBroker
from tests.engine.simulation import Simulation

ENFORCED = "Flow Control Enforced"
REMOVED = "Flow Control Removed"


class Client:
    """A connection with links to several queues of a broker; the test ends the turns."""

    def __init__(self) -> None:
        self.memory = InMemoryBroker()
        self.broker: Broker = self.memory.engine
        self.connection: Connection = self.memory.attach_producer("elsewhere").connection
        self.end_turn()
        self.events()

    def queue(self, name: str, capacity: int) -> Queue:
        return self.broker.create_queue(self.broker.virtualhost("default"), name, {"capacity_messages": capacity})

    def fan_out(self, link: str = "link", channel: int = 1) -> FanOut:
        return FanOut(self.broker.links, self.connection, link, channel, lambda message: None)

    def send(self, fan_out: FanOut, queues: list[Queue], count: int = 1) -> None:
        for number in range(count):
            fan_out.publish(b"x", queues, number)
            self.end_turn()

    def end_turn(self) -> None:
        touched = self.broker.agenda.touched
        while touched:
            for producer in touched.pop().gate.grant():
                if producer.handle is not None:
                    producer.handle.sync_credit()

    def events(self) -> list[tuple[str, str, bool]]:
        """Return (kind, words, logged) of the producers' facts since the last call."""
        return [
            (f.kind, f.text.partition(" : ")[2], f.logged)
            for f in self.broker.turn.take_facts()
            if f.kind.startswith("producer-")
        ]

    def log(self) -> list[str]:
        return [words for _, words, logged in self.events() if logged]


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.mark.domain("7 states")
@pytest.mark.domain("2 who is blocked")
def test_fan_out_is_blocked_as_one_channel_until_its_last_queue_is_underfull(client: Client) -> None:
    first, second = client.queue("first", 2), client.queue("second", 2)
    fan_out = client.fan_out()
    client.send(fan_out, [first, second], 5)
    assert first.gate.state.overfull
    assert second.gate.state.overfull
    assert client.log() == [f"{ENFORCED} (Queue first)"]
    producers = [branch.producer for branch in fan_out.branches.values()]
    reasons = {"queue-overfull:first", "queue-overfull:second"}
    assert [set(p.reasons) for p in producers] == [reasons, reasons]
    client.broker.turn.now += 1000
    first.lanes.purge()
    client.end_turn()
    assert not first.gate.state.overfull
    assert client.events() == []
    assert [(p.blocked, set(p.reasons)) for p in producers] == [(True, {"queue-overfull:second"})] * 2
    assert all("queue second falls to" in p.release_condition() for p in producers)
    client.broker.turn.now += 500
    second.lanes.purge()
    events = client.events()
    assert [kind for kind, _, _ in events] == ["producer-released"] * 2  # an event for each queue's producer
    assert [words for _, words, logged in events if logged] == [REMOVED]
    assert [(p.blocked, p.blocked_since, p.blocked_ms) for p in producers] == [(False, None, 1500)] * 2


def test_blocked_time_counts_for_a_producer_blocked_by_another_queue_of_its_fan_out(client: Client) -> None:
    small, large = client.queue("small", 1), client.queue("large", 1000)
    fan_out = client.fan_out()
    client.send(fan_out, [small, large], 3)
    there = fan_out.branches[large].producer
    assert set(there.reasons) == {"queue-overfull:small"}
    assert (there.blocked_since, there.blocked_count) == (client.broker.turn.now, 1)
    client.broker.turn.now += 700
    small.lanes.purge()
    assert (there.blocked, there.blocked_ms) == (False, 700)
    # The queue that never blocked it added no fact.
    assert [words for _, words, _ in client.events()] == [f"{ENFORCED} (Queue small)", REMOVED]


def test_queues_that_share_no_message_do_not_block_each_others_producers(client: Client) -> None:
    full, free = client.queue("full", 1), client.queue("free", 100)
    fan_out = client.fan_out()
    client.send(fan_out, [full], 3)
    client.send(fan_out, [free], 3)
    assert fan_out.branches[full].producer.blocked
    assert not fan_out.branches[free].producer.blocked
    # Only some messages to `free` go to `full` as well: it is not blocked.
    client.send(fan_out, [full, free], 1)
    assert not fan_out.branches[free].producer.blocked
    assert set(fan_out.branches[full].producer.reasons) == {"queue-overfull:full"}


def test_message_to_fewer_queues_ends_the_shared_block_of_a_fan_out(client: Client) -> None:
    small, large = client.queue("small", 1), client.queue("large", 1000)
    fan_out = client.fan_out()
    client.send(fan_out, [small, large], 3)
    there = fan_out.branches[large].producer
    assert there.blocked
    client.send(fan_out, [large], 1)
    assert (there.blocked, there.blocked_since) == (False, None)


def test_deleted_queue_of_a_fan_out_no_longer_blocks_the_other_producers(client: Client) -> None:
    small, large = client.queue("small", 1), client.queue("large", 1000)
    fan_out = client.fan_out()
    client.send(fan_out, [small, large], 3)
    there = fan_out.branches[large].producer
    client.broker.detach(fan_out.branches[small].producer)
    fan_out.forget(fan_out.branches[small])
    assert (there.blocked, there.blocked_since) == (False, None)
    assert client.connection.blocked == {}


def test_links_of_one_channel_share_log_lines_and_have_separate_events(client: Client) -> None:
    a, b = client.queue("a", 1), client.queue("b", 1)
    client.send(client.fan_out("one"), [a], 3)
    client.send(client.fan_out("two"), [b], 3)
    client.send(client.fan_out("three", channel=2), [b], 1)
    assert client.events() == [
        ("producer-blocked", f"{ENFORCED} (Queue a)", True),
        ("producer-blocked", f"{ENFORCED} (Queue b)", False),
        ("producer-blocked", f"{ENFORCED} (Queue b)", True),  # of another channel
    ]
    a.lanes.purge()
    assert client.events() == [("producer-released", REMOVED, False)]
    b.lanes.purge()
    assert [logged for _, _, logged in client.events()] == [True, True]
    assert client.connection.blocked == {}


def test_next_blocked_link_of_a_channel_is_logged_after_the_first_one_detaches(client: Client) -> None:
    a, b = client.queue("a", 1), client.queue("b", 1)
    first = client.fan_out("one")
    client.send(first, [a], 3)
    first.close()
    client.send(client.fan_out("two"), [b], 3)
    assert client.log() == [f"{ENFORCED} (Queue a)", f"{ENFORCED} (Queue b)"]


# -- the name and the place of the log line --------------------------------------------------------------------------


def lines(world: Simulation) -> list[str]:
    return [f.text.partition("] ")[2] for f in world.facts if f.logged and f.text.split("] ")[1][:3] in ("CHN", "HGT")]


@pytest.fixture
def world() -> Simulation:
    return Simulation()


@pytest.mark.domain("6 causes that are no queue")
@pytest.mark.parametrize("wide", [True, False])
def test_stop_of_a_queue_is_logged_first_and_names_the_queue(world: Simulation, wide: bool) -> None:
    queue = world.queue(name="orders")
    world.sender(queue)
    scope = Scope(virtualhost="default") if wide else Scope(virtualhost="default", queue=queue.name)
    world.facts.clear()
    world.broker.stopping.stop_producers(scope, "maintenance", "ann")
    world.settle()
    stopped, enforced = lines(world)
    assert stopped.startswith("HGT-1001 : Producers Stopped")
    assert enforced == f"CHN-1005 : {ENFORCED} (Queue {ALL_QUEUES if wide else queue.name})"
    world.facts.clear()
    world.broker.stopping.start_producers(scope, "", "ann")
    world.settle()
    assert [line[:8] for line in lines(world)] == ["HGT-1002", "CHN-1006"]


@pytest.mark.domain("6 causes that are no queue")
def test_shortage_is_logged_first_and_names_no_queue(world: Simulation) -> None:
    queue = world.queue(name="orders")
    sender = world.sender(queue)
    world.broker.shortages.set_limits({"memory_limit": 1000})
    world.facts.clear()
    world.send(sender, 20, size=100)
    world.broker.shortages.measure({Resource.MEMORY: 10_000})
    world.settle()
    exceeded, enforced = lines(world)
    assert exceeded.startswith("HGT-1006 : Memory Limit Exceeded")
    assert enforced == f"CHN-1005 : {ENFORCED} (Queue {ALL_QUEUES})"
    world.facts.clear()
    queue.lanes.purge()
    world.broker.shortages.measure({Resource.MEMORY: 10_000})
    world.settle()
    assert [line[:8] for line in lines(world)] == ["HGT-1007", "CHN-1006"]


# -- an oracle -------------------------------------------------------------------------------------------------------

STEP = st.tuples(st.sampled_from(["send", "purge", "stop", "start", "close"]), st.integers(0, 2), st.integers(0, 2))


@given(st.lists(STEP, max_size=40))
def test_channel_log_has_its_first_cause_and_the_end_of_its_last(steps: list) -> None:
    """The oracle checks the queues, not the producers, for a cause that blocks a link of the channel."""
    client = Client()
    queues = [client.queue(name, 1) for name in "abc"]
    fan_outs: dict[int, FanOut] = {}
    gone = False  # a link that ends while it is blocked ends the block without a line
    blocked = False
    for what, which, other in steps:
        queue = queues[which]
        if what == "send":
            fan_out = fan_outs.setdefault(other, client.fan_out(f"link {other}"))
            if fan_out.credit:
                client.send(fan_out, queues[: which + 1] if other == 0 else [queue])
        elif what == "purge":
            queue.lanes.purge()
        elif what in ("stop", "start"):
            call = client.broker.stopping.stop_producers if what == "stop" else client.broker.stopping.start_producers
            call(Scope(virtualhost="default", queue=queue.name), "", "ann")
        elif other in fan_outs:
            gone = any(t.producer.blocked for t in fan_outs[other].branches.values())
            fan_outs.pop(other).close()
        client.end_turn()
        branches = {q for fan_out in fan_outs.values() for q in fan_out.branches}
        now = any(q.gate.state.overfull or q.gate.stops for q in branches)
        for line in client.log():
            if gone and line.startswith(ENFORCED):
                blocked = False
            gone = False
            assert line.startswith(REMOVED if blocked else ENFORCED)
            blocked = not blocked
        blocked = blocked and now if what == "close" else blocked
        assert blocked == now
        for branch in (branch for fan_out in fan_outs.values() for branch in fan_out.branches.values()):
            assert branch.producer.blocked == (branch.producer.blocked_since is not None)
            assert branch.producer.blocked >= bool(branch.producer.queue.gate.reasons())
