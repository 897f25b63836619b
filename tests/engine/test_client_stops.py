"""Operators' stops of clients: who is blocked, that nothing of theirs is accepted, and that everything is after the
start, beside stops of queues, full queues, shortages, staged starts and restarts."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.admin import InvalidValue
from brokers.engine.broker import Broker
from brokers.engine.flow.parked import ParkedMessage
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.table import State, stop_reason
from brokers.engine.flow.turn import Detach
from brokers.engine.flow.usage import Resource
from brokers.engine.queues.queue import Queue
from brokers.engine.services.fan_out import FanOut, RoutedMessage
from brokers.engine.values.clients import EVERY_CLIENT, LONGEST, Client
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.stage import Stage
from brokers.engine.values.stops import End, Scope, Stop
from tests.engine.simulation import START, Sender, Simulation, origin

USERS, CONTAINERS, LINKS = ("ann", "bob"), ("web", "batch"), ("l1", "l2")
HOST = "default"

words = st.text('ab /"=\\,\n\u2028é', max_size=5)
clients = st.builds(Client, words, words, words).filter(bool)


def some(values: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(("", *values))


small = st.builds(Client, some(USERS), some(CONTAINERS), some(LINKS))
EVERYONE = [(user, container, link) for user in USERS for container in CONTAINERS for link in LINKS]


# -- values ----------------------------------------------------------------------------------------------------------


@given(clients, st.sampled_from(["broker", "broker a.>", "queue a/b of c", 'virtualhost "a b"']))
def test_text_of_a_client_is_read_back(client: Client, rest: str) -> None:
    assert Client.parse(f"{client} of {rest}") == (client, rest)


@given(clients, clients)
def test_different_clients_have_different_texts(one: Client, other: Client) -> None:
    assert (str(Scope(client=one)) == str(Scope(client=other))) is (one == other)
    assert str(one).isprintable()


@pytest.mark.parametrize(
    "text", ["", "of broker", "user=a", "user= of broker", 'user="a of broker', "name=a of broker"]
)
def test_other_texts_are_no_clients(text: str) -> None:
    assert Client.parse(text) is None


@given(small, small)
def test_client_that_contains_another_stands_for_all_of_its_links(outer: Client, inner: Client) -> None:
    covered = all(outer.covers(*each) for each in EVERYONE if inner.covers(*each))
    assert not outer.contains(inner) or covered


@given(small, small)
def test_scope_of_all_clients_contains_that_of_some_and_not_the_other_way_round(outer: Client, inner: Client) -> None:
    for scope in (Scope(), Scope(HOST), Scope(HOST, "q"), Scope(HOST, exchange="x"), Scope(pattern="a.>")):
        wide, narrow = (Scope(scope.virtualhost, scope.queue, scope.pattern, scope.exchange, c) for c in (outer, inner))
        assert wide.contains(narrow) is outer.contains(inner)
        assert scope.contains(narrow)
        assert narrow.contains(scope) is (inner == EVERY_CLIENT)


@given(small, st.integers(0, 1 << 40))
def test_stop_of_a_client_is_restored_from_its_record(client: Client, since: int) -> None:
    stop = Stop(Scope(HOST, "q", client=client), "why", "ann", since, End(since + 1, 5))
    assert Stop.from_record(stop.record()) == stop
    awaiting = replace(stop, awaited=((HOST, "a"), (HOST, "b")))
    assert Stop.from_record(json.loads(json.dumps(awaiting.record()))) == awaiting


def test_name_of_a_client_has_a_bound() -> None:
    assert Client.of({"user": "a" * LONGEST}).user
    with pytest.raises(InvalidValue, match="container_id has more than"):
        Client.of({"container_id": "a" * (LONGEST + 1)})


# -- one client ------------------------------------------------------------------------------------------------------


class World(Simulation):
    """Clients with names. `given`: the bodies that each producer's link was blocked with."""

    def client(self, queue: Queue, user: str = "ann", container: str = "web", link: str = "l1") -> Sender:
        return self.sender(queue, connection=self.connection(user=user, container_id=container), link=link)

    def stop(self, scope: Scope, **end: int) -> None:
        self.broker.stopping.stop_producers(scope, "why", "op", End(**end))
        self.settle()

    def start(self, scope: Scope, *, only: bool = False, stage: Stage | None = None) -> None:
        self.broker.stopping.start_producers(scope, "done", "op", only=only, stage=stage)
        self.settle()

    def restarted(self) -> Broker:
        broker = Broker(self.broker.turn.now)
        broker.restore([(kind, key, value) for (kind, key), value in self.records.items()])
        return broker

    def drained(self, queue: Queue) -> list[tuple[int, int]]:
        """Consume all messages. Return where they come from, in order."""
        consumer, found = self.receiver(queue), []
        for _ in range(200):
            self.give(consumer, 50)
            found += [origin(message) for message in self.acquired[consumer]]
            self.accept(consumer)
            self.advance(100)
            if not queue.gate.depth_messages and not queue.gate.parked and not queue.gate.awaiting:
                break
        self.leave(consumer)
        return found


