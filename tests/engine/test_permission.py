"""Management as one user: a table of permitted requests, on existing and unknown objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokers.admin import AdminError, NotAllowed
from brokers.engine.broker import Broker
from brokers.engine.management.permission import ManagementAs
from brokers.engine.management.requests import Management
from brokers.engine.registry.subscription import SubscriptionSpec
from brokers.engine.values.rights import ALL, Rights, parse_grants
from brokers.model import TYPES, ObjectName, object_name
from tests.engine.plain_credentials import PlainCredentials
from tests.engine.ports import Link, Peer

USERS = {
    "administrator": ALL,
    "manager of all": Rights(grants=parse_grants(["*:manage"])),
    "manager of a": Rights(grants=parse_grants(["a:manage"])),
    "worker in a": Rights(grants=parse_grants(["a:publish,consume"])),
}
ALL_USERS = set(USERS)
ADMINISTRATOR = {"administrator"}
OF_ALL = {"administrator", "manager of all"}
OF_A = {*OF_ALL, "manager of a"}

Ask = Callable[[ManagementAs], Any]


def name(type_name: str, **keys: str) -> ObjectName:
    return object_name(type_name, **keys)


def queue(host: str, queue_name: str = "q") -> ObjectName:
    return name("Queue", virtualhost=host, name=queue_name)


def exchange(host: str) -> ObjectName:
    return name("Exchange", virtualhost=host, name="e")


def subscription(host: str) -> ObjectName:
    return name("Subscription", virtualhost=host, name="subscriptions.news.client|mine")


def slow(host: str, policy: str = "p") -> ObjectName:
    return name("SlowConsumerPolicy", virtualhost=host, name=policy)


def connection(host: str) -> ObjectName:
    return name("Connection", virtualhost=host, id=CONNECTIONS[host])


def consumer(host: str) -> ObjectName:
    return name("Consumer", virtualhost=host, id=CONSUMERS[host])


SLOW = {"topic": "news", "messageCount": 5, "policy": "log"}
TOPIC = {"exchange_type": "topic"}
#: virtual host -> number of the fixture's connection to it, and of the consumer on that
CONNECTIONS = {"a": "1", "b": "4"}
CONSUMERS = {"a": "3", "b": "6"}

HOST_A, BROKER = name("VirtualHost", name="a"), name("Broker")

REQUESTS: dict[str, tuple[Ask, set[str]]] = {
    "read a queue of a": (lambda m: m.read(queue("a")), OF_A),
    "read a queue of b": (lambda m: m.read(queue("b")), OF_ALL),
    "read a queue that b does not have": (lambda m: m.read(queue("b", "none")), OF_ALL),
    "read a queue of a host that is not": (lambda m: m.read(queue("none")), OF_ALL),
    "create a queue in a": (lambda m: m.create(queue("a", "new"), {}, ""), OF_A),
    "create a queue in b": (lambda m: m.create(queue("b", "new"), {}, ""), OF_ALL),
    "change a queue of a": (lambda m: m.update(queue("a"), {"capacity_messages": 5}, 1, ""), OF_A),
    "change a queue of b": (lambda m: m.update(queue("b"), {"capacity_messages": 5}, 1, ""), OF_ALL),
    "delete a queue of a": (lambda m: m.delete(queue("a"), None, ""), OF_A),
    "delete a queue of b": (lambda m: m.delete(queue("b"), None, ""), OF_ALL),
    "stop a queue of a": (lambda m: m.call(queue("a"), "stop-producers", {}), OF_A),
    "stop a queue of b": (lambda m: m.call(queue("b"), "stop-producers", {}), OF_ALL),
    "explain a queue of b": (lambda m: m.call(queue("b"), "explain", {}), OF_ALL),
    "create a policy in a": (lambda m: m.create(name("Policy", virtualhost="a", pattern="x"), {}, ""), OF_A),
    "create a policy in b": (lambda m: m.create(name("Policy", virtualhost="b", pattern="x"), {}, ""), OF_ALL),
    "create an exchange in a": (lambda m: m.create(name("Exchange", virtualhost="a", name="x"), TOPIC, ""), OF_A),
    "create an exchange in b": (lambda m: m.create(name("Exchange", virtualhost="b", name="x"), TOPIC, ""), OF_ALL),
    "bind an exchange of a": (lambda m: m.call(exchange("a"), "bind", {"queue": "q"}), OF_A),
    "bind an exchange of b": (lambda m: m.call(exchange("b"), "bind", {"queue": "q"}), OF_ALL),
    "stop an exchange of b": (lambda m: m.call(exchange("b"), "stop-producers", {}), OF_ALL),
    "delete an exchange of b": (lambda m: m.delete(exchange("b"), None, ""), OF_ALL),
    "read a subscription of a": (lambda m: m.read(subscription("a")), OF_A),
    "read a subscription of b": (lambda m: m.read(subscription("b")), OF_ALL),
    "delete a subscription of a": (lambda m: m.delete(subscription("a"), None, ""), OF_A),
    "delete a subscription of b": (lambda m: m.delete(subscription("b"), None, ""), OF_ALL),
    "create a slow consumer policy in a": (lambda m: m.create(slow("a", "new"), SLOW, ""), OF_A),
    "create a slow consumer policy in b": (lambda m: m.create(slow("b", "new"), SLOW, ""), OF_ALL),
    "change a slow consumer policy of b": (lambda m: m.update(slow("b"), {"topic": "y"}, 1, ""), OF_ALL),
    "delete a slow consumer policy of b": (lambda m: m.delete(slow("b"), None, ""), OF_ALL),
    "close a connection to a": (lambda m: m.call(connection("a"), "close", {}), OF_A),
    "close a connection to b": (lambda m: m.call(connection("b"), "close", {}), OF_ALL),
    "read a consumer in a": (lambda m: m.read(consumer("a")), OF_A),
    "read a consumer in b": (lambda m: m.read(consumer("b")), OF_ALL),
    "read the host a": (lambda m: m.read(HOST_A), OF_A),
    "change the host a": (lambda m: m.update(HOST_A, {"anonymous": True}, 1, ""), OF_A),
    "stop the host a": (lambda m: m.call(HOST_A, "stop-producers", {}), OF_A),
    "stop the host b": (lambda m: m.call(name("VirtualHost", name="b"), "stop-producers", {}), OF_ALL),
    "create a host": (lambda m: m.create(name("VirtualHost", name="new"), {}, ""), ADMINISTRATOR),
    "delete the host a": (lambda m: m.delete(HOST_A, None, ""), ADMINISTRATOR),
    "read the broker": (lambda m: m.read(BROKER), ADMINISTRATOR),
    "change the broker": (lambda m: m.update(BROKER, {"capacity_messages": 5}, 1, ""), ADMINISTRATOR),
    "stop the broker": (lambda m: m.call(BROKER, "stop-producers", {}), ADMINISTRATOR),
    "list the brokers": (lambda m: m.query("Broker"), ADMINISTRATOR),
    "read a user": (lambda m: m.read(name("User", name="anna")), ADMINISTRATOR),
    "create a user": (lambda m: m.create(name("User", name="new"), {"certificate_subject": "CN=n"}, ""), ADMINISTRATOR),
    "change a user": (lambda m: m.update(name("User", name="anna"), {"administrator": True}, 1, ""), ADMINISTRATOR),
    "delete a user": (lambda m: m.delete(name("User", name="anna"), None, ""), ADMINISTRATOR),
    "list the users": (lambda m: m.query("User"), ADMINISTRATOR),
    "list the queues": (lambda m: m.query("Queue"), ALL_USERS),
}


#: Requests that no user can make, and the error for permitted users.
IMPOSSIBLE = {
    "read a queue that b does not have": "there is no queue",
    "read a queue of a host that is not": "there is no virtual host",
    "delete the host a": "has open connections",
}


@pytest.fixture
def broker() -> Broker:
    broker = Broker(0)
    broker.accounts.credentials = PlainCredentials()
    for host in ("a", "b"):
        there = broker.create_virtualhost(host)
        broker.create_queue(there, "q")
        broker.routing.create_exchange(there, "e", "topic")
        broker.slow_consumers.create(there, "p", SLOW)
        broker.enforcement.create_policy(there, "q", {"capacity_messages": 100})
        client = broker.open_connection(
            f"vhost:{host}", user="w", remote_address="?", container_id="client", idle_timeout=0, handle=Peer()
        )
        spec = SubscriptionSpec("news", "e", "news", "client", "mine", durable=True)
        broker.attach_producer(client, broker.queue(host, "q"), "p", 0, Link())
        found = broker.subscriptions.subscribe(client, spec)
        broker.attach_consumer(client, found.queue, "mine", Link(), browsing=False)
    broker.accounts.create({"name": "anna"})
    return broker


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_user_can_request_what_its_rights_allow(broker: Broker, user: str, request_name: str) -> None:
    ask, allowed = REQUESTS[request_name]
    management = ManagementAs(Management(broker), user, USERS[user])
    facts = len(broker.turn.facts)
    if user not in allowed:
        with pytest.raises(NotAllowed, match=f"user {user} has no permission to manage"):
            ask(management)
        assert len(broker.turn.facts) == facts
    elif request_name in IMPOSSIBLE:
        with pytest.raises(AdminError, match=IMPOSSIBLE[request_name]):
            ask(management)
    else:
        ask(management)


@pytest.mark.parametrize(
    ("grant", "may_read", "may_publish"),
    [
        ("a:manage", False, False),
        ("a:manage,consume", True, False),
        ("a:manage,publish", False, True),
        ("b:manage,consume,publish", False, False),
    ],
)
def test_bodies_are_for_those_who_may_consume_and_test_messages_for_those_who_may_publish(
    broker: Broker, grant: str, may_read: bool, may_publish: bool
) -> None:
    broker.queue("a", "q").enqueue(b"secret")
    (message,) = Management(broker).call(queue("a"), "list-messages", {})["messages"]
    management = ManagementAs(Management(broker), "u", Rights(grants=parse_grants([grant])))
    for operation, arguments, allowed in (
        ("read-message", {"id": message["id"]}, may_read),
        ("publish-message", {"body": ""}, may_publish),
    ):
        if allowed:
            management.call(queue("a"), operation, arguments)
        else:
            with pytest.raises(NotAllowed, match="user u has no permission to"):
                management.call(queue("a"), operation, arguments)


@pytest.mark.parametrize(
    ("user", "hosts"),
    [("administrator", ["a", "b"]), ("manager of all", ["a", "b"]), ("manager of a", ["a"]), ("worker in a", [])],
)
def test_list_has_and_counts_only_visible_objects(broker: Broker, user: str, hosts: list[str]) -> None:
    management = ManagementAs(Management(broker), user, USERS[user])
    for declared in TYPES.values():
        if not declared.keys or declared.name == "User":
            continue  # of the broker: see below
        key = "name" if declared.name == "VirtualHost" else "virtualhost"
        page = management.query(declared.name)
        assert sorted({item.name.get(key) for item in page.items}) == hosts, declared.name
        assert page.total == len(page.items) == management.query(declared.name, count=1).total


def test_every_type_belongs_to_a_virtual_host_or_is_for_administrators(broker: Broker) -> None:
    management = ManagementAs(Management(broker), "manager of all", USERS["manager of all"])
    refused = set()
    for type_name in TYPES:
        try:
            management.query(type_name)
        except NotAllowed:
            refused.add(type_name)
    assert refused == {"Broker", "User"}
