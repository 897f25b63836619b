"""Operators' stops of clients through the API: preview, progress, undo, permissions, and brokers without them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest
from proton import Message
from rest_framework.test import APIClient

from brokers.adapters import activemq, artemis, rabbitmq
from brokers.adapters.capabilities import Capability, types_of
from brokers.engine.values.clients import Client
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName, check_arguments, object_name
from brokers.testing import InMemoryBroker
from console.alerts.evaluator import Evaluator
from console.alerts.models import Alert, Rule
from console.audit.models import AuditEntry
from console.links.registry import link
from console.operations.stop_facts import is_of
from console.operations.stops import Aim
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

HOST = {"scope": "type=VirtualHost,name=default"}
WEB = {"user": "ann", "container_id": "web"}
MESSAGE = bytes(Message(body="x").encode())
ORDERS = object_name("Queue", virtualhost="default", name="orders")


def post(client: APIClient, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, format="json")


def answer_of(client: APIClient, path: str, **body: Any) -> Any:
    answer = post(client, path, **body)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.fixture
def furnished(broker: Broker) -> Broker:
    """Two producers of ann's web client, one of her batch client, one of bob's web client."""

    def act(memory: InMemoryBroker) -> None:
        for queue, user, container in (
            ("orders", "ann", "web"),
            ("bills", "ann", "web"),
            ("orders", "ann", "batch"),
            ("orders", "bob", "web"),
        ):
            memory.attach_producer(queue, user=user, container_id=container)

    broker.connected()
    broker.do(act)
    until(lambda: link().queue_count == 2)
    return broker


def blocked(broker: Broker) -> list[str]:
    found = broker.do(lambda memory: [p.connection.client for p in memory.engine.producers.values() if p.blocked])
    return sorted(found)


def test_stop_of_a_client_is_previewed_followed_listed_and_undone(furnished: Broker, as_operator: APIClient) -> None:
    preview = answer_of(as_operator, "stop-producers/preview/", **HOST, **WEB)
    assert (preview["queues"], preview["producers"], preview["cannot"], preview["largest"]) == (2, 2, "", [])
    stopped = answer_of(as_operator, "stop-producers/", **HOST, **WEB, reason="poison", for_ms=60_000)
    assert (stopped["queues"], stopped["producers"], stopped["changed"]) == (2, 2, True)
    assert blocked(furnished) == ["ann · web · 127.0.0.1:40000"] * 2
    progress = answer_of(as_operator, "stop-producers/progress/", **HOST, **WEB)
    assert (progress["producers"], progress["stopped"] + progress["draining"]) == (2, 2)
    until(lambda: (link().broker or {}).get("stops"))
    (stop,) = link().broker["stops"]  # type: ignore[index]
    assert {name: stop[name] for name in WEB} == WEB
    assert answer_of(as_operator, "stop-producers/progress/", **HOST, **WEB)["stop"]["reason"] == "poison"
    assert answer_of(as_operator, "stop-producers/progress/", **HOST)["stop"] is None
    assert answer_of(as_operator, "start-producers/", **HOST, reason="not this one", only=True)["changed"] is False
    assert len(blocked(furnished)) == 2
    assert answer_of(as_operator, "start-producers/", **HOST, **WEB, reason="undo", only=True)["changed"] is True
    assert blocked(furnished) == []
    rows = AuditEntry.objects.filter(operation="stop-producers", outcome="done")
    (row,) = rows
    assert 'container_id: "web"' in row.detail


def test_progress_names_the_queues_that_the_end_by_depth_waits_for(furnished: Broker, as_operator: APIClient) -> None:
    def fill(memory: InMemoryBroker) -> None:
        for name, count in (("orders", 9), ("bills", 5), ("other", 10)):
            queue = object_name("Queue", virtualhost="default", name=name)
            if name == "other":
                memory.management.create(queue, {})
            version = memory.management.read(queue).version
            memory.management.update(queue, {"capacity_messages": 12}, version)
            memory.publish_encoded(name, *[MESSAGE] * count)

    furnished.do(fill)
    path = "stop-producers/progress/"
    found = answer_of(as_operator, path, **HOST, **WEB)
    assert (found["queues_above"], found["fullest"]) == (None, None)
    answer_of(as_operator, "stop-producers/", **HOST, **WEB, reason="poison", below=40)
    found = answer_of(as_operator, path, **HOST, **WEB)
    orders, bills = (f"type=Queue,virtualhost=default,name={name}" for name in ("orders", "bills"))
    assert found["queues_above"] == 2
    assert found["fullest"] == [{"queue": orders, "percent": 75}, {"queue": bills, "percent": 42}]
    assert answer_of(as_operator, path, **HOST)["fullest"] is None
    furnished.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 9))
    assert answer_of(as_operator, path, **HOST, **WEB)["queues_above"] == 1


def test_queues_of_a_stop_of_the_broker_are_not_named_to_users_of_one_virtual_host(
    furnished: Broker, as_operator: APIClient
) -> None:
    scope = {"scope": "type=Broker"}
    furnished.do(lambda memory: memory.management.update(ORDERS, {"capacity_messages": 10}, 1))
    furnished.do(lambda memory: memory.publish_encoded("orders", *[MESSAGE] * 9))
    answer_of(as_operator, "stop-producers/", **scope, **WEB, reason="poison", below=40)
    assert answer_of(as_operator, "stop-producers/progress/", **scope, **WEB)["queues_above"] == 1
    viewer = signed_in(person("vera", Grant(Role.VIEWER, "local", "default")))
    found = answer_of(viewer, "stop-producers/progress/", **scope, **WEB)
    assert (found["producers"], found["queues_above"], found["fullest"]) == (2, None, None)


def test_client_that_is_away_can_be_stopped(furnished: Broker, as_operator: APIClient) -> None:
    given = {"scope": "type=Broker", "container_id": "later"}
    assert answer_of(as_operator, "stop-producers/preview/", **given)["producers"] == 0
    assert answer_of(as_operator, "stop-producers/", **given, reason="known bad")["changed"] is True
    furnished.do(lambda memory: memory.attach_producer("orders", container_id="later"))
    assert blocked(furnished) == ["anonymous · later · 127.0.0.1:40000"]


def test_stop_of_a_client_at_named_queues_is_a_stop_of_each(furnished: Broker, as_operator: APIClient) -> None:
    queues = [f"type=Queue,virtualhost=default,name={name}" for name in ("orders", "bills")]
    given = {"scope": "type=Broker", "queues": queues, **WEB}
    answer = answer_of(as_operator, "stop-producers/", **given, reason="x")
    assert (answer["producers"], sorted(answer["changed_queues"])) == (2, sorted(queues))
    client = Client("ann", "web")
    stops = furnished.do(lambda memory: set(memory.engine.stops))
    assert stops == {Scope("default", "orders", client=client), Scope("default", "bills", client=client)}
    answer_of(as_operator, "start-producers/", **given, reason="undo", only=True)
    assert blocked(furnished) == []


def test_staged_start_of_a_client_is_refused(furnished: Broker, as_operator: APIClient) -> None:
    answer_of(as_operator, "stop-producers/", **HOST, **WEB, reason="x")
    refused = post(as_operator, "start-producers/", **HOST, **WEB, reason="y", rate=5)
    assert (refused.status_code, "rate" in refused.json()) == (400, True)
    assert len(blocked(furnished)) == 2


@pytest.mark.parametrize("name", ["user", "container_id", "link"])
def test_name_that_is_too_long_is_refused_by_its_field(furnished: Broker, as_operator: APIClient, name: str) -> None:
    refused = post(as_operator, "stop-producers/", **HOST, **{name: "x" * 1001}, reason="x")
    assert (refused.status_code, list(refused.json())) == (400, [name])


def test_only_operators_of_the_scope_stop_clients(furnished: Broker) -> None:
    viewer = person("vera", Grant(Role.VIEWER, "local", "default"))
    elsewhere = person("otto", Grant(Role.OPERATOR, "local", "default"))
    assert post(signed_in(viewer), "stop-producers/", **HOST, **WEB, reason="x").status_code == 403
    refused = post(signed_in(elsewhere), "stop-producers/", scope="type=Broker", **WEB, reason="x")
    assert refused.status_code == 403
    assert blocked(furnished) == []
    assert answer_of(signed_in(elsewhere), "stop-producers/", **HOST, **WEB, reason="x")["producers"] == 2


@pytest.mark.parametrize("capabilities", [rabbitmq.CAPABILITIES, artemis.CAPABILITIES, activemq.CAPABILITIES])
def test_other_kinds_refuse_the_stop_of_a_client_instead_of_stopping_all(
    capabilities: Mapping[str, Capability],
) -> None:
    for declared in types_of(capabilities).values():
        for operation in declared.operations:
            for name in ("user", "container_id", "link"):
                assert name in dict(check_arguments(operation, {name: "web"})[1]), (declared.name, operation.name)


def test_stop_of_another_client_or_of_the_whole_is_another_stop() -> None:
    scope = ObjectName.parse("type=Broker")
    stop = {"object": "type=Broker", "pattern": "", "user": "ann", "container_id": "", "link": ""}
    assert is_of(stop, Aim(scope, user="ann"))
    assert not is_of(stop, Aim(scope))
    assert not is_of(stop, Aim(scope, user="ann", link="l"))
    assert is_of({"object": "type=Broker"}, Aim(scope)), "a stop of a broker that knows no stops of clients"


def test_forgotten_stop_of_a_client_fires_an_alert_until_it_is_lifted(
    furnished: Broker, as_operator: APIClient
) -> None:
    seconds = 0.0
    Rule.objects.create(name="Forgotten stop", kinds=["stopped"], holds=4 * 3600)
    Rule.objects.create(name="of orders", kinds=["stopped"], pattern="orders")
    evaluator = Evaluator(
        lambda: [link()],
        lambda number: None,
        clock=lambda: seconds,
        now=lambda: dt.datetime.fromtimestamp(stopped_at / 1000 + seconds, dt.UTC),
    )

    def state() -> list[tuple[str, str, str]]:
        return [(each.rule.name, each.object, each.state) for each in Alert.objects.select_related("rule")]

    answer_of(as_operator, "stop-producers/", **HOST, **WEB, reason="poison")
    until(lambda: (link().broker or {}).get("stops"))
    stopped_at = link().broker["stops"][0]["since"]  # type: ignore[index]
    evaluator.poll()
    assert state() == [("Forgotten stop", HOST["scope"], "pending")]
    found = answer_of(as_operator, "alerts/rules/preview/", kinds=["stopped"])
    assert [each["object"] for each in found["objects"]] == [HOST["scope"]]
    Alert.objects.all().delete()
    seconds = 4 * 3600 + 10.0  # the broker knows since when, an evaluator that has just started does not
    evaluator.poll()
    assert state() == [("Forgotten stop", HOST["scope"], "firing")]
    assert Alert.objects.get().saw == (
        "Producers of clients are stopped: user ann, container web in virtualhost default: poison (olga)."
    )
    answer_of(as_operator, "start-producers/", **HOST, **WEB, reason="undo", only=True)
    until(lambda: not (link().broker or {}).get("stops"))
    seconds += 60
    evaluator.poll()
    assert state() == [("Forgotten stop", HOST["scope"], "resolved")]
