"""Templates of rules, and previews: the objects that meet a condition now, as their user may see them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.model import object_name
from console.alerts import editing
from console.alerts.messages import titles
from console.alerts.models import Alert, ConsumedQueue, Rule
from console.alerts.preview import MAX_OBJECTS
from console.alerts.templates import TEMPLATES
from console.audit.models import AuditEntry
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import HOST_OPTIONS, person
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

API = "/api/v1/alerts/"


def queue(name: str, virtualhost: str = "default") -> Any:
    return object_name("Queue", virtualhost=virtualhost, name=name)


def preview(client: APIClient, *kinds: str, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{API}rules/preview/", {"kinds": list(kinds), **more}, format="json")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def filled(broker: Broker) -> Broker:
    """Queues of 6 messages: orders and bills with a capacity of 5, and free without."""
    for name in ("orders", "bills"):
        broker.memory.management.create(queue(name), {"capacity_messages": 5})
    for name in ("orders", "bills", "free"):
        broker.memory.fill(name, 6)
    link = broker.connected()
    until(lambda: all((link.queue(str(queue(each))) or {}).get("depth_messages") == 6 for each in ("orders", "free")))
    return broker


def test_preview_lists_what_meets_a_condition_and_creates_nothing(filled: Broker, as_viewer: APIClient) -> None:
    found = preview(as_viewer, "depth-above", "depth-above-percent", depth=5, depth_percent=80)
    assert [(each["name"], each["kind"]) for each in found["objects"]] == [
        ("default/bills", "depth-above"),
        ("default/free", "depth-above"),
        ("default/orders", "depth-above"),
        ("default/bills", "depth-above-percent"),
        ("default/orders", "depth-above-percent"),
    ]
    assert (found["count"], found["unknown"], found["remarks"]) == (5, [], [])
    assert preview(as_viewer, "depth-above", depth=5, pattern="bills")["count"] == 1
    assert preview(as_viewer, "depth-above", depth=6)["count"] == 0
    assert not Rule.objects.exists()
    assert not Alert.objects.exists()
    assert not AuditEntry.objects.exists()


def test_preview_lists_at_most_some_and_counts_all(broker: Broker, as_viewer: APIClient) -> None:
    for number in range(MAX_OBJECTS + 5):
        broker.memory.fill(f"q.{number}", 1)
    link = broker.connected()
    until(lambda: sum((row["depth_messages"] or 0) > 0 for row in link.queues()) == MAX_OBJECTS + 5)
    found = preview(as_viewer, "depth-above", depth=0)
    assert (found["count"], len(found["objects"])) == (MAX_OBJECTS + 5, MAX_OBJECTS)


def test_unreachable_broker_is_met_or_unknown_and_never_nothing(filled: Broker, as_viewer: APIClient) -> None:
    filled.lose()
    found = preview(as_viewer, "broker-unreachable", "depth-above")
    assert [each["kind"] for each in found["objects"]] == ["broker-unreachable"]
    assert found["unknown"][0]["why"].startswith("Local broker cannot be reached")
    assert preview(as_viewer, "broker-unreachable")["unknown"] == []


def test_history_that_is_not_recorded_is_met(
    filled: Broker, as_viewer: APIClient, settings: Any, tmp_path: Any
) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path)
    (met,) = preview(as_viewer, "history-not-recording")["objects"]
    assert met["saw"] == "No recorder has recorded this broker."
    folder = tmp_path / "recorder" / "local"
    folder.mkdir(parents=True)
    (folder / "published.json").write_text("{}")
    assert preview(as_viewer, "history-not-recording")["count"] == 0


def test_what_a_preview_cannot_know_is_said(filled: Broker, as_viewer: APIClient) -> None:
    assert preview(as_viewer, "consumers-lost")["remarks"] == [
        "Which queues have consumers is recorded from the creation of the rule on."
    ]
    Rule.objects.create(name="lost", kinds=["consumers-lost"])
    ConsumedQueue.objects.create(broker="local", object=str(queue("orders")))
    found = preview(as_viewer, "consumers-lost")
    assert ([each["name"] for each in found["objects"]], found["remarks"]) == (["default/orders"], [])
    assert preview(as_viewer, "queue-overfull")["remarks"] == ["Events are notified when they happen."]


def test_user_of_one_virtual_host_previews_and_creates_rules_for_it_alone(filled: Broker) -> None:
    link = filled.connected()
    link.call(lambda admin: admin.create(object_name("VirtualHost", name="blue"), HOST_OPTIONS))
    filled.do(lambda memory: memory.fill("secret", 6, virtualhost="blue"))
    until(lambda: (link.queue(str(queue("secret", "blue"))) or {}).get("depth_messages") == 6)
    client = signed_in(person("nils", Grant(Role.OPERATOR, "local", "default")))
    found = preview(client, "depth-above", depth=0)
    assert found["count"] == 3
    assert "secret" not in str(found)
    wide = client.post(f"{API}rules/", {"name": "a", "kinds": ["depth-above"]}, format="json")
    assert wide.status_code == 403
    mine = {"name": "a", "kinds": ["depth-above"], "broker": "local", "virtualhost": "default"}
    assert client.post(f"{API}rules/", mine, format="json").status_code == 201


@pytest.mark.parametrize("given", [{"kinds": []}, {"kinds": ["no"]}, {"kinds": ["stopped"], "pattern": "a..b"}, {}])
def test_invalid_preview_is_refused(filled: Broker, as_viewer: APIClient, given: dict[str, Any]) -> None:
    assert as_viewer.post(f"{API}rules/preview/", given, format="json").status_code == 400


def test_each_template_is_a_rule_that_can_be_created_and_previewed(filled: Broker, as_operator: APIClient) -> None:
    listed = as_operator.get(f"{API}templates/").json()
    assert [each["id"] for each in listed] == [each.identifier for each in TEMPLATES]
    for each in listed:
        assert set(each["rule"]["kinds"]) <= titles().keys()
        made = as_operator.post(f"{API}rules/", each["rule"], format="json")
        assert made.status_code == 201, made.content
        conditions = {k: v for k, v in each["rule"].items() if k not in ("name", "enabled", "send_resolved")}
        assert as_operator.post(f"{API}rules/preview/", conditions, format="json").status_code == 200
    assert Rule.objects.count() == len(TEMPLATES)
    stop = Rule.objects.get(name="Forgotten stop")
    assert (stop.kinds, stop.holds) == (["stopped"], 4 * 3600)


def test_preview_of_a_rule_agrees_with_what_its_evaluation_finds(filled: Broker, as_viewer: APIClient) -> None:
    """The oracle is the evaluator."""
    from console.alerts.evaluator import Evaluator

    kinds = ["overfull", "producers-blocked", "depth-above-percent", "dead-letters", "stopped"]
    filled.connected().call(
        lambda admin: admin.call(queue("free"), "stop-producers", {"reason": "why", "actor": "ada"})
    )
    until(lambda: (filled.link.queue(str(queue("free"))) or {}).get("state") == "STOPPED")
    Rule.objects.create(name="all", kinds=kinds)
    Evaluator(lambda: [filled.link], lambda number: None, now=lambda: timezone.now() + dt.timedelta(days=1)).poll()
    found = preview(as_viewer, *kinds)
    assert {(each["object"], each["kind"]) for each in found["objects"]} == set(
        Alert.objects.values_list("object", "kind")
    )
    assert found["count"] >= 5
    assert editing.RULE["depth_percent"] == 80