@pytest.mark.domain("3 stop of a client")
def test_only_the_producers_of_the_client_are_blocked() -> None:
    world = World()
    queue = world.queue()
    hers, his = world.client(queue), world.client(queue, "bob")
    scope = Scope(HOST, client=Client(user="ann"))
    world.stop(scope)
    assert list(hers.producer.reasons) == [stop_reason(str(scope))]
    assert hers.producer.credit == 0
    assert queue.gate.state is State.NORMAL
    assert queue.gate.blocked_producers == 1
    assert (world.send(hers, 5), world.send(his, 5)) == (0, 5)
    world.start(scope)
    assert not hers.producer.blocked
    assert world.send(hers, 5) == 5


def test_messages_in_flight_wait_for_the_start_and_are_enqueued_in_order() -> None:
    world = World()
    queue = world.queue()
    hers, his = world.client(queue), world.client(queue, "bob")
    for sender in (hers, his):
        sender.read()
        sender.send(most=3)
    scope = Scope(client=Client(container_id="web", user="ann"))
    world.stop(scope)
    outcome = world.broker.stopping.progress([scope])
    assert (outcome.queues, outcome.producers, outcome.stopped, outcome.draining) == (1, 1, 0, 1)
    world.arrive(hers)
    world.arrive(his)
    assert hers.verdicts == {Verdict.PENDING: 3}
    assert his.verdicts == {Verdict.ACCEPTED: 3}
    assert hers.producer.unsettled == 3
    world.advance(500)
    assert world.broker.stopping.progress([scope]).draining == 0
    world.start(scope)
    assert hers.outcomes == {Outcome.ACCEPTED: 3}
    assert [number for producer, number in world.drained(queue) if producer == hers.producer.id] == [1, 2, 3]


