"""/jolokia/: each kind of request, sign-in, origins, permissions and audit entries."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client

from brokers.admin import BrokerAdmin, EffectNotConfirmed
from brokers.model import TYPES, object_name
from console.access import administration
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.audit.models import AuditEntry
from console.jolokia import authentication, handling, listing, objects
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

ORDERS = 'headgate:type=Queue,broker=local,virtualhost="default",name="orders"'
CANONICAL = 'headgate:broker=local,name="orders",type=Queue,virtualhost="default"'
MAIL = 'headgate:broker=local,name="mail/out",type=Queue,virtualhost="default"'
HIDDEN = 'headgate:type=Queue,broker=local,virtualhost="blue",name="hush"'
BROKER = "headgate:type=Broker,broker=local"
ALL = (Grant(Role.OPERATOR), Grant(Role.POLICY_EDITOR))


@pytest.fixture(autouse=True)
def _with_queues(broker: Broker) -> None:
    broker.memory.attach_producer("orders")
    broker.memory.attach_producer("mail/out")
    broker.connected()


def using(*grants: Grant, name: str = "olga") -> Client:
    """Return a client with a token of a new user with these roles."""
    user = person(name, *grants)
    _, secret = administration.create_token(Actor(user), name, grants, days=30)
    return Client(HTTP_AUTHORIZATION=f"Bearer {secret}", enforce_csrf_checks=True)


@pytest.fixture
def olga() -> Client:
    return using(*ALL)


def post(client: Client, body: Any, path: str = "/jolokia/", **more: Any) -> Any:
    """Return the answer, which has HTTP status 200 whatever its own."""
    answer = client.post(path, json.dumps(body), content_type="application/json", **more)
    assert answer.status_code == 200, answer.content
    return answer.json()


def get(client: Client, path: str) -> Any:
    answer = client.get(f"/jolokia/{quote(path)}" if "?" not in path else f"/jolokia/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def read(client: Client, mbean: str, **more: Any) -> Any:
    return post(client, {"type": "read", "mbean": mbean, **more})


# -- version, read ----------------------------------------------------------------------------------------------------


def test_version(olga: Client) -> None:
    for path in ("/jolokia", "/jolokia/", "/jolokia/version"):
        answer = olga.get(path).json()
        assert answer["status"] == 200
        assert answer["value"]["info"]["product"] == "Headgate"
        assert answer["value"]["agent"]
        assert answer["value"]["protocol"]
    assert post(olga, {"type": "version"})["request"] == {"type": "version"}


def test_read_of_one_attribute_by_post_and_by_get(olga: Client) -> None:
    answer = read(olga, ORDERS, attribute="producers")
    assert (answer["status"], answer["value"]) == (200, 1)
    assert answer["request"] == {"type": "read", "mbean": ORDERS, "attribute": "producers"}
    assert isinstance(answer["timestamp"], int)
    assert get(olga, f"read/{ORDERS}/producers")["value"] == 1
    assert get(olga, f"read/{MAIL.replace('/', '!/')}/producers")["value"] == 1
    assert get(olga, f"?p=/read/{quote(MAIL.replace('/', '!/'))}/producers&maxDepth=7")["value"] == 1


def test_post_works_at_any_path_and_with_any_declared_type(olga: Client) -> None:
    body = {"type": "read", "mbean": ORDERS, "attribute": "producers"}
    assert post(olga, body, "/jolokia/read")["value"] == 1
    assert post(olga, body, "/jolokia")["value"] == 1
    for kind in ("text/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
        answer = olga.generic("POST", "/jolokia/", json.dumps(body), content_type=kind)
        assert answer.json()["value"] == 1, kind


def test_read_of_several_and_of_all_attributes(olga: Client) -> None:
    several = read(olga, ORDERS, attribute=["producers", "depth_messages"])["value"]
    assert several == {"producers": 1, "depth_messages": 0}
    assert get(olga, f"read/{ORDERS}/producers,depth_messages")["value"] == several
    whole = read(olga, ORDERS)["value"]
    assert set(whole) == {attribute.name for attribute in TYPES["Queue"].attributes}
    assert (whole["name"], whole["virtualhost"]) == ("orders", "default")
    assert whole["version"] >= 1


def test_read_with_an_inner_path(broker: Broker, olga: Client) -> None:
    assert post(olga, {"type": "exec", "mbean": ORDERS, "operation": "stop-producers", "arguments": ["why"]})
    assert read(olga, BROKER, attribute="stops", path="0/reason")["value"] == "why"
    assert get(olga, f"read/{BROKER}/stops/0/reason")["value"] == "why"
    assert read(olga, BROKER, attribute="stops", path="7")["status"] == 404


def test_read_with_a_pattern(olga: Client) -> None:
    answer = read(olga, "headgate:type=Queue,broker=local,virtualhost=*,name=*", attribute=["producers"])
    assert answer["value"] == {CANONICAL: {"producers": 1}, MAIL: {"producers": 1}}
    constructed = read(olga, f'{ORDERS[:-1]}*"', attribute="producers", config={"canonicalNaming": "false"})
    assert constructed["value"] == {ORDERS: {"producers": 1}}
    hosts = read(olga, "headgate:type=VirtualHost,*", attribute="name")["value"]
    assert hosts == {'headgate:broker=local,name="default",type=VirtualHost': {"name": "default"}}
    whole = read(olga, "headgate:type=Queue,*")["value"]
    assert set(whole[CANONICAL]) == set(read(olga, ORDERS)["value"])
    # Objects without the attribute are left out.
    assert set(read(olga, "headgate:*", attribute="blocked_producers")["value"]) >= {CANONICAL, MAIL}
    for pattern in ("headgate:type=Queue,broker=other,*", "java.lang:*", "headgate:type=Queue,name=x*,*"):
        assert read(olga, pattern)["status"] == 404


def test_read_of_what_does_not_exist(olga: Client) -> None:
    answer = read(olga, ORDERS.replace("orders", "none"), attribute="producers")
    assert (answer["status"], answer["error_type"]) == (404, "javax.management.InstanceNotFoundException")
    assert answer["request"]["attribute"] == "producers"
    assert "value" not in answer
    answer = read(olga, ORDERS, attribute="colour")
    assert (answer["status"], answer["error_type"]) == (404, "javax.management.AttributeNotFoundException")
    ignoring = read(olga, ORDERS, attribute=["colour", "producers"], config={"ignoreErrors": True})
    assert ignoring["value"]["producers"] == 1
    assert ignoring["value"]["colour"].startswith("ERROR: ")
    for mbean in ("java.lang:type=Memory", "headgate:type=Queue", ORDERS.replace("local", "other")):
        assert read(olga, mbean)["status"] == 404
    assert read(olga, "orders")["error_type"] == "javax.management.MalformedObjectNameException"


@pytest.mark.domain("jolokia limits")
def test_too_many_objects_are_refused_with_a_sentence(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (objects, handling):
        monkeypatch.setattr(module, "MOST_WHOLE", 1)
    answer = read(olga, "headgate:type=Queue,*")
    assert answer["status"] == 500
    assert "matches more than 1 objects" in answer["error"]
    assert "name the attributes" in answer["error"]
    assert len(read(olga, "headgate:type=Queue,*", attribute="producers")["value"]) == 2


@pytest.mark.domain("jolokia limits")
@pytest.mark.parametrize(
    "request_of_many",
    [
        {"type": "read", "mbean": "headgate:type=Queue,*", "attribute": ["producers", "consumers"]},
        {"type": "read", "mbean": "headgate:type=Queue,*"},
        {"type": "read", "mbean": ORDERS},
        {"type": "search", "mbean": "headgate:*"},
        {"type": "list"},
        {"type": "list", "config": {"listCache": True}},
    ],
    ids=str,
)
def test_requests_of_one_post_get_a_bounded_amount_together(
    olga: Client, request_of_many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MOST_VALUES", 6_000, raising=False)
    statuses = [answer["status"] for answer in post(olga, [request_of_many] * 800)]
    allowed = statuses.index(500)
    assert allowed >= 1
    assert set(statuses[allowed:]) == {500}
    assert "send fewer at once" in post(olga, [request_of_many] * 800)[-1]["error"]
    assert post(olga, request_of_many)["status"] == 200


@pytest.mark.domain("jolokia limits")
def test_requests_of_one_post_look_through_a_bounded_number_of_objects_together(
    olga: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MOST_LOOKED_THROUGH", 100, raising=False)
    none = {"type": "search", "mbean": "headgate:type=Queue,name=none*,*"}
    statuses = [answer["status"] for answer in post(olga, [none] * 60)]
    assert statuses == [200] * 50 + [500] * 10


def test_processing_parameters(olga: Client) -> None:
    body = {"type": "read", "mbean": ORDERS, "attribute": "producers"}
    assert "request" not in post(olga, body, "/jolokia/?includeRequest=false")
    assert "request" not in post(olga, {**body, "config": {"includeRequest": False}})
    hawtio = "?maxDepth=7&maxCollectionSize=50000&ignoreErrors=true&canonicalNaming=false&unknown=1"
    assert post(olga, body, f"/jolokia/{hawtio}")["value"] == 1
    answer = olga.get("/jolokia/version?mimeType=text/plain")
    assert answer["Content-Type"].startswith("text/plain")


# -- bulk -------------------------------------------------------------------------------------------------------------


@pytest.mark.domain("jolokia bulk")
def test_one_failing_request_does_not_fail_the_others_of_a_bulk(olga: Client) -> None:
    answers = post(
        olga,
        [
            {"type": "read", "mbean": ORDERS, "attribute": "producers"},
            {"type": "read", "mbean": "headgate:type=Queue,name=x"},
            {"type": "nonsense"},
            "nonsense",
            {"type": "read", "mbean": "headgate:type=Queue,*", "attribute": "depth_messages"},
        ],
        "/jolokia/read",
    )
    assert [answer["status"] for answer in answers] == [200, 404, 400, 400, 200]
    assert answers[1]["request"]["mbean"] == "headgate:type=Queue,name=x"


def test_empty_bulk(olga: Client) -> None:
    assert post(olga, []) == []


@pytest.mark.domain("jolokia bulk")
def test_a_broker_that_does_not_answer_costs_a_bulk_one_time_out(broker: Broker, olga: Client) -> None:
    calls = []
    broker.lose()
    original = broker.link.call

    def counting(request: Any, timeout: float | None = None) -> Any:
        calls.append(request)
        return original(request, timeout)

    broker.link.call = counting  # type: ignore[method-assign]
    answers = post(olga, [{"type": "read", "mbean": ORDERS, "attribute": "producers"}] * 20)
    assert {answer["status"] for answer in answers} == {500}
    assert "cannot be reached" in answers[0]["error"]
    assert len(calls) == 1
    assert read(olga, "headgate:type=Queue,*", attribute="producers")["status"] == 500
    assert get(olga, "list")["value"] == {"headgate": {}}


@pytest.mark.parametrize("body", ["", "{", '{"a":', "\xff", "[" * 100 + "]" * 100, '{"type": "re\x00ad"}'])
def test_what_is_no_json_is_a_bad_http_request(olga: Client, body: str) -> None:
    answer = olga.generic("POST", "/jolokia/", body.encode("latin-1"), content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["status"] == 400
    assert answer.json()["error"]


def test_too_many_requests_at_once_and_other_methods(olga: Client) -> None:
    many = olga.post("/jolokia/", json.dumps([{"type": "version"}] * 1001), content_type="application/json")
    assert many.status_code == 400
    assert olga.put("/jolokia/").status_code == 405
    assert olga.delete("/jolokia/").status_code == 405


# -- search, list -----------------------------------------------------------------------------------------------------


def test_search(olga: Client) -> None:
    assert get(olga, "search/headgate:type=Queue,*")["value"] == [MAIL, CANONICAL]
    assert post(olga, {"type": "search", "mbean": ORDERS})["value"] == [CANONICAL]
    assert post(olga, {"type": "search", "mbean": "*:type=Broker,*"})["value"] == ["headgate:broker=local,type=Broker"]
    for nothing in ("java.lang:*", "jboss.web:type=Server", ORDERS.replace("orders", "none")):
        assert post(olga, {"type": "search", "mbean": nothing})["value"] == []


@pytest.mark.domain("jolokia limits")
def test_list_has_one_object_of_each_type(olga: Client) -> None:
    found = get(olga, "list")["value"]["headgate"]
    types = [properties for properties in found if "type=Queue" in properties]
    assert types == [MAIL.partition(":")[2]]
    queue = found[types[0]]
    assert queue["attr"]["capacity_messages"] == {
        "type": "long",
        "desc": "Capacity of a queue in messages. 0: no limit. (messages)",
        "rw": True,
        "r": True,
        "w": True,
        "is": False,
    }
    assert queue["attr"]["producers"]["rw"] is False
    stop = queue["op"]["stop-producers"]
    arguments = [argument["name"] for argument in stop["args"]]
    assert arguments == ["reason", "for_ms", "below", "effect", "user", "container_id", "link"]
    assert post(olga, {"type": "list"}, "/jolokia/?canonicalNaming=false")["value"]["headgate"].keys() >= {
        "type=Broker,broker=local"
    }


def tree(answer: Any) -> dict[str, str]:
    """Return the name and the class of each object of a list with a cache of descriptions."""
    assert answer["status"] == 200, answer
    cache, domains = answer["value"]["cache"], answer["value"]["domains"]
    assert set(domains) == {"headgate"}
    assert set(cache) == set(domains["headgate"].values())
    return {f"headgate:{name}": cache[key]["class"] for name, key in domains["headgate"].items()}


#: As hawtio 4.2 requests the tree, and as @hawtio/react 2.3 does.
HAWTIO = (
    {"type": "exec", "mbean": "hawtio:type=security,name=RBACRegistry", "operation": "list()", "arguments": []},
    {"type": "list", "config": {"listCache": True}},
)


@pytest.mark.parametrize("request_of_hawtio", HAWTIO)
def test_tree_for_hawtio_has_every_object_and_each_description_once(olga: Client, request_of_hawtio: Any) -> None:
    found = tree(post(olga, request_of_hawtio))
    assert found[CANONICAL] == found[MAIL] == "headgate.Queue"
    assert sorted(found) == get(olga, "search/headgate:*")["value"]
    for name, described in found.items():
        alone = post(olga, {"type": "list", "path": name.replace("!", "!!").replace("/", "!/").replace(":", "/", 1)})
        assert alone["value"]["class"] == described
    assert ORDERS in tree(post(olga, request_of_hawtio, "/jolokia/?maxDepth=9&canonicalNaming=false"))


@pytest.mark.domain("jolokia limits")
@pytest.mark.parametrize("request_of_hawtio", HAWTIO)
def test_tree_has_one_object_of_a_type_with_too_many(
    olga: Client, request_of_hawtio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_OF_TYPE", 1)
    found = tree(post(olga, request_of_hawtio))
    assert list(found.values()).count("headgate.Queue") == list(found.values()).count("headgate.Producer") == 1
    monkeypatch.setattr(listing, "MOST_OF_TYPE", 2_000)
    monkeypatch.setattr(listing, "MOST_LISTED", 0)
    assert len(tree(post(olga, request_of_hawtio))) == len(set(found.values()))


@pytest.mark.domain("jolokia permissions")
@pytest.mark.parametrize("request_of_hawtio", HAWTIO)
def test_tree_has_visible_objects_of_connected_brokers_only(broker: Broker, request_of_hawtio: Any) -> None:
    async def fill(admin: BrokerAdmin) -> None:
        await admin.create(object_name("VirtualHost", name="blue"), {})
        await admin.create(object_name("Queue", virtualhost="blue", name="hush"), {})

    broker.link.call(fill)
    whole = json.dumps(post(using(Grant(Role.VIEWER, "local", "default")), request_of_hawtio))
    assert "orders" in whole
    assert "hush" not in whole
    assert "blue" not in whole
    assert "hush" in json.dumps(tree(post(using(Grant(Role.VIEWER), name="vera"), request_of_hawtio)))
    broker.lose()
    vera = using(Grant(Role.VIEWER), name="victor")
    assert post(vera, request_of_hawtio)["value"] == {"cache": {}, "domains": {"headgate": {}}}


def test_mbean_of_hawtio_lists_and_nothing_else(olga: Client) -> None:
    path = "hawtio/type=security,name=RBACRegistry"
    assert list(post(olga, {"type": "list", "path": path})["value"]["op"]) == ["list"]
    registry = {"mbean": path.replace("/", ":")}
    assert post(olga, {"type": "exec", **registry, "operation": "list(java.lang.String)"})["status"] == 200
    assert post(olga, {"type": "exec", **registry, "operation": "canInvoke"})["status"] == 404
    assert read(olga, registry["mbean"])["status"] == 404
    assert get(olga, "search/hawtio:*")["value"] == []
    # What else hawtio looks for: a security MBean, counters of changes, and facts of a JVM.
    for mbean in ("*:type=security,area=jmx,*", "java.lang:type=Runtime", "hawtio:type=Registry"):
        assert post(olga, {"type": "search", "mbean": mbean})["value"] == []


def test_list_with_a_path(olga: Client) -> None:
    name = ORDERS.partition(":")[2]
    assert post(olga, {"type": "list", "path": f"headgate/{name}"})["value"]["class"] == "headgate.Queue"
    assert get(olga, f"list/headgate/{name}/attr/producers/rw")["value"] is False
    assert "headgate" not in get(olga, "list/headgate")["value"]
    for path in ("hawtio/type=Registry", "headgate/type=Nothing", f"headgate/{name}/nothing"):
        assert post(olga, {"type": "list", "path": path})["status"] == 404


# -- write, exec ------------------------------------------------------------------------------------------------------


@pytest.mark.domain("jolokia write")
def test_write_returns_the_old_value_and_is_audited(broker: Broker, olga: Client) -> None:
    body = {"type": "write", "mbean": ORDERS, "attribute": "capacity_messages", "value": 5}
    answer = post(olga, {**body, "config": {"reason": "release 42"}})
    assert (answer["status"], answer["value"]) == (200, None)
    assert post(olga, {**body, "value": "7"})["value"] == 5
    assert get(olga, f"write/{ORDERS}/capacity_messages/9")["value"] == 7
    assert get(olga, f"write/{ORDERS}/flow_resume_messages/80%")["status"] == 200
    assert get(olga, f"write/{ORDERS}/capacity_messages/[null]")["value"] == 9
    assert read(olga, ORDERS, attribute="capacity_messages")["value"] is None
    rows = list(AuditEntry.objects.filter(operation="update").order_by("pk"))
    assert [(row.user_name, row.outcome) for row in rows] == [("olga", "done")] * 5
    assert (rows[0].before, rows[0].after) == ({"capacity_messages": None}, {"capacity_messages": 5})
    assert (rows[0].reason, rows[0].source_address) == ("release 42", "127.0.0.1, token olga")


@pytest.mark.parametrize(
    ("attribute", "value", "status"),
    [
        ("producers", 5, 400),
        ("colour", "red", 400),
        ("capacity_messages", "many", 400),
        ("capacity_messages", [1], 400),
    ],
)
def test_refused_writes_change_nothing_and_are_audited(olga: Client, attribute: str, value: Any, status: int) -> None:
    answer = post(olga, {"type": "write", "mbean": ORDERS, "attribute": attribute, "value": value})
    assert answer["status"] == status
    assert attribute in answer["error"]
    assert [row.outcome for row in AuditEntry.objects.filter(operation="update")] == ["refused"]


def test_exec_by_place_by_name_and_by_get(olga: Client) -> None:
    def state() -> Any:
        return read(olga, ORDERS, attribute="state")["value"]

    body = {"type": "exec", "mbean": ORDERS}
    stop = "stop-producers(java.lang.String,long,java.lang.String)"
    assert post(olga, {**body, "operation": stop, "arguments": ["incident 7", "", None]})["status"] == 200
    assert state() == "STOPPED"
    assert get(olga, f"exec/{ORDERS}/start-producers/over")["status"] == 200
    assert state() == "NORMAL"
    by_name = {"reason": "again", "for_ms": 60_000, "actor": "mallory"}
    assert post(olga, {**body, "operation": "stop-producers", "arguments": [by_name]})["status"] == 200
    rows = list(AuditEntry.objects.exclude(operation__startswith="create").order_by("pk"))
    assert [(row.operation, row.user_name, row.reason) for row in rows if "producers" in row.operation] == [
        ("stop-producers", "olga", "incident 7"),
        ("start-producers", "olga", "over"),
        ("stop-producers", "olga", "again"),
    ]
    stops = read(olga, BROKER, attribute="stops")["value"]
    assert [each["actor"] for each in stops] == ["olga"]
    fields = post(olga, {**body, "operation": "explain", "path": "fields/capacity_messages"})["value"]
    assert fields["origin"]


def test_refused_calls(olga: Client) -> None:
    body = {"type": "exec", "mbean": ORDERS}
    assert post(olga, {**body, "operation": "explode"})["status"] == 404
    assert post(olga, {**body, "operation": "stop-producers"})["status"] == 400  # a reason is required
    assert post(olga, {**body, "operation": "stop-producers", "arguments": list("abcdef")})["status"] == 400
    assert post(olga, {**body, "operation": "stop-producers", "arguments": ["a\u202eb"]})["status"] == 400
    assert post(olga, {**body, "operation": "stop-producers", "arguments": [{"reason": 5}]})["status"] == 400
    assert post(olga, {"type": "exec", "mbean": "headgate:type=Queue,*", "operation": "purge"})["status"] == 400
    assert read(olga, ORDERS, attribute="state")["value"] == "NORMAL"


def test_an_effect_that_is_not_confirmed_is_a_conflict_with_its_sentence(broker: Broker, olga: Client) -> None:
    async def refusing(*_: Any) -> Any:
        raise EffectNotConfirmed("publishers would be refused", "reject")

    broker.memory.call = refusing  # type: ignore[method-assign]
    broker.lose()
    broker.come_back()
    answer = post(olga, {"type": "exec", "mbean": ORDERS, "operation": "stop-producers", "arguments": ["why"]})
    assert answer["status"] == 409
    assert "publishers would be refused" in answer["error"]


# -- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.domain("jolokia permissions")
def test_viewer_neither_writes_nor_executes(broker: Broker) -> None:
    vera = using(Grant(Role.VIEWER), name="vera")
    before = broker.memory.engine.last_event
    assert read(vera, ORDERS, attribute="producers")["value"] == 1
    answers = [
        post(vera, {"type": "write", "mbean": ORDERS, "attribute": "capacity_messages", "value": 5}),
        post(vera, {"type": "exec", "mbean": ORDERS, "operation": "purge"}),
        get(vera, f"exec/{BROKER}/stop-producers/why"),
    ]
    assert [(answer["status"], answer["error_type"]) for answer in answers] == [
        (403, "java.lang.SecurityException")
    ] * 3
    assert "that needs the role of" in answers[0]["error"]
    assert broker.memory.engine.last_event == before
    assert {row.outcome for row in AuditEntry.objects.filter(user_name="vera", object__startswith="type=")} == {
        "refused"
    }
    assert AuditEntry.objects.filter(user_name="vera", object__startswith="type=").count() == 3
    explained = post(vera, {"type": "exec", "mbean": ORDERS, "operation": "explain"})
    assert explained["value"]["fields"]


@pytest.mark.domain("jolokia permissions")
def test_hidden_virtual_hosts_look_absent(broker: Broker) -> None:
    async def fill(admin: BrokerAdmin) -> None:
        await admin.create(object_name("VirtualHost", name="blue"), {})
        await admin.create(object_name("Queue", virtualhost="blue", name="hush"), {})

    broker.link.call(fill)
    inside = Grant(Role.OPERATOR, "local", "default"), Grant(Role.POLICY_EDITOR, "local", "default")
    client = using(*inside)
    absent = HIDDEN.replace("hush", "none")
    for mbean in (HIDDEN, absent):
        answers = [
            read(client, mbean, attribute="producers"),
            post(client, {"type": "list", "path": "headgate/" + mbean.partition(":")[2]}),
            post(client, {"type": "write", "mbean": mbean, "attribute": "capacity_messages", "value": 5}),
            post(client, {"type": "exec", "mbean": mbean, "operation": "purge"}),
            post(client, {"type": "exec", "mbean": mbean, "operation": "explain"}),
        ]
        assert [answer["status"] for answer in answers] == [404, 404, 403, 403, 404]
    whole = json.dumps([read(client, "*:*"), get(client, "search/*:*"), get(client, "list"), read(client, BROKER)])
    assert "orders" in whole
    assert "hush" not in whole
    assert "blue" not in whole
    assert post(client, {"type": "search", "mbean": HIDDEN})["value"] == []
    assert "hush" in json.dumps(get(using(*ALL, name="boss"), "search/*:*"))


def test_other_brokers_look_absent() -> None:
    client = using(Grant(Role.VIEWER, "other"))
    assert read(client, ORDERS)["status"] == 404
    assert get(client, "search/*:*")["value"] == []
    assert post(client, {"type": "exec", "mbean": ORDERS, "operation": "purge"})["status"] == 404


def test_user_without_a_role_is_refused() -> None:
    client = using(Grant(Role.VIEWER))
    RoleGrant.objects.all().delete()
    answer = client.get("/jolokia/version")
    assert answer.status_code == 403
    assert "no role" in answer.json()["error"]


# -- sign-in ----------------------------------------------------------------------------------------------------------


def basic(name: str, password: str, **more: Any) -> Client:
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return Client(HTTP_AUTHORIZATION=f"Basic {encoded}", **more)


@pytest.fixture
def paul() -> User:
    user = person("paul", *ALL)
    user.set_password("påss:word")
    user.save()
    return user


def status(client: Client) -> int:
    return client.get("/jolokia/version").status_code


def test_no_or_malformed_credentials_get_401(paul: User) -> None:
    answer = Client().get("/jolokia/version")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Basic ")
    assert answer.json()["error_type"] == "java.lang.SecurityException"
    for header in (
        "Basic",
        "Basic !",
        "Basic 4pyT",
        "Basic /w==",
        "Bearer",
        "Bearer headgate_x",
        "Digest a",
        "Basic Og==",
    ):
        assert status(Client(HTTP_AUTHORIZATION=header)) == 401, header


@pytest.mark.domain("jolokia sign-in")
def test_a_session_counts_for_nothing(paul: User) -> None:
    client = Client()
    client.force_login(paul)
    assert status(client) == 401


def test_basic_with_a_password_or_a_token(paul: User) -> None:
    assert status(basic("paul", "påss:word")) == 200
    assert status(basic("paul", "wrong")) == 401
    _, secret = administration.create_token(Actor(paul), "telegraf", ALL, days=30)
    assert status(basic("paul", secret)) == 200
    assert status(basic("olga", secret)) == 401


def test_a_verified_password_is_not_hashed_again_and_ends_with_the_password(
    paul: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = basic("paul", "påss:word")
    assert status(client) == 200
    with monkeypatch.context() as patched:
        patched.setattr(authentication, "authenticate", lambda **_: pytest.fail("the password is hashed again"))
        assert status(client) == 200
    paul.set_password("another")
    paul.save()
    assert status(client) == 401
    assert status(basic("paul", "another")) == 200
    User.objects.update(is_active=False)
    assert status(basic("paul", "another")) == 401


@pytest.mark.domain("jolokia sign-in")
def test_failures_lock_a_name_for_an_address_as_on_the_sign_in_page(paul: User) -> None:
    good = basic("paul", "påss:word", REMOTE_ADDR="203.0.113.9")
    bad = basic("paul", "wrong", REMOTE_ADDR="203.0.113.9")
    most = django_settings.AXES_FAILURE_LIMIT
    for _ in range(most - 1):
        assert status(bad) == 401
    assert status(good) == 200  # which resets the failures
    for _ in range(most - 1):
        assert status(bad) == 401
    answer = bad.get("/jolokia/version")
    assert answer.status_code == 429
    assert answer["Retry-After"] == "300"
    assert "Too many" in answer.json()["error"]
    assert status(good) == 429  # also with the password, which was verified just now
    form = {"username": "paul", "password": "påss:word"}
    assert Client(REMOTE_ADDR="203.0.113.9").post("/login/", form).status_code == 429
    assert status(basic("paul", "påss:word", REMOTE_ADDR="203.0.113.10")) == 200


# -- browsers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"HTTP_ORIGIN": "http://testserver"}, 200),
        ({"HTTP_REFERER": "http://testserver/queues/"}, 200),
        ({"HTTP_SEC_FETCH_SITE": "same-origin"}, 200),
        ({"HTTP_SEC_FETCH_SITE": "none"}, 200),
        ({"HTTP_ORIGIN": "http://testserver:8080"}, 403),
        ({"HTTP_ORIGIN": "https://evil.example"}, 403),
        ({"HTTP_ORIGIN": "null"}, 403),
        ({"HTTP_REFERER": "https://evil.example/page"}, 403),
        ({"HTTP_REFERER": "http://[::"}, 403),
        ({"HTTP_SEC_FETCH_SITE": "cross-site"}, 403),
        ({"HTTP_SEC_FETCH_SITE": "same-site"}, 403),
    ],
)
def test_pages_of_other_origins_are_refused(
    olga: Client, settings: Any, headers: dict[str, str], expected: int
) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    answer = olga.get(f"/jolokia/exec/{quote(ORDERS)}/stop-producers/why", HTTP_HOST="testserver", **headers)  # type: ignore[arg-type]
    assert answer.status_code == expected
    assert ("Access-Control-Allow-Origin" in answer) is False
    assert AuditEntry.objects.filter(operation="stop-producers").exists() is (expected == 200)


BROWSER = {"HTTP_USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"}
STOP_BY_GET = f"/jolokia/exec/{quote(ORDERS)}/stop-producers/why"


@pytest.mark.parametrize("method", ["get", "head"])
@pytest.mark.parametrize("url", [STOP_BY_GET, f"/jolokia/write/{quote(ORDERS)}/capacity_messages/7"])
def test_a_browser_that_does_not_say_which_page_it_shows_changes_nothing_by_get(
    paul: User, method: str, url: str
) -> None:
    """Over plain HTTP a page of another site can have it so, and the browser adds the password that it remembers."""
    client = basic("paul", "påss:word", **BROWSER)
    assert getattr(client, method)(url).status_code == 403
    assert not AuditEntry.objects.filter(operation__in=("stop-producers", "update")).exists()
    assert client.get(f"/jolokia/read/{quote(ORDERS)}/depth_messages").json()["status"] == 200


@pytest.mark.parametrize(
    "headers", [{"HTTP_SEC_FETCH_SITE": "none"}, {"HTTP_REFERER": "http://testserver/"}, {"HTTP_USER_AGENT": "curl/8"}]
)
def test_a_program_and_a_page_of_the_console_change_something_by_get(
    paul: User, settings: Any, headers: dict[str, str]
) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    client = basic("paul", "påss:word", HTTP_HOST="testserver", **{**BROWSER, **headers})
    assert client.get(STOP_BY_GET).json()["status"] == 200


def test_a_browser_changes_something_by_post_and_with_a_token(paul: User, olga: Client) -> None:
    body = {"type": "exec", "mbean": ORDERS, "operation": "stop-producers", "arguments": ["why"]}
    assert post(basic("paul", "påss:word", **BROWSER), body)["status"] == 200
    assert olga.get(STOP_BY_GET, **BROWSER).json()["status"] == 200  # type: ignore[arg-type]


def test_browsers_of_a_configured_origin_may_call(olga: Client, settings: Any) -> None:
    settings.HEADGATE_JOLOKIA_ORIGINS = ["https://hawtio.example"]
    there = {"HTTP_ORIGIN": "https://hawtio.example"}
    before = Client().options("/jolokia/", HTTP_ACCESS_CONTROL_REQUEST_METHOD="POST", **there)  # type: ignore[arg-type]
    assert before.status_code == 204
    assert before["Access-Control-Allow-Origin"] == "https://hawtio.example"
    assert "Authorization" in before["Access-Control-Allow-Headers"]
    answer = olga.get("/jolokia/version", **there)  # type: ignore[arg-type]
    assert (answer.status_code, answer["Access-Control-Allow-Origin"]) == (200, "https://hawtio.example")
    refused = Client().get("/jolokia/version", **there)  # type: ignore[arg-type]
    assert (refused.status_code, refused["Access-Control-Allow-Origin"]) == (401, "https://hawtio.example")
    other = Client().options("/jolokia/", HTTP_ORIGIN="https://other.example")
    assert other.status_code == 403
    assert "Access-Control-Allow-Origin" not in other


def test_hostile_paths_are_answered(olga: Client) -> None:
    for path in (
        "read",
        "read/a",
        "read//",
        "exec/a:b=c",
        "write/a:b=c/d",
        "list/!",
        "%0a",
        "read/%0a/x",
        "!!",
        "nothing",
    ):
        answer = olga.get(f"/jolokia/{path}")
        assert answer.status_code == 200, path
        assert answer.json()["status"] in (400, 404), path
    assert olga.get("/jolokia/read/%00").json()["detail"]
    assert olga.get("/jolokiax/").status_code == 404
