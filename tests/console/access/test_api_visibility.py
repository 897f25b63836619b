"""Isolation of virtual hosts in the API: a user with roles for one virtual host learns and changes nothing of another.

The probes cover every route; a test fails for a route without a probe.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError
from rest_framework.test import APIClient

from brokers.model import object_name
from console.access.models import RoleGrant
from console.alerts.models import AllowedNetwork, Delivery, Receiver, Rule, Silence
from console.api.urls import urlpatterns as api_patterns
from console.audit.models import AuditEntry
from console.bulk.models import BulkEdit, BulkEditRow
from console.links.link import BrokerLink
from console.links.visibility import RestrictedLink
from console.messages.models import MessageJob
from console.permissions.rights import Grant, Role
from console.schedules.models import Run, Schedule
from console.selections.models import SavedSelection
from tests.console.access.conftest import HIDDEN, HOST_OPTIONS, ORDERS, RANGE, SECRET, V1, of, person, routes
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

NAMES = {"object": str(HIDDEN), "broker": "local"}
LIMITS = {"capacity_messages": 1}
SELECTION = {"selection": {"pattern": ""}, "attributes": LIMITS}
AIM = {"scope": "type=Broker", "queues": [str(HIDDEN)]}
CHANGES = {"changes": [{"object": str(HIDDEN), "attributes": LIMITS}]}
MESSAGES = {"object": str(HIDDEN), "match": {}}
NAMED = {"object": str(HIDDEN), "ids": ["1"]}
MOVE = {**MESSAGES, "to": "others"}
FOREIGN = {"slug": "rabbit", "kind": "rabbitmq", "url": "http://127.0.0.1:15672", "username": "a", "password": "b"}
CANDIDATE = {"virtualhost": "blue", "queue": HIDDEN["name"], "candidates": [LIMITS]}

#: Readable calls by route: method, path below it, body. `{job}` and `{row}`: the hidden ones.
READS: dict[str, list[tuple[str, str, Any]]] = {
    "schema/": [("get", "/api/schema/?format=json", None)],
    "v1/brokers/": [("get", "brokers/", None)],
    "v1/brokers/kinds/": [("get", "brokers/kinds/", None)],
    "v1/brokers/<slug:slug>/": [("get", "brokers/local/", None)],
    "v1/brokers/<slug:slug>/types/": [("get", "brokers/local/types/", None)],
    "v1/brokers/<slug:slug>/objects/": [
        ("get", f"brokers/local/objects/?type={name}", None)
        for name in (
            "Broker",
            "VirtualHost",
            "Queue",
            "Policy",
            "Exchange",
            "Connection",
            "Producer",
            "Consumer",
            "User",
        )
    ]
    + [("get", "brokers/local/objects/?type=Queue&virtualhost=blue", None)],
    "v1/brokers/<slug:slug>/objects/<object:name>/operations/<slug:operation>/": [
        ("post", f"brokers/local/objects/{of(HIDDEN)}/operations/explain/", {"arguments": {}}),
        ("post", "brokers/local/objects/type%3DBroker/operations/preview-change/", {"arguments": CHANGES}),
    ],
    "v1/brokers/<slug:slug>/objects/<object:name>/": [
        ("get", f"brokers/local/objects/{of(HIDDEN)}/", None),
        ("get", "brokers/local/objects/type%3DBroker/", None),
        ("get", "brokers/local/objects/type%3DVirtualHost%2Cname%3Dblue/", None),
    ],
    "v1/queues/": [
        ("get", "queues/", None),
        ("get", "queues/?virtualhost=blue", None),
        ("get", "queues/?search=h", None),
    ],
    "v1/queues/groups/": [("get", "queues/groups/?by=prefix&sort=-depth_messages", None)],
    "v1/queues/<host:virtualhost>/<queue:name>/check/": [("post", f"queues/blue/{HIDDEN['name']}/check/", LIMITS)],
    "v1/queues/<host:virtualhost>/<queue:name>/": [("get", f"queues/blue/{HIDDEN['name']}/", None)],
    "v1/messages/": [("get", f"messages/?object={of(HIDDEN)}", None)],
    "v1/messages/summary/": [("get", f"messages/summary/?object={of(HIDDEN)}", None)],
    "v1/messages/<str:identifier>/": [("get", f"messages/1/?object={of(HIDDEN)}", None)],
    "v1/messages/<str:identifier>/body/": [("get", f"messages/1/body/?object={of(HIDDEN)}", None)],
    "v1/messages/move/": [("post", "messages/move/", {**MOVE, "preview": True})],
    "v1/message-jobs/": [("get", "message-jobs/", None), ("get", f"message-jobs/?object={of(HIDDEN)}", None)],
    "v1/message-jobs/<int:number>/": [("get", "message-jobs/{message_job}/", None)],
    "v1/dead-letters/": [("get", "dead-letters/", None)],
    "v1/producers/": [("get", "producers/", None)],
    "v1/conditions/": [("get", "conditions/", None)],
    "v1/fleet/": [("get", "fleet/", None), ("get", "fleet/?broker=local", None)],
    "v1/fleet/queues/": [
        ("get", "fleet/queues/", None),
        ("get", "fleet/queues/?search=h", None),
        ("get", "fleet/queues/?sort=-depth_messages&state=OVERFULL_STOPPED&state=STOPPED", None),
    ],
    "v1/fleet/queues/groups/": [("get", "fleet/queues/groups/?by=prefix&sort=-rate_in", None)],
    "v1/fleet/conditions/": [("get", "fleet/conditions/", None), ("get", "fleet/conditions/?sort=newest", None)],
    "v1/fleet/events/": [("get", "fleet/events/?count=500", None)],
    "v1/selections/": [("get", "selections/", None)],
    "v1/selections/<int:number>/": [("get", "selections/{selection}/", None)],
    "v1/timeline/": [("get", "timeline/", None), ("get", "timeline/?after_event=0&after_audit=0", None)],
    "v1/timeline/download/": [("get", f"timeline/download/?as={kind}", None) for kind in ("csv", "json")],
    "v1/why/": [("get", f"why/?object={of(HIDDEN)}", None)],
    "v1/events/": [("get", "events/", None), ("get", "events/?after=0", None)],
    "v1/stop-producers/preview/": [
        ("post", "stop-producers/preview/", {"scope": "type=Broker"}),
        ("post", "stop-producers/preview/", {"scope": "type=Broker", "brokers": ["*"]}),
        ("post", "stop-producers/preview/", AIM),
        ("post", "stop-producers/preview/", {"scope": "type=Broker", "match": {"search": "", "states": []}}),
    ],
    "v1/stop-producers/progress/": [("post", "stop-producers/progress/", AIM)],
    "v1/policies/": [("get", "policies/", None)],
    "v1/policies/preview/": [("post", "policies/preview/", CHANGES)],
    "v1/policies/file/": [
        ("get", "policies/file/", None),
        ("post", "policies/file/", {"dry_run": True, "prune": True, "yaml": "version: 1"}),
    ],
    "v1/policies/bulk/": [("get", "policies/bulk/", None)],
    "v1/policies/bulk/preview/": [("post", "policies/bulk/preview/", SELECTION)],
    "v1/policies/bulk/<int:number>/": [("get", "policies/bulk/{job}/", None)],
    "v1/policies/bulk/<int:number>/rows/": [("get", "policies/bulk/{job}/rows/", None)],
    "v1/policies/bulk/<int:number>/undo/": [("get", "policies/bulk/{job}/undo/", None)],
    "v1/audit/": [
        ("get", "audit/", None),
        ("get", "audit/?broker=local", None),
        ("get", f"audit/?object={of(HIDDEN)}", None),
    ],
    "v1/audit/file/": [("get", f"audit/file/?as={kind}", None) for kind in ("csv", "json")],
    "v1/audit/<int:number>/revert/": [("get", "audit/{row}/revert/", None)],
    "v1/alerts/": [("get", "alerts/", None)],
    "v1/alerts/kinds/": [("get", "alerts/kinds/", None)],
    "v1/alerts/templates/": [("get", "alerts/templates/", None)],
    "v1/alerts/rules/": [("get", "alerts/rules/", None)],
    "v1/alerts/rules/preview/": [
        ("post", "alerts/rules/preview/", {"kinds": ["stopped", "overfull", "flapping", "dead-letters", "near-limit"]})
    ],
    "v1/alerts/rules/<int:number>/": [("get", "alerts/rules/{rule}/", None)],
    "v1/alerts/receivers/": [("get", "alerts/receivers/", None)],
    "v1/alerts/receivers/<int:number>/": [("get", "alerts/receivers/{receiver}/", None)],
    "v1/alerts/deliveries/<int:number>/": [("get", "alerts/deliveries/{delivery}/", None)],
    "v1/alerts/silences/": [("get", "alerts/silences/", None)],
    "v1/alerts/networks/": [("get", "alerts/networks/", None)],
    "v1/alerts/console-url/": [("get", "alerts/console-url/", None)],
    "v1/alerts/log/": [("get", "alerts/log/", None), ("get", "alerts/log/?rule={rule}&state=failed", None)],
    "v1/schedules/": [("get", "schedules/", None)],
    "v1/schedules/preview/": [("post", "schedules/preview/", {"zone": "UTC", "hour": "3"})],
    "v1/schedules/<int:number>/": [("get", "schedules/{schedule}/", None)],
    "v1/schedules/runs/": [("get", "schedules/runs/", None)],
    "v1/history/": [("get", "history/", None)],
    "v1/history/queues/": [("get", "history/queues/", None)],
    "v1/history/series/": [("get", f"history/series/?virtualhost=blue&queue={HIDDEN['name']}&{RANGE}", None)],
    "v1/history/top/": [
        ("get", f"history/top/?of={of}&{RANGE}", None) for of in ("queues", "producers", "virtualhosts")
    ],
    "v1/history/heat/": [("get", f"history/heat/?{RANGE}", None)],
    "v1/history/totals/": [
        ("get", f"history/totals/?{RANGE}", None),
        ("get", f"history/totals/?broker=local&{RANGE}", None),
    ],
    "v1/history/episodes/": [("get", f"history/episodes/?{RANGE}", None)],
    "v1/history/episodes/file/": [("get", f"history/episodes/file/?{RANGE}", None)],
    "v1/history/what-if/": [("post", "history/what-if/", CANDIDATE)],
    "v1/history/advice/": [("get", "history/advice/", None)],
    "v1/history/status/": [("get", "history/status/", None)],
    "v1/history/events/": [("get", f"history/events/?{RANGE}", None)],
    "v1/history/events/file/": [("get", f"history/events/file/?{RANGE}", None)],
}
REASON = {"reason": "test"}
NIGHT = {"name": "mine", "broker": "local", "action": "stop", "target": str(HIDDEN), "zone": "UTC", "hour": "4"}
#: Calls by route that change something in the hidden virtual host.
WRITES: dict[str, list[tuple[str, str, Any]]] = {
    "v1/brokers/": [("post", "brokers/", FOREIGN)],
    "v1/brokers/file/": [
        ("get", "brokers/file/", None),
        ("post", "brokers/file/", {"yaml": "version: 1", "prune": True}),
    ],
    "v1/brokers/test/": [("post", "brokers/test/", {"kind": "rabbitmq", "url": FOREIGN["url"]})],
    "v1/brokers/<slug:slug>/": [
        ("patch", "brokers/rabbit/", {"title": "Another"}),
        ("delete", "brokers/rabbit/", None),
    ],
    "v1/brokers/<slug:slug>/test/": [("post", "brokers/rabbit/test/", {})],
    "v1/brokers/<slug:slug>/objects/": [
        ("post", "brokers/local/objects/", {"object": "type=Queue,virtualhost=blue,name=another"})
    ],
    "v1/brokers/<slug:slug>/objects/<object:name>/operations/<slug:operation>/": [
        ("post", f"brokers/local/objects/{of(HIDDEN)}/operations/purge/", {"arguments": {}})
    ],
    "v1/brokers/<slug:slug>/objects/<object:name>/": [
        ("patch", f"brokers/local/objects/{of(HIDDEN)}/", {"version": 1, "attributes": LIMITS}),
        ("delete", f"brokers/local/objects/{of(HIDDEN)}/", None),
    ],
    "v1/queues/<host:virtualhost>/<queue:name>/": [
        ("patch", f"queues/blue/{HIDDEN['name']}/", {"version": 1, **LIMITS})
    ],
    "v1/messages/move/": [("post", "messages/move/", MOVE), ("post", "messages/move/", {**NAMED, "to": "others"})],
    "v1/messages/copy/": [("post", "messages/copy/", MOVE)],
    "v1/messages/retry/": [("post", "messages/retry/", MESSAGES)],
    "v1/messages/delete/": [("post", "messages/delete/", MESSAGES), ("post", "messages/delete/", NAMED)],
    "v1/messages/publish/": [("post", "messages/publish/", {"object": str(HIDDEN), "body": "x"})],
    "v1/message-jobs/<int:number>/interrupt/": [("post", "message-jobs/{message_job}/interrupt/", {})],
    "v1/message-jobs/<int:number>/resume/": [("post", "message-jobs/{message_job}/resume/", {})],
    "v1/stop-producers/": [
        ("post", "stop-producers/", {**AIM, **REASON}),
        ("post", "stop-producers/", {"scope": "type=Broker", "brokers": ["*"], **REASON}),
    ],
    "v1/start-producers/": [("post", "start-producers/", {"scope": "type=Broker", **REASON})],
    "v1/policies/file/": [
        ("post", "policies/file/", {"yaml": "version: 1\nvirtualhosts: {blue: {defaults: {capacity_messages: 9}}}"})
    ],
    "v1/policies/bulk/": [("post", "policies/bulk/", {**SELECTION, "selection": {"objects": [str(HIDDEN)]}})],
    "v1/policies/bulk/<int:number>/resume/": [("post", "policies/bulk/{job}/resume/", {})],
    "v1/policies/bulk/<int:number>/interrupt/": [("post", "policies/bulk/{job}/interrupt/", {})],
    "v1/policies/bulk/<int:number>/undo/": [("post", "policies/bulk/{job}/undo/", {})],
    "v1/policies/order/": [("post", "policies/order/", {"virtualhost": "blue", "patterns": [f"{SECRET}.>"]})],
    "v1/history/run/": [("post", "history/run/", {"work": "run", **REASON})],
    "v1/audit/<int:number>/revert/": [("post", "audit/{row}/revert/", {})],
    "v1/alerts/rules/": [
        ("post", "alerts/rules/", {"name": "mine", "kinds": ["flapping"]}),
        ("post", "alerts/rules/", {"name": "mine", "kinds": ["flapping"], "broker": "local", "virtualhost": "blue"}),
    ],
    "v1/alerts/rules/<int:number>/": [
        ("patch", "alerts/rules/{rule}/", {"version": 1, "virtualhost": "default"}),
        ("delete", "alerts/rules/{rule}/", None),
    ],
    "v1/alerts/receivers/": [("post", "alerts/receivers/", {"name": "mine", "kind": "webhook", "url": "https://a.b/"})],
    "v1/alerts/receivers/<int:number>/": [
        ("patch", "alerts/receivers/{receiver}/", {"version": 1, "url": "https://a.b/"}),
        ("delete", "alerts/receivers/{receiver}/", None),
    ],
    "v1/alerts/receivers/<int:number>/test/": [("post", "alerts/receivers/{receiver}/test/", {})],
    "v1/alerts/receivers/<int:number>/secret/": [("post", "alerts/receivers/{receiver}/secret/", {})],
    "v1/alerts/silences/": [
        ("post", "alerts/silences/", {"rule": None, "minutes": 5}),
        ("post", "alerts/silences/", {"broker": "local", "virtualhost": "blue", "minutes": 5}),
    ],
    "v1/alerts/silences/<int:number>/": [("delete", "alerts/silences/{silence}/", None)],
    "v1/alerts/networks/": [("post", "alerts/networks/", {"network": "10.1.0.0/16"})],
    "v1/alerts/networks/<int:number>/": [("delete", "alerts/networks/{network}/", None)],
    "v1/alerts/console-url/": [
        ("patch", "alerts/console-url/", {"url": "https://headgate.example.com"}),
        ("delete", "alerts/console-url/", None),
    ],
    "v1/alerts/deliveries/<int:number>/again/": [("post", "alerts/deliveries/{delivery}/again/", {})],
    "v1/schedules/": [("post", "schedules/", NIGHT)],
    "v1/schedules/<int:number>/": [
        ("patch", "schedules/{schedule}/", {"version": 1, "target": str(ORDERS)}),
        ("delete", "schedules/{schedule}/", None),
    ],
    "v1/schedules/<int:number>/pause/": [("post", "schedules/{schedule}/pause/", {})],
    "v1/schedules/<int:number>/go-on/": [("post", "schedules/{schedule}/go-on/", {})],
    "v1/schedules/runs/<int:number>/end/": [("post", "schedules/runs/{run}/end/", {})],
}
#: Probes whose response never contains a name.
WITHOUT = {
    "/api/schema/?format=json",
    "brokers/",
    "brokers/kinds/",
    "brokers/local/types/",
    "brokers/local/objects/?type=Connection",
    "brokers/local/objects/?type=Consumer",
    f"brokers/local/objects/{of(HIDDEN)}/operations/explain/",
    f"queues/blue/{HIDDEN['name']}/check/",
    "stop-producers/progress/",
    f"messages/summary/?object={of(HIDDEN)}",
    f"messages/1/?object={of(HIDDEN)}",
    f"messages/1/body/?object={of(HIDDEN)}",
    "messages/move/",
    "dead-letters/",
    "audit/{row}/revert/",  # its change has been undone since
    "conditions/",  # none is active yet
    "fleet/",
    "fleet/?broker=local",
    "fleet/conditions/",
    "fleet/conditions/?sort=newest",
    "history/",
    "history/what-if/",
    "history/status/",
    "history/advice/",  # not computed yet
    "alerts/console-url/",
    "alerts/deliveries/{delivery}/",
    "alerts/kinds/",
    "alerts/networks/",
    "alerts/templates/",
    "schedules/preview/",
    f"history/top/?of=virtualhosts&{RANGE}",
    f"history/totals/?{RANGE}",  # sums have no names
    f"history/totals/?broker=local&{RANGE}",
}
#: Objects of the user, available to every signed-in user.
OWN = {"v1/me/", "v1/preferences/"}
READ_PROBES = [probe for probes in READS.values() for probe in probes]
WRITE_PROBES = [probe for probes in WRITES.values() for probe in probes]


def ask(client: APIClient, probe: tuple[str, str, Any]) -> tuple[int, str]:
    method, path, body = probe
    path = path.replace("{job}", str(BulkEdit.objects.order_by("pk")[0].pk))
    path = path.replace("{message_job}", str(MessageJob.objects.get().pk))
    path = path.replace("{selection}", str(SavedSelection.objects.get().pk))
    for model in (Rule, Receiver, Silence, AllowedNetwork, Delivery, Schedule, Run):
        name = "network" if model is AllowedNetwork else model.__name__.lower()
        path = path.replace(f"{{{name}}}", str(model.objects.order_by("pk")[0].pk))  # type: ignore[attr-defined]
    path = path.replace("{row}", str(AuditEntry.objects.filter(operation="update").order_by("pk")[0].pk))
    path = path if path.startswith("/") else f"{V1}{path}"
    given = {} if body is None else {"data": body, "format": "json"}
    answer = getattr(client, method)(path, **given)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return answer.status_code, content.decode()


def test_probes_cover_every_route_of_the_api() -> None:
    assert set(routes(list(api_patterns))) == set(READS) | set(WRITES) | OWN


@pytest.mark.slow
def test_user_without_role_and_anonymous_user_are_refused_everywhere(without_role: APIClient) -> None:
    for probe in READ_PROBES + WRITE_PROBES:
        assert ask(without_role, probe)[0] == 403, probe
        assert ask(APIClient(), probe)[0] == 401, probe


def test_viewer_of_one_virtual_host_reads_nothing_of_another(narrow: APIClient) -> None:
    leaks = []
    for probe in READ_PROBES:
        status, text = ask(narrow, probe)
        assert status in (200, 400, 403, 404), (probe, text)
        request = f"{probe[1]} {json.dumps(probe[2])}"
        if SECRET in request and (status != 200 or "/series/" in request):
            # A name in the request may be repeated in an error or an empty result, and nowhere else.
            for name in (str(HIDDEN), HIDDEN["name"]):
                text = text.replace(name, "")
        if SECRET in text:
            at = text.find(SECRET)
            leaks.append(f"{probe[:2]} {status}: {text[max(0, at - 150) : at + 150]}")
    assert not leaks, "\n".join(leaks)


def test_all_roles_on_one_virtual_host_change_nothing_of_another(two_hosts: Broker) -> None:
    every = signed_in(person("nils", *(Grant(role, "local", "default") for role in Role)))
    before = two_hosts.do(lambda memory: memory.engine.last_event)
    rows = list(BulkEditRow.objects.values_list("pk", "state"))
    for probe in WRITE_PROBES:
        status, text = ask(every, probe)
        assert status in (400, 403, 404) or (status == 200 and json.loads(text)["problems"]), (probe, text)
        assert two_hosts.do(lambda memory: memory.engine.last_event) == before, probe
    assert list(BulkEditRow.objects.values_list("pk", "state")) == rows


def test_viewer_of_all_brokers_changes_nothing(two_hosts: Broker) -> None:
    viewer = signed_in(person("vera", Grant(Role.VIEWER)))
    before = two_hosts.do(lambda memory: memory.engine.last_event)
    for probe in WRITE_PROBES:
        status, text = ask(viewer, probe)
        # There are no conditions, and the entry can no longer be reverted, regardless of the user.
        idle = probe[1] == "policies/order/" and not json.loads(text)["applied"]
        assert status == 403 or idle or (probe[1].endswith("/revert/") and status == 400), (probe, text)
    assert two_hosts.do(lambda memory: memory.engine.last_event) == before


@pytest.mark.slow
def test_permitted_user_reads_the_secret(boss: APIClient) -> None:
    """Without this, the other tests would prove nothing."""
    without = {probe[1] for probe in READ_PROBES if ask(boss, probe)[0] != 200 or SECRET not in ask(boss, probe)[1]}
    assert without == WITHOUT


# -- visibility -------------------------------------------------------------------------------------------------------


def test_totals_and_stops_include_only_visible_objects(narrow: APIClient, boss: APIClient) -> None:
    path = f"{V1}brokers/local/objects/type%3DBroker/"
    whole, part = (client.get(path).json()["attributes"] for client in (boss, narrow))
    assert (whole["queues"], part["queues"]) == (2, 1)
    assert (whole["producers"], part["producers"]) == (2, 1)
    assert (whole["connections"], part["connections"]) == (2, 1)
    assert [stop["scope"] for stop in whole["stops"]] == [f"queue blue/{HIDDEN['name']}"]
    assert part["stops"] == []
    assert part["memory_used_bytes"] == whole["memory_used_bytes"]


def test_stop_of_the_broker_is_visible_to_all(narrow: APIClient, boss: APIClient) -> None:
    stop = {"scope": "type=Broker", "reason": "for all"}
    assert boss.post(f"{V1}stop-producers/", stop, format="json").status_code == 200
    stops = narrow.get(f"{V1}brokers/local/objects/type%3DBroker/").json()["attributes"]["stops"]
    assert [(each["scope"], each["reason"]) for each in stops] == [("broker", "for all")]
    until(lambda: "for all" in json.dumps(narrow.get(f"{V1}events/?after=0").json()))


def test_operator_of_one_virtual_host_stops_its_queues_and_sees_the_audit_entry(two_hosts: Broker) -> None:
    olav = signed_in(person("olav", Grant(Role.OPERATOR, "local", "default")))
    stop = {"scope": "type=Broker", "queues": [str(ORDERS)], "reason": "mine"}
    assert olav.post(f"{V1}stop-producers/", stop, format="json").json()["queues"] == 1
    [row] = olav.get(f"{V1}audit/").json()["results"]
    assert (row["reason"], row["outcome"]) == ("mine", "done")
    assert SECRET not in json.dumps(row)
    both = {**stop, "queues": [str(ORDERS), str(HIDDEN)]}
    answer = olav.post(f"{V1}stop-producers/", both, format="json")
    assert (answer.status_code, "virtual host blue" in answer.json()["detail"]) == (403, True)
    limits = olav.patch(f"{V1}queues/default/orders/", {"version": 1, **LIMITS}, format="json")
    assert "role of policy editor for virtual host default" in limits.json()["detail"]


def test_policy_editor_sets_limits_and_cannot_stop_producers(two_hosts: Broker) -> None:
    paula = signed_in(person("paula", Grant(Role.POLICY_EDITOR, "local", "default")))
    version = paula.get(f"{V1}queues/default/orders/").json()["version"]
    assert paula.patch(f"{V1}queues/default/orders/", {"version": version, **LIMITS}, format="json").status_code == 200
    answer = paula.post(f"{V1}stop-producers/", {"scope": str(ORDERS), "reason": "no"}, format="json")
    assert "role of operator" in answer.json()["detail"]


def test_members_of_a_group_have_its_roles_until_it_is_deleted(two_hosts: Broker) -> None:
    group = Group.objects.create(name="red team")
    RoleGrant.objects.create(group=group, role=Role.VIEWER, broker="local", virtualhost="default")
    user = person("gail")
    client = signed_in(user)
    assert client.get(f"{V1}queues/").status_code == 403
    user.groups.add(group)
    assert [row["name"] for row in client.get(f"{V1}queues/").json()["results"]] == ["orders"]
    group.delete()
    assert client.get(f"{V1}queues/").status_code == 403


@pytest.mark.parametrize("holder", ["user", "group"])
def test_concurrent_requests_assign_a_role_once(db: None, holder: str) -> None:
    whose: dict[str, Any] = (
        {"user": person("gail")} if holder == "user" else {"group": Group.objects.create(name="red team")}
    )
    RoleGrant.objects.create(role=Role.VIEWER, broker="local", virtualhost="default", **whose)
    with pytest.raises(IntegrityError):
        RoleGrant.objects.create(role=Role.VIEWER, broker="local", virtualhost="default", **whose)


def test_invisible_broker_does_not_exist(two_hosts: Broker) -> None:
    client = signed_in(person("far", Grant(Role.ADMIN, "elsewhere")))
    assert client.get(f"{V1}brokers/").json() == []
    assert client.get(f"{V1}brokers/local/").status_code == 404
    assert client.get(f"{V1}queues/").status_code == 404


def test_restricted_link_overrides_every_public_attribute_of_a_link() -> None:
    """A new attribute of a link must be restricted, or listed here."""
    fine = {
        "only_hosts",
        "require_snapshot",
        "require_current",
    }  # the last two use restricted properties
    public = {name for kind in BrokerLink.__mro__ for name in vars(kind) if not name.startswith("_")}
    # Set in the thread of the links, which uses unrestricted links only.
    writes = {
        "note_newest_event", "begin_events", "update_broker_clock", "answered", "update_conditions",
        "update_conditions_in_steps", "put_broker", "connected_now", "lost", "notify", "answered_at", "reconfigure",
        "removed",
    }  # fmt: skip
    assert public - set(vars(RestrictedLink)) - writes - fine == set()


async def test_many_invisible_events_are_skipped(broker: Broker) -> None:
    from asyncio import to_thread

    from console.links.visibility import as_visible

    link = await to_thread(broker.connected)
    blue = object_name("VirtualHost", name="blue")
    await link.acall(lambda admin: admin.create(blue, HOST_OPTIONS))
    for n in range(30):
        await to_thread(broker.do, lambda memory, n=n: memory.attach_producer(f"q{n}", "blue"))
    await to_thread(broker.do, lambda memory: memory.attach_producer("orders"))
    await to_thread(
        until, lambda: link.newest_event == broker.memory.engine.last_event and link.window.last == link.newest_event
    )
    seen = as_visible(link, frozenset({"default"}))
    tail = await seen.events_after(0, 5)
    names = [str(each.object) for each in tail.events]
    assert names
    assert not any("blue" in name for name in names)
    whole = await link.events_after(0, 1000)
    assert tail.position is not None
    assert (await seen.events_after(link.newest_event, 5)).events == ()
    position, found = 0, []
    while position < link.newest_event:
        tail = await seen.events_after(position, 1)
        found += [e.number for e in tail.events]
        assert tail.position is not None
        assert tail.position > position
        position = tail.position
    assert found == [e.number for e in whole.events if seen.sees(e.object)]  # type: ignore[attr-defined]
