"""A queue with messages in the real engine, and users with the roles of messages."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker, signed_in

MESSAGES = "/api/v1/messages/"
#: In every body and property.
SECRET = "hush-hush"
BODY = f"{SECRET} grün €".encode()


def queue(name: str, virtualhost: str = "default") -> ObjectName:
    return object_name("Queue", virtualhost=virtualhost, name=name)


ORDERS = queue("orders")


def encoded(**given: Any) -> bytes:
    return bytes(Message(**{"subject": SECRET, "body": BODY.decode(), **given}).encode())


@pytest.fixture
def orders(broker: Broker) -> Broker:
    """Ten messages in `orders`, n from 0 to 9; `later`, `small` (2 messages at most) and `dead` are empty."""
    create = broker.memory.management.create
    create(queue("dead"), {})
    create(ORDERS, {"dead_letter_queue": "dead", "maximum_deliveries": 1})
    create(queue("later"), {})
    create(queue("small"), {"capacity_messages": 2, "flow_resume_messages": 1})
    broker.memory.publish_encoded("orders", *(encoded(properties={"n": n, SECRET: SECRET}) for n in range(10)))
    broker.connected()
    return broker


def depth(broker: Broker, name: str) -> int:
    return broker.do(lambda memory: int(memory.management.read(queue(name))["depth_messages"]))


def listed(client: APIClient, name: str = "orders", **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = None
    while True:
        given = {"object": str(queue(name)), **query, **({"after": after} if after else {})}
        answer = client.get(MESSAGES, given)
        assert answer.status_code == 200, answer.content
        page = answer.json()
        found += page["results"]
        after = page["next"]
        if after is None:
            return found


def ids(client: APIClient, name: str = "orders", **query: Any) -> list[str]:
    return [each["id"] for each in listed(client, name, **query)]


def with_role(name: str, *roles: Role, virtualhost: str = "") -> APIClient:
    broker = "local" if virtualhost else ""
    return signed_in(person(name, *(Grant(role, broker, virtualhost) for role in roles)))


@pytest.fixture
def reader(orders: Broker) -> APIClient:
    return with_role("rita", Role.MESSAGE_READER)


@pytest.fixture
def vera(orders: Broker) -> APIClient:
    return with_role("vera", Role.VIEWER)


@pytest.fixture
def olga(orders: Broker) -> APIClient:
    return with_role("olga", Role.OPERATOR)


@pytest.fixture
def paul(orders: Broker) -> APIClient:
    return with_role("paul", Role.PUBLISHER)
