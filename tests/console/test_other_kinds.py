"""Pages and calls at a broker of another kind follow its model: what it lacks is not offered, and no error."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.model import object_name
from console.access.models import RoleGrant
from console.live.watching import Watch, data_text
from console.schedules import execution
from console.schedules.models import Schedule
from tests.console.conftest import Broker
from tests.console.other_kind import OtherKind

ORDERS = object_name("Queue", virtualhost="default", name="orders")
BULK = {"selection": {"objects": [str(ORDERS)]}}


@pytest.fixture
def other(broker: Broker) -> Broker:
    """A broker of another kind with a queue that is overfull."""
    broker.wrap = OtherKind
    broker.connected()
    producer = broker.do(lambda memory: memory.attach_producer("orders"))
    broker.do(lambda memory: memory.attach_consumer("orders"))
    broker.do(lambda memory: memory.publish(producer, 5, 100))
    broker.sample_until(lambda: broker.link.queue(ORDERS))
    return broker


@pytest.fixture
def api(other: Broker, db: None) -> APIClient:
    user = User.objects.create_user("ada")
    user.groups.add(Group.objects.get(name="administrators"))
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.fixture
def pages(other: Broker, db: None) -> Client:
    user = User.objects.create_user("ben")
    user.groups.add(Group.objects.get(name="administrators"))
    client = Client()
    client.force_login(user)
    return client


def settings_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="page-settings" type="application/json">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1]))


async def test_queue_without_reported_links_is_shown(other: Broker) -> None:
    text, _ = await data_text(other.link, Watch("queue", ORDERS))
    shown = json.loads(text)
    assert shown["queue"]["depth_messages"] == 5
    assert [shown[each] for each in ("producers", "producers_total", "consumers", "explain")] == [None] * 4
    assert shown["queue"]["credit"] is shown["queue"]["blocked_producers"] is None


def test_queue_page_gets_the_fields_and_attributes_of_this_kind(pages: Client) -> None:
    settings = settings_of(pages.get("/queues/default/orders/").content.decode())
    assert {field["name"] for field in settings["policy"] if field["writable"]} == {
        "capacity_messages", "capacity_bytes", "overflow",
    }  # fmt: skip
    assert not {"credit", "parked_messages", "producers"} & set(settings["attributes"])
    assert (settings["explains"], settings["editable"]) == (False, True)


def test_policy_pages_offer_the_scopes_of_this_kind(pages: Client) -> None:
    settings = settings_of(pages.get("/policies/").content.decode())
    assert (settings["scopes"], settings["creatable"]) == (["Policy", "Queue"], True)
    scope = settings_of(pages.get(f"/policies/scope/?object={ORDERS}").content.decode())
    assert [field["name"] for field in scope["policy"]] == ["capacity_bytes", "capacity_messages", "overflow"]
    new = settings_of(pages.get("/policies/scope/?new=default").content.decode())
    assert "regular expression" in new["patternHint"]
    assert pages.get("/policies/scope/?object=type%3DBroker").status_code == 404


def test_pages_of_the_history_enter_only_fields_of_the_broker_of_a_recommendation(pages: Client) -> None:
    settings = settings_of(pages.get("/history/advice/").content.decode())
    assert settings["policyFields"] == {"local": ["capacity_bytes", "capacity_messages", "overflow"]}


def test_change_without_a_preview_says_so_and_can_be_made(api: APIClient, other: Broker) -> None:
    change = {"object": str(ORDERS), "attributes": {"capacity_messages": 3}}
    preview = api.post("/api/v1/policies/preview/", {"changes": [change]}, format="json")
    assert preview.status_code == 200
    assert "cannot preview" in preview.json()["unavailable"]
    assert preview.json()["changed"] is preview.json()["blocked"] is None
    version = other.link.call(lambda admin: admin.read(ORDERS)).version
    body = {"version": version, "attributes": {"capacity_messages": 3}}
    assert api.patch(f"/api/v1/brokers/local/objects/{ORDERS}/", body, format="json").status_code == 200
    checked = api.post("/api/v1/queues/default/orders/check/", {"capacity_messages": 4}, format="json")
    assert (checked.status_code, checked.json()) == (200, {"effective": {}})


@pytest.mark.parametrize("field", ["flow_stop_messages", "maximum_deliveries"])
def test_field_that_this_kind_lacks_is_refused_before_anything_starts(api: APIClient, field: str) -> None:
    bulk = api.post("/api/v1/policies/bulk/", {**BULK, "attributes": {field: 3}}, format="json")
    assert (bulk.status_code, bulk.json()) == (400, {field: [f"{field} cannot be set here"]})
    preview = api.post("/api/v1/policies/bulk/preview/", {**BULK, "attributes": {field: 3}}, format="json")
    assert preview.status_code == 400
    check = api.post("/api/v1/queues/default/orders/check/", {field: 3}, format="json")
    assert (check.status_code, list(check.json())) == (400, [field])
    assert api.get("/api/v1/policies/bulk/").json()["count"] == 0


def test_bulk_edit_of_fields_that_this_kind_has_begins(api: APIClient) -> None:
    begun = api.post("/api/v1/policies/bulk/", {**BULK, "attributes": {"capacity_messages": 3}}, format="json")
    assert begun.status_code == 201


SCHEDULE = {"name": "night", "broker": "local", "action": "stop", "target": "type=Broker", "zone": "UTC", "lasts": 60}


def test_schedule_of_a_stop_names_the_effect_that_it_has_here(api: APIClient) -> None:
    refused = api.post("/api/v1/schedules/", SCHEDULE, format="json")
    assert (refused.status_code, refused.json()["effect"]) == (409, "reject")
    assert "refused" in refused.json()["detail"]
    assert api.post("/api/v1/schedules/", {**SCHEDULE, "effect": "cut"}, format="json").status_code == 409
    created = api.post("/api/v1/schedules/", {**SCHEDULE, "effect": "reject"}, format="json")
    assert (created.status_code, created.json()["effect"]) == (201, "reject")
    changed = {"version": created.json()["version"], "effect": "hold"}
    assert api.patch(f"/api/v1/schedules/{created.json()['id']}/", changed, format="json").status_code == 409
    start = api.post("/api/v1/schedules/", {**SCHEDULE, "name": "day", "action": "start", "lasts": 0}, format="json")
    assert (start.status_code, start.json()["effect"]) == (201, "")


def test_schedule_is_not_saved_before_the_effect_at_its_broker_is_known(broker: Broker, db: None) -> None:
    broker.memory.disconnect()
    user = User.objects.create_user("cy")
    user.groups.add(Group.objects.get(name="administrators"))
    client = APIClient()
    client.force_authenticate(user)
    refused = client.post("/api/v1/schedules/", SCHEDULE, format="json")
    assert refused.status_code == 503
    assert client.get("/api/v1/schedules/").json() == []


def test_schedule_of_what_this_kind_lacks_is_refused(api: APIClient) -> None:
    exchange = {**SCHEDULE, "target": "type=Exchange,virtualhost=default,name=stocks"}
    refused = api.post("/api/v1/schedules/", exchange, format="json")
    assert (refused.status_code, list(refused.json())) == (400, ["target"])
    fields = {**SCHEDULE, "action": "policy", "target": str(ORDERS), "attributes": {"maximum_deliveries": 3}}
    refused = api.post("/api/v1/schedules/", fields, format="json")
    assert (refused.status_code, list(refused.json())) == (400, ["maximum_deliveries"])


def test_scheduled_stop_is_made_with_its_effect_and_reverted(api: APIClient, other: Broker) -> None:
    created = api.post("/api/v1/schedules/", {**SCHEDULE, "effect": "reject"}, format="json").json()
    Schedule.objects.filter(pk=created["id"]).update(next=timezone.now())
    execution.create_due_runs(timezone.now())
    (number,) = execution.due_runs(timezone.now())
    assert execution.execute(number) == "stopped producers of 1 queue"
    stops = other.link.call(lambda admin: admin.read(object_name("Broker")))["stops"]
    assert [stop["actor"] for stop in stops] == ["ada"]
    ended = api.post(f"/api/v1/schedules/runs/{number}/end/", format="json")
    assert (ended.status_code, ended.json()["state"], ended.json()["effect"]) == (200, "done", "reject")
    assert other.link.call(lambda admin: admin.read(object_name("Broker")))["stops"] in (None, [], ())


@pytest.mark.parametrize("path", ["/", "/history/", "/history/incident/", "/history/advice/", "/history/status/"])
def test_user_of_a_broker_that_is_not_the_first_opens_pages_without_naming_it(
    other: Broker, settings: Any, db: None, path: str
) -> None:
    (first,) = settings.HEADGATE_BROKERS
    settings.HEADGATE_BROKERS = [{**first, "slug": "another", "title": "Another"}, first]
    user = User.objects.create_user("eve")
    RoleGrant.objects.create(user=user, role="operator", broker="local", virtualhost="default")
    client = Client()
    client.force_login(user)
    page = client.get(path)
    assert page.status_code == 200
    assert settings_of(page.content.decode())["broker"] == "local"


def test_file_has_what_can_be_set_and_can_be_applied_again(pages: Client, api: APIClient, other: Broker) -> None:
    pattern = object_name("Policy", virtualhost="default", pattern="orders.*")
    created = {"object": str(pattern), "attributes": {"capacity_messages": 9}}
    assert api.post("/api/v1/brokers/local/objects/", created, format="json").status_code == 201
    text = pages.get("/policies/export.yaml").content.decode()
    assert "orders.*" in text
    compared = api.post("/api/v1/policies/file/", {"yaml": text, "dry_run": True}, format="json")
    assert (compared.status_code, compared.json()["changes"]) == (200, [])
    regular = text.replace("orders.*", "^ord(ers|s).*")
    compared = api.post("/api/v1/policies/file/", {"yaml": regular, "dry_run": True}, format="json")
    assert [change["action"] for change in compared.json()["changes"]] == ["create"]
    foreign = text.replace("capacity_messages", "maximum_deliveries")
    compared = api.post("/api/v1/policies/file/", {"yaml": foreign, "dry_run": True}, format="json")
    assert "maximum_deliveries cannot be set" in json.dumps(compared.json())