@pytest.mark.parametrize("then", ["lifted", "lost", "closed"])
def test_parked_messages_of_many_stopped_producers_cost_a_step_each_and_none_in_other_turns(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    queue = world.queue()
    connection = world.connection(user="ann")
    hers = [world.sender(queue, connection=connection, link=f"{n}") for n in range(40)]
    his = world.client(queue, "bob")
    for sender in hers:
        sender.read()
        sender.send(most=5)
    looked = [0]

    def counted(message: ParkedMessage) -> Producer:
        looked[0] += 1
        return message.receipt.producer

    monkeypatch.setattr(ParkedMessage, "producer", property(counted))
    scope = Scope(client=Client(user="ann"))
    world.stop(scope)
    for sender in hers:
        world.arrive(sender)
    parked = len(queue.gate.awaiting)
    assert parked == sum(sender.sent for sender in hers) >= 40
    looked[0] = 0
    for _ in range(50):
        assert world.send(his, 1) == 1
    assert looked[0] == 0, "the turns of others do not look at them"
    if then == "lifted":
        world.start(scope)
        assert queue.gate.depth_messages == 50 + parked
    elif then == "lost":
        for sender in hers:
            world.detach(sender)
        assert queue.gate.depth_messages == 50
    else:
        world.broker.close_connection(connection)
        world.settle()
    assert (len(queue.gate.awaiting), queue.gate.awaiting.bytes) == (0, 0)
    assert looked[0] < 20 * parked


def test_client_that_connects_again_under_the_same_name_is_blocked_at_once() -> None:
    world = World()
    queue = world.queue()
    first = world.client(queue)
    world.stop(Scope(HOST, client=Client(user="ann", container_id="web")))
    world.broker.close_connection(first.producer.connection)
    again, other = world.client(queue, link="another"), world.client(queue, container="batch")
    assert again.producer.blocked
    assert (world.send(again, 1), world.send(other, 1)) == (0, 1)
    elsewhere = world.client(world.queue("created-later"))
    assert elsewhere.producer.blocked


def test_stop_of_a_client_survives_a_restart_and_its_lift_does_too() -> None:
    world = World()
    world.queue()
    scope = Scope(HOST, "orders", client=Client(user="ann"))
    world.stop(scope, until=START + 60_000)
    broker = world.restarted()
    assert {stop.scope: stop.end for stop in broker.stops.values()} == {scope: End(START + 60_000)}
    assert broker.queue(HOST, "orders").gate.state is State.NORMAL
    world.broker = broker
    blocked, free = world.client(broker.queue(HOST, "orders")), world.client(broker.queue(HOST, "orders"), "bob")
    assert (blocked.producer.blocked, free.producer.blocked) == (True, False)
    broker.turn.now = START + 60_000
    broker.stopping.end_due_stops()
    world.settle()
    assert not blocked.producer.blocked
    assert world.send(blocked, 2) == 2
    assert not world.restarted().stops


def test_stop_of_a_client_at_a_deleted_queue_is_forgotten() -> None:
    world = World()
    queue = world.queue()
    world.stop(Scope(HOST, "orders", client=Client(user="ann")))
    world.broker.delete_queue(queue)
    world.settle()
    assert not world.broker.stops
    assert not world.restarted().stops


def test_start_of_the_whole_lifts_the_stop_of_a_client_and_the_reverse_does_not() -> None:
    world = World()
    queue = world.queue()
    sender = world.client(queue)
    narrow, wide = Scope(HOST, client=Client(user="ann")), Scope(HOST)
    world.stop(narrow)
    world.stop(wide)
    world.start(narrow)
    assert list(sender.producer.reasons) == [stop_reason(str(wide))]
    world.stop(narrow)
    world.start(wide, only=True)
    assert list(sender.producer.reasons) == [stop_reason(str(narrow))]
    world.stop(wide)
    world.start(Scope())
    assert not sender.producer.blocked
    assert not world.broker.stops


def test_staged_start_of_a_client_is_refused_and_one_around_it_lifts_it_at_once() -> None:
    world = World()
    queue = world.queue()
    sender = world.client(queue)
    scope = Scope(HOST, client=Client(user="ann"))
    world.stop(scope)
    stage = Stage(10, 10_000, 0, START)
    with pytest.raises(InvalidValue, match="not lifted in stages"):
        world.start(scope, stage=stage)
    assert sender.producer.blocked
    world.stop(Scope())
    world.start(Scope(), stage=stage)
    assert not sender.producer.blocked
    assert list(world.broker.stops) == [Scope()]
    assert world.send(sender, 1_000) <= 20  # at the pace of the stage


def test_log_names_the_queue_only_if_the_stop_is_of_that_queue() -> None:
    world = World()
    world.client(world.queue("one"))
    world.client(world.queue("two"), "bob")
    world.facts.clear()
    world.stop(Scope(HOST, "one", client=Client(user="ann")))
    world.stop(Scope(HOST, client=Client(user="bob")))
    lines = [fact.text.partition("] ")[2] for fact in world.facts]
    assert lines == [
        "HGT-1001 : Producers Stopped : Scope : client user=ann of queue default/one, By : op, Reason : why,"
        " Queues : 1, Producers : 1",
        "CHN-1005 : Flow Control Enforced (Queue one)",
        "HGT-1001 : Producers Stopped : Scope : client user=bob of virtualhost default, By : op, Reason : why,"
        " Queues : 1, Producers : 1",
        "CHN-1005 : Flow Control Enforced (Queue ** All Queues **)",
    ]
    assert world.facts[0].attributes["user"] == "ann"


def test_release_condition_names_the_stop_of_the_client() -> None:
    world = World()
    sender = world.client(world.queue())
    world.stop(Scope(HOST, client=Client(user="ann")))
    assert sender.producer.release_condition() == (
        "op starts the producers of client user=ann of virtualhost default again (why)"
    )


# -- beside other reasons ----------------------------------------------------------------------------------------------


def test_message_parked_by_a_stop_of_the_queue_stays_behind_a_stop_of_its_client() -> None:
    world = World()
    queue = world.queue()
    sender = world.client(queue)
    sender.read()
    sender.send(most=4)
    world.stop(Scope(HOST, "orders"))
    world.arrive(sender, 2)
    scope = Scope(HOST, client=Client(user="ann"))
    world.stop(scope)
    world.arrive(sender)
    world.start(Scope(HOST, "orders"), only=True)
    assert queue.gate.depth_messages == 0
    world.start(scope)
    assert [number for _, number in world.drained(queue)] == [1, 2, 3, 4]


@pytest.mark.parametrize("shortage_first", [True, False])
def test_shortage_and_stop_of_a_client_are_independent(*, shortage_first: bool) -> None:
    world = World()
    queue = world.queue()
    hers, his = world.client(queue), world.client(queue, "bob")
    for sender in (hers, his):
        sender.read()
        sender.send(most=4)
    scope = Scope(client=Client(user="ann"))

    def short(limit: int | None) -> None:
        world.broker.shortages.set_limits({} if limit is None else {"memory_limit": limit})
        world.broker.shortages.measure()
        world.settle()

    world.arrive(hers, 1)
    world.arrive(his, 1)
    begin = [lambda: short(1), lambda: world.stop(scope)]
    for step in begin if shortage_first else reversed(begin):
        step()
        world.arrive(hers, 1)
    world.arrive(hers)
    world.arrive(his)
    assert set(hers.producer.reasons) == {Resource.MEMORY.value, stop_reason(str(scope))}
    if shortage_first:
        short(None)
        assert hers.producer.blocked
        assert not his.producer.blocked
        assert hers.producer.unsettled == 3
        world.start(scope)
    else:
        world.start(scope)
        assert hers.producer.unsettled == 3
        short(None)
    world.advance(500)
    assert not hers.producer.blocked
    assert hers.producer.unsettled == 0
    found = world.drained(queue)
    assert [number for producer, number in found if producer == hers.producer.id] == [1, 2, 3, 4]
    assert [number for producer, number in found if producer == his.producer.id] == [1, 2, 3, 4]
    assert world.send(hers, 3) == 3


def test_fan_out_of_a_stopped_client_waits_and_delivers_everything_after_the_start() -> None:
    world = World()
    one, two = world.queue("one"), world.queue("two")
    settled: list[RoutedMessage] = []
    connection = world.connection(user="ann")
    fan_out = FanOut(world.broker.links, connection, "l1", 0, settled.append)

    def turn() -> None:
        for _ in range(3):
            for queue in (one, two):
                for producer in queue.gate.grant():
                    producer.handle.sync_credit()
            fan_out.pump()

    fan_out.publish(b"first", [one, two], 1)
    turn()
    assert len(settled) == 1
    scope = Scope(HOST, "one", client=Client(user="ann"))
    world.stop(scope)
    for number in range(2, 6):
        fan_out.publish(b"more", [one, two], number)
        turn()
    assert len(settled) == 1
    assert (one.gate.depth_messages, two.gate.depth_messages) == (1, 1)
    assert all(branch.producer.blocked for branch in fan_out.branches.values()), "they share their reasons"
    fan_out.publish(b"elsewhere", [world.queue("three")], 6)
    turn()
    world.start(scope)
    turn()
    assert (one.gate.depth_messages, two.gate.depth_messages) == (5, 5)
    assert not any(branch.producer.blocked for branch in fan_out.branches.values())


def test_close_of_a_producer_of_a_fan_out_ends_the_link_of_its_client() -> None:
    world = World()
    ended: list[str] = []

    class Port:
        def end(self, condition: str, description: str) -> None:
            ended.append(f"{condition} {description}")

    fan_out = FanOut(world.broker.links, world.connection(), "l1", 0, lambda message: None)
    fan_out.handle = Port()
    fan_out.publish(b"x", [world.queue("one"), world.queue("two")], 1)
    producer = fan_out.branches[world.broker.queue(HOST, "one")].producer
    assert world.broker.closing.of_producer(producer).producers == 2
    world.broker.closing.close_producer(producer, "stuck", "op")
    for effect in world.broker.turn.take_effects():
        if isinstance(effect, Detach):
            effect.port.end(effect.condition, effect.description)
    assert ended == ["amqp:link:detach-forced closed by op: stuck"]


# -- against a model ---------------------------------------------------------------------------------------------------

POLICIES: dict[str, dict[str, int | str]] = {
    "unlimited": {},
    "block": {"capacity_messages": 6, "flow_resume_messages": 3},
    "hold": {"capacity_messages": 10, "mechanism": "hold"},
    "reject": {"capacity_messages": 6, "mechanism": "reject"},
    "reject-after": {"capacity_messages": 6, "mechanism": "reject-after", "reject_after_ms": 400},
    "ring": {"capacity_messages": 6, "overflow": "ring"},
}


#: Sending is more frequent than the rest.
STEPS = [*3 * ["send"], *2 * ["arrive"], "stop", "start", "consume", "advance", "attach", "detach"]


class Model:
    """Random operators and clients. The oracle knows only the stops, and who the clients are."""

    def __init__(self, policy: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World()
        self.queues = [self.world.queue(name, **POLICIES[policy]) for name in ("a", "b")]
        self.who: dict[Sender, tuple[str, str, str]] = {}
        self.stops: dict[Scope, None] = {}
        self.consumers = [self.world.receiver(queue) for queue in self.queues]
        self.seen: dict[int, list[int]] = defaultdict(list)  # producer -> its messages, as consumed
        for _ in range(5):
            self.attach()

    def attach(self) -> None:
        chance = self.chance
        who = (chance.choice(USERS), chance.choice(CONTAINERS), chance.choice(LINKS))
        self.who[self.world.client(chance.choice(self.queues), *who)] = who

    def scope(self) -> Scope:
        chance = self.chance
        user, container, link = (chance.choice(("", *values)) for values in (USERS, CONTAINERS, LINKS))
        client = chance.choice((EVERY_CLIENT, Client(user, container, link), Client(user), Client("", container)))
        host = chance.choice(("", HOST))
        return Scope(HOST, chance.choice("ab"), client=client) if chance.random() < 0.4 else Scope(host, client=client)

    def reasons(self, sender: Sender) -> set[str]:
        """The stops that apply to a producer, derived from the scopes."""
        queue, (user, container, link) = sender.producer.queue.name, self.who[sender]
        return {
            f"operator-stop:{scope}"
            for scope in self.stops
            if scope.queue in ("", queue)
            and scope.client.user in ("", user)
            and scope.client.container_id in ("", container)
            and scope.client.link in ("", link)
        }

    def step(self) -> None:  # noqa: C901 - one case for each thing that happens
        chance, world = self.chance, self.world
        senders = list(self.who)
        match chance.choice(STEPS):
            case "stop":
                scope = self.scope()
                world.stop(scope)
                self.stops[scope] = None
            case "start":
                scope = chance.choice([*self.stops, self.scope()])
                only = chance.random() < 0.5
                world.start(scope, only=only)
                lifted = [each for each in self.stops if each == scope or (not only and contains(scope, each))]
                self.stops = {each: None for each in self.stops if each not in lifted}
            case "send":
                sender = chance.choice(senders)
                sender.read()
                sender.send(most=chance.randint(1, 4))
            case "arrive":
                world.arrive(chance.choice(senders), chance.randint(1, 3))
            case "consume":
                self.consume()
            case "advance":
                world.advance(chance.choice((50, 300)))
            case "attach":
                if len(self.who) < 10:
                    self.attach()
            case "detach":
                if len(self.who) > 3:
                    sender = chance.choice(senders)
                    world.detach(sender)
                    del self.who[sender]
        self.check()

    def consume(self) -> None:
        consumer = self.chance.choice(self.consumers)
        self.world.give(consumer, self.chance.randint(1, 5))
        for message in self.world.acquired[consumer]:
            producer, number = origin(message)
            self.seen[producer].append(number)
        self.world.accept(consumer)
        consumer.credit = 0

    def check(self) -> None:
        enqueued = {queue: queue.gate.enqueued for queue in self.queues}
        for sender in self.who:
            producer, expected = sender.producer, self.reasons(sender)
            assert {reason for reason in producer.reasons if reason.startswith("operator-stop")} == expected
            assert not sender.refused
            if expected:
                assert producer.credit == 0
        for queue in self.queues:
            stopped = any(scope.queue in ("", queue.name) for scope in self.stops if not scope.client)
            assert queue.gate.state.stopped is stopped
            members = [sender.producer for sender in self.who if sender.producer.queue is queue]
            assert queue.gate.blocked_producers == sum(producer.blocked for producer in members)
            for waiting in queue.gate.parked:
                assert not waiting.producer.stopped
            for waiting in queue.gate.awaiting:
                assert waiting.producer.stopped, "a message waits for a stop that was lifted"
            assert queue.gate.enqueued == enqueued[queue]

    def finish(self) -> None:
        """Start everything: every message gets its outcome in the order in which it was sent, and all can send."""
        world = self.world
        self.stops.clear()
        world.start(Scope())
        self.check()
        for _ in range(60):
            for sender in self.who:
                world.arrive(sender)
            for _ in self.consumers:
                self.consume()
            world.advance(100)
        for consumer in self.consumers:
            world.give(consumer, 1_000)
            world.advance(500)
            self.seen_all(consumer)
        for sender in self.who:
            assert sender.producer.unsettled == 0
            settled = sender.verdicts[Verdict.ACCEPTED] + sender.verdicts[Verdict.REJECTED] + sender.outcomes.total()
            assert settled == sender.sent
            assert self.seen[sender.producer.id] == sorted(set(self.seen[sender.producer.id])), "out of order, or twice"
        for sender in self.who:
            world.advance(1_000)
            before = sender.sent
            for _ in range(60):
                world.send(sender, 1)
                world.advance(50)
                for consumer in self.consumers:
                    self.seen_all(consumer)
            assert sender.sent > before, "a producer whose stops were all lifted cannot send"

    def seen_all(self, consumer: object) -> None:
        for message in self.world.acquired[consumer]:  # type: ignore[index]
            producer, number = origin(message)
            self.seen[producer].append(number)
        self.world.accept(consumer)  # type: ignore[arg-type]


def contains(outer: Scope, inner: Scope) -> bool:
    """Whether all producers of a scope, as the model makes them, belong to another one."""
    client = all(
        theirs in ("", its)
        for theirs, its in zip(
            (outer.client.user, outer.client.container_id, outer.client.link),
            (inner.client.user, inner.client.container_id, inner.client.link),
            strict=True,
        )
    )
    places = outer.virtualhost in ("", inner.virtualhost) and outer.queue in ("", inner.queue)
    return client and places


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("policy", POLICIES)
def test_blocked_are_exactly_the_producers_of_stopped_clients(policy: str, seed: int) -> None:
    model = Model(policy, seed)
    for _ in range(150):
        model.step()
    model.finish()


def test_lift_of_a_nested_stop_of_a_client_has_an_event_of_its_own() -> None:
    world = World()
    queue = world.queue()
    world.client(queue)
    outer, inner = Scope(HOST, client=Client(user="ann")), Scope(HOST, "orders", client=Client("ann", "web"))
    other = Scope(HOST, "orders")
    for scope in (outer, inner, other):
        world.stop(scope)
    world.facts.clear()
    world.start(outer)
    assert [f.attributes["scope"] for f in world.facts if f.kind == "producers-started"] == [str(outer), str(inner)]
    assert list(world.broker.stops) == [other]
    world.stop(inner)
    world.facts.clear()
    world.broker.delete_queue(queue)
    world.settle()
    assert [f.attributes["scope"] for f in world.facts if f.kind == "producers-started"] == [str(inner)]
