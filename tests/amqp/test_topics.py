"""Topics with real clients: who gets what, what durable subscriptions outlive, what a full or slow one does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from proton import UNDESCRIBED, Array, Data, Described, Message, byte, symbol
from proton.reactor import Container, DurableSubscription, Filter, LinkOption
from proton.utils import BlockingConnection, LinkDetached, SendException

from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until
from tests.amqp.clients import Crowd, bodies, connected, managing, steady, until

VHOST = "virtualhost=default"
NO_LOCAL = {symbol("no-local"): Described(symbol("apache.org:no-local-filter:list"), "no")}


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with BrokerThread(tmp_path / "broker") as running:
        yield running


class Able(LinkOption):  # type: ignore[misc]
    """Capabilities of the terminus that names the topic."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def apply(self, link: Any) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, self.names)))


TOPIC = Able("topic")


@contextmanager
def client(broker: BrokerThread, name: str) -> Iterator[Any]:
    """A connection with this container-id."""
    container = Container()
    container.container_id = name
    connection = BlockingConnection(broker.url, timeout=WITHIN, container=container, allowed_mechs="ANONYMOUS")
    try:
        yield connection
    finally:
        if not connection.disconnected:
            connection.close()


def publish(broker: BrokerThread, topic: str, *messages: Any, durable: bool = False) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender(topic, options=TOPIC)
        for body in messages:
            sender.send(Message(body=body, durable=durable))


def mine(connection: Any, topic: str = "prices", name: str = "mine", credit: int = 10) -> Any:
    return connection.create_receiver(topic, credit=credit, name=name, options=[TOPIC, DurableSubscription()])


def detach(broker: BrokerThread, connection: Any, receiver: Any) -> None:
    """The only consumer."""
    receiver.link.detach()
    until(connection, lambda: not broker.look(lambda s: s.broker.consumers), "the broker has heard of it")


def subscriptions(broker: BrokerThread) -> list[str]:
    return broker.look(lambda s: sorted(each.queue.name for each in s.broker.registry.subscriptions.values()))


def queues(broker: BrokerThread) -> list[str]:
    return broker.look(lambda s: list(s.broker.virtualhosts["default"].queues))


def ended(connection: Any, receiver: Any) -> str:
    """Why the broker has ended a link."""
    with suppress(LinkDetached):  # Proton's blocking client may notice first
        until(connection, lambda: receiver.link.remote_condition, "the broker ends the link")
    condition = receiver.link.remote_condition
    return f"{condition.name}: {condition.description}"


# -- who gets what -------------------------------------------------------------------------------------------------


def test_every_subscriber_of_a_topic_gets_every_message_and_none_is_required(broker: BrokerThread) -> None:
    publish(broker, "prices", "without subscribers")
    with client(broker, "one") as one, client(broker, "two") as two:
        receivers = [c.create_receiver("prices", credit=10, options=TOPIC) for c in (one, two)]
        publish(broker, "prices", "a", "b")
        publish(broker, "news", "c")
        assert [bodies(r, 2) for r in receivers] == [["a", "b"], ["a", "b"]]
        assert subscriptions(broker) == ["subscriptions.prices.one|#1", "subscriptions.prices.two|#2"]
    wait_until(lambda: not queues(broker), "their queues went with them")


