"""Management as one user: a table of who may ask what, about objects that exist and objects that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokers.admin import AdminError, NotAllowed
from brokers.engine.broker import Broker
from brokers.engine.management import Management
from brokers.engine.permission import ManagementAs
from brokers.engine.rights import ALL, Rights, parse_grants
from brokers.managed import TYPES, ObjectName, object_name

USERS = {
    "administrator": ALL,
    "manager of all": Rights(grants=parse_grants(["*:manage"])),
    "manager of a": Rights(grants=parse_grants(["a:manage"])),
    "worker in a": Rights(grants=parse_grants(["a:publish,consume"])),
}
EVERYBODY = set(USERS)
ADMINISTRATOR = {"administrator"}
OF_ALL = {"administrator", "manager of all"}
OF_A = {*OF_ALL, "manager of a"}

Ask = Callable[[ManagementAs], Any]


def name(type_name: str, **keys: str) -> ObjectName:
    return object_name(type_name, **keys)


def queue(host: str, queue_name: str = "q") -> ObjectName:
    return name("Queue", virtualhost=host, name=queue_name)


HOST_A, BROKER = name("VirtualHost", name="a"), name("Broker")

ASKED: dict[str, tuple[Ask, set[str]]] = {
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
    "list the queues": (lambda m: m.query("Queue"), EVERYBODY),
}


class Plainly:
    def prepare(self, name: str) -> str:
        return name

    def verifier(self, password: str) -> dict[str, Any]:
        return {}

    def generate(self) -> str:
        return "generated"


@pytest.fixture
def broker() -> Broker:
    broker = Broker(0)
    broker.accounts.credentials = Plainly()
    for host in ("a", "b"):
        broker.create_queue(broker.create_virtualhost(host), "q")
    broker.accounts.create({"name": "anna"})
    return broker


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("asked", ASKED)
def test_a_user_may_ask_what_its_rights_allow(broker: Broker, user: str, asked: str) -> None:
    ask, allowed = ASKED[asked]
    management = ManagementAs(Management(broker), user, USERS[user])
    if user not in allowed:
        with pytest.raises(NotAllowed, match=f"user {user} has not the right to manage"):
            ask(management)
        assert not broker.turn.facts[3:]  # but for those of the fixture
    elif "that b does not have" in asked or "that is not" in asked:
        with pytest.raises(AdminError, match="there is no"):
            ask(management)
    else:
        ask(management)


@pytest.mark.parametrize(
    ("user", "hosts"),
    [("administrator", ["a", "b"]), ("manager of all", ["a", "b"]), ("manager of a", ["a"]), ("worker in a", [])],
)
def test_a_list_has_what_the_user_may_see_and_counts_nothing_else(broker: Broker, user: str, hosts: list[str]) -> None:
    management = ManagementAs(Management(broker), user, USERS[user])
    for type_name, key in (("Queue", "virtualhost"), ("VirtualHost", "name")):
        page = management.query(type_name, count=1)
        assert page.total == len(hosts)
        page = management.query(type_name)
        assert [item[key] for item in page.items] == hosts


def test_every_type_is_of_a_virtual_host_or_for_administrators_only(broker: Broker) -> None:
    management = ManagementAs(Management(broker), "manager of all", USERS["manager of all"])
    refused = set()
    for type_name in TYPES:
        try:
            management.query(type_name)
        except NotAllowed:
            refused.add(type_name)
    assert refused == {"Broker", "User"}
