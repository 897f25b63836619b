"""Subscriptions: queues, names, sharing, their end, and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.engine.broker import Broker
from brokers.engine.flow.turn import Detach
from brokers.engine.management.requests import Management
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.subscription import Arrivals, Subscription, SubscriptionSpec, queue_name
from brokers.engine.services.fan_out import FanOut
from brokers.engine.values.stops import Scope
from brokers.model import object_name
from tests.engine.ports import Link
from tests.engine.simulation import START, Simulation


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def spec(world: Simulation, topic: str = "prices", **more: Any) -> SubscriptionSpec:
    exchange, key = world.broker.routing.topic(world.host, topic)
    return SubscriptionSpec(topic, exchange.name, "#" if key is None else key, **{"client": "client", **more})


def durable(world: Simulation, topic: str = "prices", **more: Any) -> SubscriptionSpec:
    return spec(world, topic, **{"name": "mine", "durable": True, **more})


def subscribe(
    world: Simulation, wanted: SubscriptionSpec, connection: Connection | None = None
) -> tuple[Subscription, Consumer]:
    """Subscribe, with a consumer that has no credit yet."""
    connection = connection or world.connection()
    subscription = world.broker.subscriptions.subscribe(connection, wanted)
    consumer = world.broker.attach_consumer(connection, subscription.queue, "link", Link(), browsing=False)
    world.acquired[consumer] = []
    world.settle()
    return subscription, consumer


class Publisher:
    """Publishes to topics; `accepted`: how many of its messages were."""

    def __init__(self, world: Simulation, connection: Connection | None = None) -> None:
        self.world = world
        self.accepted = 0
        self.connection = connection or world.connection()
        self.fan_out = FanOut(world.broker.links, self.connection, "out", 1, self._settled)

    def _settled(self, message: Any) -> None:
        self.accepted += 1

    def publish(self, topic: str = "prices", count: int = 1) -> None:
        for number in range(count):
            body = f"{topic} {number}".encode()
            exchange, key = self.world.broker.routing.topic(self.world.host, topic)
            found = self.world.broker.active_subscriptions.wanting(exchange.route(key or ""), body, self.connection)
            if found:
                self.fan_out.publish(body, found, number)
                self.turn()

    def turn(self) -> None:
        for branch in list(self.fan_out.branches.values()):
            if branch.producer.id not in self.world.broker.producers:
                branch.end("amqp:resource-deleted", "as the container does")
        self.world.settle()
        self.fan_out.pump()  # the simulation grants credit, and knows nothing of branches
        self.world.settle()


def restarted(world: Simulation) -> Broker:
    broker = Broker(START + 60_000)
    broker.restore([(kind, key, value) for (kind, key), value in world.records.items()])
    return broker


# -- names ---------------------------------------------------------------------------------------------------------

parts = st.text(alphabet="ab.|#%:", min_size=1, max_size=4)


@given(st.lists(st.tuples(parts, parts, st.booleans(), st.booleans()), max_size=8, unique=True), parts)
def test_no_two_subscriptions_have_the_same_queue_name(whose, topic):
    specs = [
        SubscriptionSpec(topic, "topics", topic, c if not g else "", n, durable=d, shared=g) for c, n, d, g in whose
    ]
    specs += [SubscriptionSpec(topic, "topics", topic, c) for c, *_ in whose]
    names = {queue_name(w, number) for number, w in enumerate(specs)}
    identities = {(w.client, w.name, w.durable) for w in specs if w.name}
    assert len(names) == len(identities) + len(whose)


def test_queue_name_contains_topic_client_and_subscription(world):
    assert queue_name(spec(world, client="c1"), 7) == "subscriptions.prices.c1|#7"
    assert queue_name(durable(world, client="host.eu"), 0) == "subscriptions.prices.host%2Eeu|mine"
    assert queue_name(spec(world, "a.>", client="", name="x", shared=True), 0) == "subscriptions.a.>.|x|volatile"


# -- routing -------------------------------------------------------------------------------------------------------


def test_each_ordinary_subscription_gets_every_message_and_a_shared_one_each_once(world):
    _, one = subscribe(world, spec(world))
    _, two = subscribe(world, spec(world))
    sharing = spec(world, name="ours", shared=True)
    together, first = subscribe(world, sharing)
    same, second = subscribe(world, sharing)
    assert same is together
    for consumer in (one, two, first, second):
        world.give(consumer, 100)
    publisher = Publisher(world)
    publisher.publish(count=10)
    assert publisher.accepted == 10
    assert len(world.acquired[one]) == len(world.acquired[two]) == 10
    assert len(world.acquired[first]) == len(world.acquired[second]) == 5


def test_wildcard_subscription_gets_matching_messages(world):
    _, star = subscribe(world, spec(world, "stocks.*"))
    _, rest = subscribe(world, spec(world, "stocks.>"))
    _, plain = subscribe(world, spec(world, "stocks.ibm"))
    publisher = Publisher(world)
    for topic in ("stocks.ibm", "stocks.eu.sap", "bonds"):
        publisher.publish(topic)
    assert [c.queue.gate.depth_messages for c in (star, rest, plain)] == [1, 2, 1]


def test_topic_that_is_an_exchange_is_routed_by_that_exchange(world):
    world.broker.routing.create_exchange(world.host, "stocks", "topic")
    _, everything = subscribe(world, spec(world, "stocks"))
    _, some = subscribe(world, spec(world, "stocks/eu.*"))
    Publisher(world).publish("stocks/eu.sap")
    Publisher(world).publish("stocks/us.ibm")
    assert (everything.queue.gate.depth_messages, some.queue.gate.depth_messages) == (2, 1)
    assert "topics" not in world.host.exchanges


def test_subscription_without_local_messages_gets_those_of_others_only(world):
    mine = world.connection()
    _, deaf = subscribe(world, spec(world, no_local=True), mine)
    _, hearing = subscribe(world, spec(world), mine)
    Publisher(world, mine).publish()
    assert (deaf.queue.gate.depth_messages, hearing.queue.gate.depth_messages) == (0, 1)
    Publisher(world).publish()
    assert (deaf.queue.gate.depth_messages, hearing.queue.gate.depth_messages) == (1, 2)


def test_selector_excludes_messages_that_do_not_match(world):
    world.broker.active_subscriptions.compile = lambda text: lambda body: text.encode() in body
    _, choosy = subscribe(world, spec(world, selector="1"))
    Publisher(world).publish(count=3)
    assert choosy.queue.gate.depth_messages == 1


def test_topics_are_not_created_unless_clients_may_create(world):
    world.host.create_on_attach = False
    with pytest.raises(NotFound, match="there is no topic prices in virtual host default"):
        world.broker.routing.topic(world.host, "prices")
    world.broker.routing.create_exchange(world.host, "topics", "topic")
    subscribe(world, spec(world))


def test_exchange_that_cannot_route_topics_is_named_in_the_refusal(world):
    world.broker.routing.create_exchange(world.host, "topics", "direct")
    with pytest.raises(InvalidValue, match="exchange topics is a direct exchange: it cannot route topic prices"):
        world.broker.routing.topic(world.host, "prices")


def test_topic_that_cannot_be_bound_leaves_no_queue_behind(world):
    with pytest.raises(InvalidValue, match="stand for whole words"):
        subscribe(world, spec(world, "stocks.a*"))
    assert not world.host.queues
    assert not world.broker.registry.subscriptions


# -- flow control --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["exchange", "pattern"])
def test_overfull_subscription_blocks_its_publishers_until_it_is_consumed(world, place):
    topics, _ = world.broker.routing.topic(world.host, "prices")
    if place == "exchange":
        world.broker.routing.set_policy(topics, {"capacity_messages": 5})
    else:
        world.broker.enforcement.create_policy(world.host, "subscriptions.prices.>", {"capacity_messages": 5})
    _, slow = subscribe(world, spec(world))
    _, fast = subscribe(world, spec(world))
    _, elsewhere = subscribe(world, spec(world, "news"))
    world.give(fast, 1000)
    publisher = Publisher(world)
    publisher.publish(count=20)
    assert publisher.accepted == 6  # to all or waits; overfull is above the capacity
    assert slow.queue.gate.depth_messages == fast.queue.gate.depth_messages == 6
    blocked = [p for p in world.broker.producers.values() if p.blocked]
    assert {reason for p in blocked for reason in p.reasons} >= {f"queue-overfull:{slow.queue.name}"}
    publisher.publish("news")
    assert elsewhere.queue.gate.depth_messages == 1
    world.leave(slow)
    for _ in range(20):
        world.accept(fast)
        publisher.turn()
    assert publisher.accepted == 21


def test_ring_subscription_drops_its_oldest_messages_and_blocks_no_publisher(world):
    pattern = {"capacity_messages": 5, "overflow": "ring"}
    world.broker.enforcement.create_policy(world.host, "subscriptions.>", pattern)
    _, slow = subscribe(world, spec(world))
    publisher = Publisher(world)
    publisher.publish(count=20)
    assert publisher.accepted == 20
    assert slow.queue.gate.depth_messages == 5


# -- ends ----------------------------------------------------------------------------------------------------------


def test_ordinary_subscription_ends_with_its_link(world):
    subscription, consumer = subscribe(world, spec(world))
    Publisher(world).publish()
    world.give(consumer, 1)
    world.leave(consumer)
    assert not world.host.queues
    assert not world.broker.registry.subscriptions
    assert not world.host.exchanges["topics"].bindings
    kinds = world.kinds()
    assert kinds.count("subscription-created") == kinds.count("subscription-deleted") == 1
    assert world.broker.registry.subscriptions.get(subscription.queue) is None


def test_shared_subscription_ends_with_its_last_link(world):
    sharing = spec(world, name="ours", shared=True)
    (_, one), (_, two) = subscribe(world, sharing), subscribe(world, sharing)
    world.leave(one)
    assert two.queue.name in world.host.queues
    world.leave(two)
    assert not world.host.queues
    assert not world.host.subscriptions


def test_durable_subscription_collects_messages_until_it_is_unsubscribed(world):
    subscription, consumer = subscribe(world, durable(world))
    world.leave(consumer)
    Publisher(world).publish(count=3)
    again, consumer = subscribe(world, durable(world))
    assert again is subscription
    assert world.consume(consumer, 10) == 3
    with pytest.raises(AlreadyExists, match="subscription mine is in use"):
        world.broker.subscriptions.named(consumer.connection, "mine", of_all_clients=False)
    world.leave(consumer)
    found = world.broker.subscriptions.named(consumer.connection, "mine", of_all_clients=False)
    world.broker.subscriptions.unsubscribe(found)
    world.settle()
    assert not world.host.queues
    assert not [key for key in world.records if key[0] in ("subscription", "queue", "binding")]
    with pytest.raises(NotFound, match="no durable subscription mine of client client"):
        world.broker.subscriptions.named(consumer.connection, "mine", of_all_clients=False)


def test_name_belongs_to_one_client_or_to_all(world):
    shared = {"shared": True, "name": "mine"}
    specs = [durable(world, client=c) for c in ("a", "b")] + [durable(world, client="", **shared)]
    specs.append(spec(world, client="", **shared))
    assert len({subscribe(world, each)[0] for each in specs}) == 4


def test_subscription_to_another_topic_replaces_an_unused_one_of_that_name_only(world):
    old, consumer = subscribe(world, durable(world))
    with pytest.raises(AlreadyExists, match="subscription mine is in use for Topic : prices"):
        subscribe(world, durable(world, "news"))
    world.leave(consumer)
    new, _ = subscribe(world, durable(world, "news"))
    assert old.queue.name not in world.host.queues
    assert new.queue.name == "subscriptions.news.client|mine"


def test_reattached_durable_link_replaces_the_first(world):
    _, first = subscribe(world, durable(world))
    world.broker.subscriptions.subscribe(world.connection(), durable(world))
    (effect,) = world.broker.turn.take_effects()
    assert isinstance(effect, Detach)
    assert (effect.port, effect.condition) == (first.handle, "amqp:link:stolen")


@pytest.mark.parametrize("type_name", ["Subscription", "Queue"])
def test_deleting_a_subscription_through_management_detaches_its_consumers(world, type_name):
    subscription, _ = subscribe(world, durable(world))
    name = object_name(type_name, virtualhost="default", name=subscription.queue.name)
    Management(world.broker).delete(name, actor="ann")
    (effect,) = [e for e in world.broker.turn.effects if isinstance(e, Detach)]
    assert effect.condition == "amqp:resource-deleted"
    world.settle()
    assert not world.broker.registry.subscriptions
    assert not world.host.subscriptions
    with pytest.raises(NotFound, match="there is no"):
        Management(world.broker).read(name)


# -- restarts ------------------------------------------------------------------------------------------------------


def test_durable_subscriptions_survive_a_restart_and_others_leave_no_trace(world):
    subscribe(world, durable(world, shared=True, no_local=True))
    _, ordinary = subscribe(world, spec(world))
    subscribe(world, spec(world, name="ours", shared=True))
    world.broker.set_own_policy(ordinary.queue, {"capacity_messages": 3})
    world.broker.stopping.stop_producers(Scope("default", ordinary.queue.name), "", "ann")
    world.settle()
    broker = restarted(world)
    (restored,) = broker.registry.subscriptions.values()
    assert restored.spec == durable(world, shared=True, no_local=True)
    host = broker.virtualhosts["default"]
    assert set(host.queues) == {restored.queue.name}
    assert broker.routing.topic(host, "prices")[0].route("prices") == (restored.queue,)
    assert not broker.stops
    assert not broker.turn.take_facts()


def test_deleting_a_virtual_host_deletes_its_subscriptions_and_policies(world):
    world.broker.create_virtualhost("other")
    other = world.broker.virtualhosts["other"]
    exchange = world.broker.routing.create_exchange(other, "topics", "topic")
    connection = world.connection("other")
    wanted = SubscriptionSpec("prices", exchange.name, "prices", "client", "mine", durable=True)
    world.broker.subscriptions.subscribe(connection, wanted)
    world.broker.slow_consumers.create(other, "slow", {"topic": ">", "depth": 5, "policy": "log"})
    world.broker.close_connection(connection)
    world.broker.delete_virtualhost(other)
    world.settle()
    assert not world.broker.registry.subscriptions
    assert not world.broker.slow_consumers.watched
    assert not [key for key in world.records if "other" in key[1]]


# -- ages ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=40))
def test_message_age_is_exact_up_to_the_sampling_interval(seconds):
    arrivals, came, newest, oldest = Arrivals(), {}, 0, 1
    for second, (arriving, leaving) in enumerate(seconds):
        for _ in range(arriving):
            newest += 1
            came[newest] = second * 1000 - 999  # just after the look before
        arrivals.sample(newest, second * 1000)
        oldest = min(oldest + leaving, newest + 1)
        if oldest <= newest:
            true = second * 1000 - came[oldest]
            assert true - 1000 < arrivals.age(oldest, second * 1000) <= true
        else:
            assert arrivals.age(None, second * 1000) == 0
