"""Slow consumers: the best matching policy, its triggers and actions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.admin import AlreadyExists, InvalidValue, NotFound, StaleVersion
from brokers.engine.flow.turn import Detach
from brokers.engine.management.requests import Management
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.slow_consumer import SlowConsumerPolicy, best
from brokers.model import object_name
from tests.engine.simulation import Simulation
from tests.engine.test_subscriptions import Publisher, durable, restarted, spec, subscribe


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def policy(world: Simulation, name: str = "slow", topic: str = ">", **given: Any) -> SlowConsumerPolicy:
    return world.broker.slow_consumers.create(world.host, name, {"topic": topic, "policy": "log", **given})


def look(world: Simulation, seconds: int = 1) -> list[str]:
    """Run the check as the server does once a second. Return the texts of the slow-consumer facts."""
    for _ in range(seconds):
        world.advance(1000)
        world.broker.sample()
        world.settle()
    texts = [fact.text for fact in world.facts if fact.kind == "slow-consumer"]
    world.facts.clear()
    return texts


# -- the best match ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "name", "wins"),
    [
        ("stocks.ibm", "mine", "both"),
        ("stocks.ibm", "other", "exact"),
        ("stocks.sap", "mine", "star"),
        ("stocks.eu.sap", "", "rest"),
        ("news", "mine", "named"),
        ("news", "", "all"),
        ("stocks.*", "", "star"),
        ("stocks.>", "", "star"),
    ],
)
def test_most_specific_topic_wins_then_the_most_specific_subscription(world, topic, name, wins):
    for each, pattern, subscription in (
        ("all", ">", ""),
        ("named", ">", "mine"),
        ("rest", "stocks.>", ""),
        ("star", "stocks.*", ""),
        ("exact", "stocks.ibm", ""),
        ("both", "stocks.ibm", "mine"),
    ):
        policy(world, each, pattern, subscription=subscription, depth=1)
    found, _ = subscribe(world, spec(world, topic, name=name, shared=bool(name)))
    assert Management(world.broker).read(found.object_name)["slow_consumer_policy"] == wins


words = st.sampled_from(["a", "b", "*"])
patterns = st.builds(lambda ws, tail: ".".join([*ws, *tail]), st.lists(words, max_size=2), st.sampled_from([[">"], []]))


@given(st.lists(st.tuples(patterns.filter(bool), patterns), max_size=6), st.sampled_from(["a", "a.b", "b.a", ""]))
def test_best_matching_policy_applies_whatever_the_order_of_changes(pairs, name):
    world = Simulation()
    found, _ = subscribe(world, spec(world, "a.b", name=name, shared=bool(name)))
    for number, (topic, subscription) in enumerate(pairs):
        policy(world, str(number), topic, subscription=subscription, depth=1)
    for each in list(world.host.slow_consumer_policies.values())[::2]:
        world.broker.slow_consumers.delete(each)
    rest = world.host.slow_consumer_policies.values()
    assert world.broker.slow_consumers.watched.get(found) is best(rest, found)


# -- triggers ------------------------------------------------------------------------------------------------------


@pytest.mark.domain("2 slow consumers")
@pytest.mark.parametrize(
    ("trigger", "limit", "says"),
    [
        ("messageCount", 3, "Messages : 3, Limit : 3"),
        ("depth", 24, "Size : 24 bytes, Limit : 24"),
        ("messageAge", 4000, "Age : 4,000 ms, Limit : 4,000"),
    ],
)
def test_each_trigger_reports_a_slow_consumer_once(world, trigger, limit, says):
    policy(world, **{trigger: limit})
    found, consumer = subscribe(world, spec(world))
    publisher = Publisher(world)
    publisher.publish(count=2)
    assert look(world) == []
    publisher.publish()
    texts = look(world, 4)
    assert texts == [f"[vh(/default)/qu({found.queue.name})] HGT-1010 : Slow Consumer : {says}, Policy : slow (log)"]
    assert found.slow_since is not None
    assert look(world, 3) == []
    world.consume(consumer, 3)
    look(world)
    assert found.slow_since is None
    publisher.publish(count=3)
    assert len(look(world, 5)) == 1


@pytest.mark.domain("2 slow consumers")
def test_message_age_is_that_of_the_oldest_unacknowledged_message(world):
    policy(world, messageAge=3000)
    _, consumer = subscribe(world, spec(world))
    report_oldest_acquired(world, consumer)
    publisher = Publisher(world)
    world.give(consumer, 1000)
    publisher.publish()
    look(world)
    poison = world.acquired[consumer].pop()
    texts: list[str] = []
    for second in range(1, 6):  # others are removed, one stays
        publisher.publish()
        world.accept(consumer)
        world.acquired[consumer].append(poison)
        texts = look(world)
        world.acquired[consumer].clear()
        assert bool(texts) == (second == 3)
        if texts:
            break
    assert "Age : 3,000 ms, Limit : 3,000" in texts[0]


def report_oldest_acquired(world: Simulation, consumer: Consumer) -> None:
    """Report the oldest acquired message, as the protocol layer does."""
    consumer.oldest = lambda: min((message[0] for message in world.acquired.get(consumer, ())), default=None)


def test_messages_behind_a_backlog_have_an_age(world):
    world.broker.enforcement.create_policy(world.host, "subscriptions.>", {"capacity_messages": 1, "spool": "disk"})
    found, consumer = subscribe(world, spec(world))
    Publisher(world).publish(count=5)
    look(world, 3)
    assert found.message_age(world.broker.turn.now) == 2000
    world.give(consumer, 2)
    assert found.queue.lanes.oldest() == 3
    assert found.queue.gate.depth_messages == 5


def test_empty_subscription_is_never_slow(world):
    policy(world, messageAge=1)
    subscribe(world, spec(world))
    assert look(world, 5) == []


# -- actions -------------------------------------------------------------------------------------------------------


@pytest.mark.domain("2 slow consumers")
@pytest.mark.parametrize("kind", ["ordinary", "durable", "durable and away"])
def test_topicdelete_disconnects_the_consumer_and_deletes_the_subscription(world, kind):
    policy(world, messageCount=2, policy="topicdelete")
    found, consumer = subscribe(world, spec(world) if kind == "ordinary" else durable(world))
    if kind == "durable and away":
        world.leave(consumer)
    Publisher(world).publish(count=2)
    world.broker.sample()
    ends = [e for e in world.broker.turn.effects if isinstance(e, Detach) and e.port is consumer.handle]
    if kind == "durable and away":
        assert not ends
    else:
        assert ends[0].condition == "amqp:resource-deleted"
        assert "Messages : 2, Limit : 2, Policy : slow (topicdelete)" in ends[0].description
    world.settle()
    assert found.queue.name not in world.host.queues
    wanted = ("slow-consumer", "subscription-deleted", "queue-deleted")
    assert [kind for kind in world.kinds() if kind in wanted] == list(wanted)
    assert not [key for key in world.records if key[0] == "subscription"]


def test_policy_applies_to_existing_subscriptions_until_it_is_deleted(world):
    found, _ = subscribe(world, spec(world))
    Publisher(world).publish(count=3)
    assert look(world) == []
    slow = policy(world, messageCount=3)
    assert len(look(world)) == 1
    slow = world.broker.slow_consumers.update(slow, {"messageCount": 4})
    assert found.slow_since is None
    assert look(world) == []
    slow = world.broker.slow_consumers.update(slow, {"messageCount": 2})
    assert len(look(world)) == 1
    world.broker.slow_consumers.delete(slow)
    assert found.slow_since is None
    assert look(world) == []


def test_policy_of_one_virtual_host_does_not_apply_to_another(world):
    other = world.broker.create_virtualhost("other")
    given = {"topic": ">", "messageCount": 1, "policy": "topicdelete"}
    world.broker.slow_consumers.create(other, "slow", given)
    found, _ = subscribe(world, spec(world))
    Publisher(world).publish()
    assert look(world) == []
    assert found.queue.name in world.host.queues


# -- through management, and persisted ---------------------------------------------------------------------------------

NAME = object_name("SlowConsumerPolicy", virtualhost="default", name="slow")


def test_policies_are_created_changed_and_deleted_through_management_and_persisted(world):
    management = Management(world.broker)
    found, _ = subscribe(world, durable(world))
    made = management.create(NAME, {"topic": "prices", "messageCount": 5, "policy": "log"}, "ann")
    assert (made["topic"], made["subscription"], made["subscriptions"], made.version) == ("prices", None, 1, 1)
    changed = management.update(NAME, {"messageCount": None, "depth": 9, "policy": "topicdelete"}, 1, "ann")
    assert (changed["messageCount"], changed["depth"], changed.version) == (None, 9, 2)
    with pytest.raises(StaleVersion):
        management.update(NAME, {"depth": 1}, 1, "ann")
    world.settle()
    assert [f.text for f in world.facts if f.kind == "policy-changed"][-1] == (
        "[vh(/default)/slow-consumer-policy(slow)] HGT-1003 : Policy Changed : depth inherited -> 9, messageCount 5 ->"
        " inherited, policy log -> topicdelete"
    )
    after = Management(restarted(world))
    assert after.read(NAME).attributes == changed.attributes
    assert after.read(found.object_name)["slow_consumer_policy"] == "slow"
    management.delete(NAME, 2, "ann")
    world.settle()
    with pytest.raises(NotFound, match="there is no slow-consumer policy slow"):
        Management(restarted(world)).read(NAME)


@pytest.mark.domain("2 slow consumers")
def test_policy_may_name_the_subscription_only_and_a_better_topic_wins(world):
    given = {"subscription": "audit", "messageCount": 1, "policy": "log"}
    made = Management(world.broker).create(NAME, given, "ann")
    assert (made["topic"], made["subscription"]) == (None, "audit")
    found, _ = subscribe(world, spec(world, "prices", name="audit", shared=True))
    other, _ = subscribe(world, spec(world, "prices", name="another", shared=True))
    management = Management(world.broker)
    assert management.read(found.object_name)["slow_consumer_policy"] == "slow"
    assert management.read(other.object_name)["slow_consumer_policy"] is None
    policy(world, "better", "prices", depth=1)
    assert management.read(found.object_name)["slow_consumer_policy"] == "better"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"topic": "a", "policy": "log"}, "none of depth, messageAge, messageCount is set"),
        ({"topic": "a", "policy": "log", "depth": 0}, "none of depth, messageAge, messageCount is set"),
        ({"topic": "", "policy": "log", "depth": 1}, "neither topic nor subscription is set"),
        ({"policy": "log", "depth": 1}, "neither topic nor subscription is set"),
        ({"topic": "a.>.b", "policy": "log", "depth": 1}, "'a.>.b': > and # may only be the last word"),
        ({"topic": "a", "subscription": "b*", "policy": "log", "depth": 1}, r"'b\*': .* stand for whole words"),
        ({"topic": "a", "policy": "kill", "depth": 1}, "policy is 'kill': it must be one of log, topicdelete"),
        ({"topic": "a", "depth": 1}, "policy is missing"),
    ],
)
def test_invalid_policy_is_refused_with_the_reason(world, given, wrong):
    with pytest.raises(InvalidValue, match=wrong):
        Management(world.broker).create(NAME, given)


def test_second_policy_of_the_same_name_is_refused(world):
    policy(world, depth=1)
    with pytest.raises(AlreadyExists, match="slow-consumer policy slow in virtual host default already"):
        policy(world, depth=2)