def test_wildcards_and_addresses_with_a_scheme_mean_topics(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        some = connection.create_receiver("topic://stocks.*", credit=10)
        every = connection.create_receiver("stocks.>", credit=10, options=TOPIC)
        connection.create_sender("topic://stocks.ibm").send(Message(body="ibm"))
        publish(broker, "stocks.eu.sap", "sap")
        assert bodies(some, 1) == ["ibm"]
        assert bodies(every, 2) == ["ibm", "sap"]


def test_an_exchange_can_be_subscribed_to_with_and_without_a_key(broker: BrokerThread) -> None:
    with managing(broker) as manager:
        name = f"type=Exchange,{VHOST},name=stocks"
        assert manager.ask("CREATE", {"exchange_type": "topic"}, name=name).status == 201
    with connected(broker) as connection:
        every = connection.create_receiver("stocks", credit=10)
        some = connection.create_receiver("stocks/eu.*", credit=10)
        sender = connection.create_sender("stocks")
        sender.send(Message(body="x", subject="eu.sap"))
        sender.send(Message(body="y", subject="us.ibm"))
        assert bodies(every, 2) == ["x", "y"]
        assert bodies(some, 1) == ["x"]
        some.close()
        every.close()
        with pytest.raises(
            SendException
        ):  # an exchange that is not addressed as a topic refuses messages without a queue
            sender.send(Message(body="z", subject="us.ibm"))


def test_a_direct_exchange_needs_a_key(broker: BrokerThread) -> None:
    with managing(broker) as manager:
        manager.ask("CREATE", {"exchange_type": "direct"}, name=f"type=Exchange,{VHOST},name=codes")
    with connected(broker) as connection:
        with pytest.raises(LinkDetached, match="subscribe to codes/KEY"):
            connection.create_receiver("codes")
        connection.create_receiver("codes/red")


@pytest.mark.parametrize("how", ["scheme", "annotation"])
def test_a_message_with_its_own_address_can_go_to_a_topic(broker: BrokerThread, how: str) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver("prices", credit=10, options=TOPIC)
        sender = connection.create_sender(None)
        annotations = {symbol("x-opt-jms-dest"): byte(1)} if how == "annotation" else {}
        for topic in ("prices", "without.subscribers"):
            address = f"topic://{topic}" if how == "scheme" else topic
            sender.send(Message(address=address, body=topic, annotations=annotations))
        assert bodies(receiver, 1) == ["prices"]
        assert queues(broker) == subscriptions(broker)


def test_shared_subscriptions_give_each_message_to_one_and_end_with_the_last(broker: BrokerThread) -> None:
    ours = Able("topic", "shared", "global")
    with client(broker, "one") as one, client(broker, "two") as two:
        receivers = [
            c.create_receiver("prices", credit=2, name=f"ours|global-volatile{n}", options=ours)
            for n, c in enumerate((one, two))
        ]
        publish(broker, "prices", *range(4))
        assert sorted(bodies(receivers[0], 2) + bodies(receivers[1], 2)) == [0, 1, 2, 3]
        receivers[0].close()
        assert subscriptions(broker) == ["subscriptions.prices.|ours|volatile"]
        receivers[1].close()
        assert subscriptions(broker) == []


def test_no_local_filter_is_confirmed_to_the_subscriber(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        deaf = connection.create_receiver("prices", credit=10, options=[TOPIC, Filter(NO_LOCAL)])
        applied = deaf.link.remote_source.filter
        applied.rewind()
        assert applied.next() is not None
        assert symbol("no-local") in applied.get_object()
        connection.create_sender("prices", options=TOPIC).send(Message(body="own"))
        publish(broker, "prices", "another's")
        assert bodies(deaf, 1) == ["another's"]


# -- durable subscriptions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["detach", "close the connection", "lose the connection"])
def test_a_durable_subscription_outlives_its_link(broker: BrokerThread, end: str) -> None:
    with client(broker, "me") as connection:
        receiver = mine(connection)
        if end == "detach":
            detach(broker, connection, receiver)
        elif end == "lose the connection":
            broker.do(lambda s: [each.transport.abort() for each in list(s._listeners) if each.transport])
            wait_until(lambda: not broker.look(lambda s: s.broker.consumers), "the broker has noticed")
            connection.disconnected = True
    publish(broker, "prices", "a", "b")
    with client(broker, "me") as connection:
        assert bodies(mine(connection), 2) == ["a", "b"]


def test_closing_the_link_of_a_durable_subscription_ends_it(broker: BrokerThread) -> None:
    with client(broker, "me") as connection:
        mine(connection).close()
        assert subscriptions(broker) == queues(broker) == []


def test_a_durable_subscription_keeps_its_durable_messages_through_a_restart(tmp_path: Path) -> None:
    policy = f"type=SlowConsumerPolicy,{VHOST},name=all"
    with BrokerThread(tmp_path / "data") as broker:
        with client(broker, "me") as connection:
            detach(broker, connection, mine(connection, "stocks.*"))
            connection.create_receiver("stocks.*", options=TOPIC)
            publish(broker, "stocks.ibm", "stored", "too", durable=True)
            publish(broker, "stocks.ibm", "in memory only")
        with managing(broker) as manager:
            given = {"topic": ">", "messageCount": 1000, "policy": "log"}
            assert manager.ask("CREATE", given, name=policy).status == 201
    with BrokerThread(tmp_path / "data") as broker:
        assert subscriptions(broker) == ["subscriptions.stocks.*.me|mine"]
        publish(broker, "stocks.sap", "after")
        with client(broker, "me") as connection:
            receiver = mine(connection, "stocks.*")
            assert bodies(receiver, 3) == ["stored", "too", "after"]
            detach(broker, connection, receiver)
        with managing(broker) as manager:
            assert manager.ask("READ", name=policy).body["subscriptions"] == 1
            found = manager.ask("READ", name=f"type=Subscription,{VHOST},name=subscriptions.stocks.*.me|mine").body
            assert (found["depth_messages"], found["consumers"]) == (0, 0)
    with BrokerThread(tmp_path / "data") as broker, client(broker, "me") as connection:
        mine(connection, "stocks.*").close()
        assert subscriptions(broker) == []
    with BrokerThread(tmp_path / "data") as broker:
        assert subscriptions(broker) == queues(broker) == []


def test_reconnected_client_takes_its_subscription_from_its_lost_connection(broker: BrokerThread) -> None:
    with client(broker, "me") as lost, client(broker, "me") as back:
        first = mine(lost)
        publish(broker, "prices", "a")
        broker.until(lambda s: sum(c.unacknowledged for c in s.broker.consumers.values()) == 1, "it has the message")
        second = mine(back)
        assert bodies(second, 1) == ["a"]
        assert "amqp:link:stolen" in ended(lost, first)
        assert subscriptions(broker) == ["subscriptions.prices.me|mine"]


def test_a_used_subscription_is_not_replaced_by_one_for_another_topic(broker: BrokerThread) -> None:
    with client(broker, "me") as connection, client(broker, "me") as other:
        mine(connection)
        with pytest.raises(LinkDetached, match=r"resource-locked.*in use for Topic : prices"):
            mine(other, "news")


# -- full, slow, and deleted ---------------------------------------------------------------------------------------


def test_deleting_a_subscription_through_management_detaches_its_consumer(broker: BrokerThread) -> None:
    name = f"type=Subscription,{VHOST},name=subscriptions.prices.me|mine"
    with client(broker, "me") as connection, managing(broker) as manager:
        receiver = mine(connection)
        found = manager.ask("READ", name=name).body
        assert (found["topic"], found["client"], found["subscription"]) == ("prices", "me", "mine")
        assert (found["durable"], found["shared"], found["consumers"]) == (True, False, 1)
        assert manager.ask("DELETE", name=name, version=1).status == 204
        assert "amqp:resource-deleted" in ended(connection, receiver)
        assert manager.ask("READ", name=name).status == 404
    assert subscriptions(broker) == []


@pytest.mark.domain("3 second cause")
@pytest.mark.domain("2 slow consumers")
def test_a_subscription_that_never_acknowledges_holds_its_publishers_until_it_is_found_slow(
    broker: BrokerThread,
) -> None:
    with managing(broker) as manager, client(broker, "idler") as idler, Crowd(broker) as crowd:
        policy = f"type=Policy,{VHOST},pattern=subscriptions.prices.>"
        assert manager.ask("CREATE", {"capacity_messages": 10}, name=policy).status == 201
        never = idler.create_receiver("prices", credit=1000, options=TOPIC)
        (queue,) = subscriptions(broker)
        worker = crowd.taker("topic://prices")
        wait_until(lambda: len(subscriptions(broker)) == 2, "both have subscribed")
        publisher = crowd.publisher("topic://prices", 50)

        # A message goes to all or waits: acknowledgements of one subscriber do not help.
        broker.until_queue(queue, lambda q: q.gate.blocked_producers == 1, "the publisher is blocked")
        wait_until(lambda: (publisher.accepted, len(worker.taken)) == (11, 11), "the worker has what was accepted")
        assert steady(lambda: (publisher.accepted, len(worker.taken)), "all stand still") == (11, 11)
        blocked = manager.ask("QUERY", {"where": {"state": "BLOCKED"}}, entityType="Producer").body
        # Its link has a producer for each of the two queues: what blocks one blocks both.
        both = [dict(zip(blocked["attributeNames"], row, strict=True)) for row in blocked["results"]]
        assert len({producer["queue"] for producer in both}) == len(both) == 2
        for producer in both:
            assert producer["reasons"] == [f"queue-overfull:{queue}"]
            assert f"queue {queue} falls to 8 messages" in producer["release"]

        given = {"topic": "prices", "messageCount": 10, "policy": "topicdelete"}
        slow = f"type=SlowConsumerPolicy,{VHOST},name=stuck"
        assert manager.ask("CREATE", given, name=slow).status == 201
        wait_until(lambda: publisher.accepted == len(worker.taken) == 50, "publisher and worker go on")
        why = f"amqp:resource-deleted: subscription {queue} was deleted: Slow Consumer : Messages : 11, Limit : 10"
        assert ended(idler, never).startswith(why)
        assert queue not in queues(broker)
        said = f"[vh(/default)/qu({queue})] HGT-1010 : Slow Consumer : Messages : 11, Limit : 10, Policy : stuck"
        assert any(text.startswith(said) for text in broker.texts())
