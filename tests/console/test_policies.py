"""/api/v1/policies/: settings by scope, previews, the order of patterns, and reverting an audit row."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.audit.models import AuditEntry
from console.operations import is_revertible
from tests.console.conftest import Broker, until
from tests.console.test_api import patch, post

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")
OBJECTS = "/api/v1/brokers/local/objects/"
PREVIEW = "/api/v1/policies/preview/"
ORDER = "/api/v1/policies/order/"


def pattern(text: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=text)


def path(name: ObjectName) -> str:
    return f"{OBJECTS}{quote(str(name), safe='')}/"


@pytest.fixture(autouse=True)
def _with_orders(broker: Broker) -> None:
    broker.memory.management.create(ORDERS, {"capacity_messages": 100})
    broker.memory.fill("orders", 10)
    broker.connected()


def read(broker: Broker, name: ObjectName) -> Any:
    return broker.do(lambda memory: memory.management.read(name))


def create(broker: Broker, text: str, **attributes: Any) -> None:
    broker.do(lambda memory: memory.management.create(pattern(text), attributes))


# -- settings -------------------------------------------------------------------------------------------------------


def test_every_scope_is_listed_with_its_settings(broker: Broker, as_viewer: APIClient) -> None:
    for text, given in ((">", {"capacity_messages": 5}), ("orders.*", {"priority": 3}), ("orders.eu", {})):
        create(broker, text, **given)
    broker.do(
        lambda memory: memory.management.create(
            object_name("Exchange", virtualhost="default", name="stocks"),
            {"exchange_type": "topic", "overflow": "ring"},
        )
    )
    until(lambda: broker.link.queue(ORDERS) is not None)
    policies = as_viewer.get("/api/v1/policies/").json()
    (host,) = policies["virtualhosts"]
    assert [(p["pattern"], p["set"]) for p in host["patterns"]] == [
        ("orders.eu", {}),
        ("orders.*", {"priority": 3}),
        (">", {"capacity_messages": 5}),
    ]
    assert [(e["name"], e["set"]) for e in host["exchanges"]] == [("stocks", {"overflow": "ring"})]
    assert [(q["name"], q["set"]) for q in policies["queues"]["results"]] == [("orders", {"capacity_messages": 100})]
    assert as_viewer.get("/api/v1/policies/?search=nothing").json()["queues"]["count"] == 0


# -- previews -------------------------------------------------------------------------------------------------------


def test_preview_by_a_viewer_changes_and_audits_nothing(broker: Broker, as_viewer: APIClient) -> None:
    change = {"object": str(ORDERS), "attributes": {"capacity_messages": 5}, "version": 1}
    answer = post(as_viewer, PREVIEW, changes=[change])
    assert answer.status_code == 200
    impact = answer.json()
    assert (impact["overfull"], impact["blocked"], impact["unblocked"], impact["underfull"]) == (1, 1, 0, 0)
    deprecated = (impact["held"], impact["freed"], impact["released"])
    assert deprecated == (impact["blocked"], impact["unblocked"], impact["underfull"])
    assert read(broker, ORDERS)["state"] == "NORMAL"
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"changes": []}, 400, "changes"),
        ({"changes": "all"}, 400, "changes"),
        ({"changes": [5]}, 400, "changes"),
        ({"changes": [{"attributes": {}}]}, 400, "object"),
        ({"changes": [{"object": "x"}]}, 400, "object"),
        ({"changes": [{"object": str(ORDERS), "action": "explode"}]}, 400, "action"),
        ({"changes": [{"object": str(ORDERS), "version": "1"}]}, 400, "version"),
        ({"changes": [{"object": str(ORDERS), "attributes": {"colour": "red"}}]}, 400, "colour"),
        ({"changes": [{"object": str(ORDERS)}], "largest": "all"}, 400, "largest"),
        ({"changes": [{"object": str(ORDERS), "version": 99}]}, 409, "detail"),
        ({"changes": [{"object": str(pattern("nowhere"))}]}, 404, "detail"),
    ],
    ids=str,
)
def test_invalid_preview_is_refused_with_the_wrong_field(
    as_operator: APIClient, body: dict[str, Any], status: int, field: str
) -> None:
    answer = post(as_operator, PREVIEW, **body)
    assert (answer.status_code, field in answer.json()) == (status, True), answer.json()


# -- the order of patterns --------------------------------------------------------------------------------------------


def order_of(client: APIClient) -> list[str]:
    return [p["pattern"] for p in client.get("/api/v1/policies/").json()["virtualhosts"][0]["patterns"]]


def test_patterns_of_equal_rank_are_reordered_by_priority(broker: Broker, as_operator: APIClient) -> None:
    for text in ("orders", "*.a", "*.b", "*.c"):
        create(broker, text)
    assert order_of(as_operator) == ["orders", "*.c", "*.b", "*.a"]
    wanted = ["orders", "*.a", "*.c", "*.b"]
    dry = post(as_operator, ORDER, virtualhost="default", patterns=wanted, dry_run=True).json()
    assert [each["attributes"] for each in dry["changes"]] == [{"priority": 1}]
    assert dry["preview"]["changed"] == 0
    assert order_of(as_operator) == ["orders", "*.c", "*.b", "*.a"]
    done = post(as_operator, ORDER, virtualhost="default", patterns=wanted, reason="a first").json()
    assert [each["outcome"] for each in done["applied"]] == ["done"]
    assert order_of(as_operator) == wanted
    assert AuditEntry.objects.get().reason == "a first"
    assert post(as_operator, ORDER, virtualhost="default", patterns=wanted).json()["changes"] == []


def test_order_that_no_priorities_achieve_is_refused(broker: Broker, as_operator: APIClient) -> None:
    for text in ("orders", "*"):
        create(broker, text)
    answer = post(as_operator, ORDER, virtualhost="default", patterns=["*", "orders"])
    assert answer.status_code == 400
    assert "longer literal prefix" in answer.json()["patterns"][0]
    for patterns in (["orders"], ["orders", "orders", "*"], "orders", [1]):
        assert post(as_operator, ORDER, virtualhost="default", patterns=patterns).status_code == 400
    assert post(as_operator, ORDER, virtualhost="nowhere", patterns=[]).status_code == 400


def test_viewer_cannot_change_the_order(broker: Broker, as_viewer: APIClient) -> None:
    for text in ("*.a", "*.b"):
        create(broker, text)
    answer = post(as_viewer, ORDER, virtualhost="default", patterns=["*.a", "*.b"])
    assert answer.status_code == 403
    assert order_of(as_viewer) == ["*.b", "*.a"]
    assert AuditEntry.objects.get().outcome == "refused"


# -- reverting --------------------------------------------------------------------------------------------------------


def revert_path(entry: AuditEntry) -> str:
    return f"/api/v1/audit/{entry.pk}/revert/"


def test_update_is_reverted_from_its_audit_row_and_so_is_the_revert(broker: Broker, as_operator: APIClient) -> None:
    patch(as_operator, path(ORDERS), version=1, attributes={"capacity_messages": 5}, reason="less")
    entry = AuditEntry.objects.get()
    proposed = as_operator.get(revert_path(entry)).json()
    assert proposed["change"]["attributes"] == {"capacity_messages": 100}
    assert proposed["change"]["was"] == {"capacity_messages": 5}
    assert (proposed["preview"]["underfull"], proposed["preview"]["unblocked"]) == (1, 1)
    answer = post(as_operator, revert_path(entry), reason="sorry", version=proposed["change"]["version"])
    assert answer.status_code == 200, answer.json()
    assert read(broker, ORDERS)["capacity_messages"] == 100
    back = AuditEntry.objects.first()
    assert back is not None
    assert (back.operation, back.reason) == ("update", f"revert of audit row {entry.pk}: sorry")
    assert post(as_operator, revert_path(back)).status_code == 200
    assert read(broker, ORDERS)["capacity_messages"] == 5


def test_reverting_the_creation_and_the_deletion_of_a_policy(broker: Broker, as_operator: APIClient) -> None:
    name = pattern("orders.>")
    post(as_operator, OBJECTS, object=str(name), attributes={"capacity_messages": 5, "priority": 2})
    created = AuditEntry.objects.get()
    assert post(as_operator, revert_path(created)).status_code == 200
    assert as_operator.get(path(name)).status_code == 404
    removed = AuditEntry.objects.first()
    assert removed is not None
    assert removed.operation == "delete"
    assert post(as_operator, revert_path(removed)).status_code == 200
    now = read(broker, name)
    assert (now["capacity_messages"], now["priority"]) == (5, 2)


def test_revert_is_refused_if_the_values_have_been_changed_again(broker: Broker, as_operator: APIClient) -> None:
    patch(as_operator, path(ORDERS), version=1, attributes={"capacity_messages": 50})
    entry = AuditEntry.objects.get()
    patch(as_operator, path(ORDERS), version=2, attributes={"capacity_messages": 60})
    for answer in (as_operator.get(revert_path(entry)), post(as_operator, revert_path(entry))):
        assert answer.status_code == 400
        assert "changed again, from 50 to 60" in str(answer.json())
    assert read(broker, ORDERS)["capacity_messages"] == 60


def test_revert_is_refused_if_the_version_has_changed(broker: Broker, as_operator: APIClient) -> None:
    patch(as_operator, path(ORDERS), version=1, attributes={"capacity_messages": 50})
    entry = AuditEntry.objects.get()
    assert post(as_operator, revert_path(entry), version=1).status_code == 409
    assert post(as_operator, revert_path(entry), version="2").status_code == 400


def test_viewer_can_preview_a_revert_but_not_apply_it(
    broker: Broker, as_operator: APIClient, as_viewer: APIClient
) -> None:
    patch(as_operator, path(ORDERS), version=1, attributes={"capacity_messages": 50})
    entry = AuditEntry.objects.get()
    assert as_viewer.get(revert_path(entry)).status_code == 200
    assert post(as_viewer, revert_path(entry)).status_code == 403
    assert read(broker, ORDERS)["capacity_messages"] == 50


def test_revert_of_an_operation_is_refused(as_operator: APIClient) -> None:
    post(as_operator, f"{path(ORDERS)}operations/purge/", arguments={})
    entry = AuditEntry.objects.get()
    assert not is_revertible(entry)
    answer = as_operator.get(revert_path(entry))
    assert (answer.status_code, "cannot be reverted" in str(answer.json())) == (400, True)
    assert as_operator.get("/api/v1/audit/999/revert/").status_code == 404
