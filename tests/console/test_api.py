"""/api/v1/: responses, errors and audit entries."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from brokers.model import TYPES, object_name
from brokers.testing import InMemoryBroker
from console.audit.models import AuditEntry
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")
OBJECT = f"/api/v1/brokers/local/objects/{quote(str(ORDERS), safe='')}/"
QUEUE = "/api/v1/queues/default/orders/"


@pytest.fixture(autouse=True)
def _with_orders(broker: Broker) -> None:
    broker.memory.attach_producer("orders")
    broker.memory.attach_producer("mail/out")
    broker.connected()


def patch(client: APIClient, path: str, **body: Any) -> Any:
    return client.patch(path, body, format="json")


def post(client: APIClient, path: str, **body: Any) -> Any:
    return client.post(path, body, format="json")


# -- permissions ----------------------------------------------------------------------------------------------------

READS = [
    "brokers/",
    "brokers/local/",
    "brokers/local/types/",
    "brokers/local/objects/?type=Queue",
    f"brokers/local/objects/{quote(str(ORDERS), safe='')}/",
    "queues/",
    "queues/default/orders/",
    "producers/",
    "events/",
    "audit/",
    "policies/",
]
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("patch", QUEUE, {"version": 1, "capacity_messages": 5}),
    ("patch", OBJECT, {"version": 1, "attributes": {"capacity_messages": 5}}),
    ("delete", OBJECT, {}),
    ("post", f"{OBJECT}operations/purge/", {"arguments": {}}),
    ("post", "/api/v1/brokers/local/objects/", {"object": "type=VirtualHost,name=other"}),
    ("post", "/api/v1/stop-producers/", {"scope": "type=Broker", "reason": "test"}),
    ("post", "/api/v1/start-producers/", {"scope": "type=Broker", "reason": "test"}),
]


@pytest.mark.parametrize("path", READS)
def test_anonymous_user_reads_nothing(path: str) -> None:
    assert APIClient().get(f"/api/v1/{path}").status_code == 401


@pytest.mark.parametrize("path", READS)
def test_viewer_reads_everything(as_viewer: APIClient, path: str) -> None:
    assert as_viewer.get(f"/api/v1/{path}").status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_viewer_changes_nothing_and_the_attempt_is_audited(
    broker: Broker, as_viewer: APIClient, method: str, path: str, body: dict[str, Any]
) -> None:
    before = broker.memory.engine.last_event
    answer = getattr(as_viewer, method)(path, body, format="json")
    assert answer.status_code == 403
    assert "that needs the role of" in answer.json()["detail"]
    assert broker.memory.engine.last_event == before
    entry = AuditEntry.objects.get()
    assert (entry.user_name, entry.outcome, entry.before, entry.after) == ("vera", "refused", None, None)


def test_post_without_csrf_token_is_refused(operator: Any) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(operator)
    answer = post(client, "/api/v1/stop-producers/", scope="type=Broker", reason="test")
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["detail"]


# -- reading --------------------------------------------------------------------------------------------------------


def test_types_are_the_declared_model(as_viewer: APIClient) -> None:
    types = {each["name"]: each for each in as_viewer.get("/api/v1/brokers/local/types/").json()}
    assert set(types) == set(TYPES)
    attributes = {each["name"]: each for each in types["Queue"]["attributes"]}
    assert attributes["capacity_bytes"]["writable"] is True
    assert attributes["capacity_bytes"]["kind"] == "integer"
    assert attributes["capacity_bytes"]["unit"] == "bytes"
    operations = {each["name"]: each for each in types["Queue"]["operations"]}
    assert operations["purge"]["effect"] == "destroy"
    assert [argument["name"] for argument in operations["stop-producers"]["arguments"]] == [
        "reason",
        "actor",
        "for_ms",
        "below",
        "effect",
        "user",
        "container_id",
        "link",
    ]


def test_objects_are_filtered_sorted_and_paged(as_viewer: APIClient) -> None:
    page = as_viewer.get("/api/v1/brokers/local/objects/?type=Queue&sort=-name&count=1").json()
    assert page["total"] == 2
    assert [item["attributes"]["name"] for item in page["items"]] == ["orders"]
    page = as_viewer.get("/api/v1/brokers/local/objects/?type=Queue&name=mail/out").json()
    assert [item["name"] for item in page["items"]] == ["type=Queue,virtualhost=default,name=mail/out"]


def test_repeated_filter_matches_any_of_its_values(as_viewer: APIClient) -> None:
    assert as_viewer.get("/api/v1/queues/?name=orders&name=mail/out").json()["count"] == 2


def test_object_with_a_slash_in_its_name_is_found_by_the_encoded_name(as_viewer: APIClient) -> None:
    name = quote("type=Queue,virtualhost=default,name=mail/out", safe="")
    answer = as_viewer.get(f"/api/v1/brokers/local/objects/{name}/").json()
    assert answer["attributes"]["name"] == "mail/out"
    assert as_viewer.get("/api/v1/queues/default/mail/out/").json()["name"] == "mail/out"


def test_queues_are_paged(as_viewer: APIClient) -> None:
    page = as_viewer.get("/api/v1/queues/?page=2&page_size=1&sort=name").json()
    assert (page["count"], page["page"], page["page_size"]) == (2, 2, 1)
    assert [queue["name"] for queue in page["results"]] == ["orders"]


def test_quick_filters_select_sort_and_page_queues(as_viewer: APIClient) -> None:
    def names(query: str) -> list[str]:
        return [row["name"] for row in as_viewer.get(f"/api/v1/queues/?{query}").json()["results"]]

    assert names("only=no-consumers&sort=-name") == ["orders", "mail/out"]
    assert names("only=no-consumers&sort=name&page=2&page_size=1") == ["orders"]
    assert names("only=no-consumers&name=orders&state=NORMAL&search=ORD") == ["orders"]
    assert names("only=no-consumers&state=OVERFULL") == []
    assert names("only=no-consumers&only=blocked") == []
    whole = as_viewer.get("/api/v1/queues/?name=orders").json()["results"]
    assert as_viewer.get("/api/v1/queues/?only=no-consumers&name=orders").json()["results"] == whole
    for query, field in (("only=odd", "only"), ("only=blocked&sort=colour", "sort"), ("only=blocked&odd=1", "odd")):
        answer = as_viewer.get(f"/api/v1/queues/?{query}")
        assert (answer.status_code, list(answer.json())) == (400, [field])


def test_producers_have_queue_and_state(as_viewer: APIClient) -> None:
    rows = as_viewer.get(f"/api/v1/producers/?queue={quote(str(ORDERS))}&state=RUNNING").json()["results"]
    assert [row["queue"] for row in rows] == [str(ORDERS)]


def test_events_after_a_number_are_complete(broker: Broker, as_viewer: APIClient) -> None:
    newest = broker.memory.engine.last_event
    until(lambda: broker.link.recent_events(newest - 1).events)
    answer = as_viewer.get(f"/api/v1/events/?after={newest - 3}").json()
    assert [event["number"] for event in answer["events"]] == [newest - 2, newest - 1, newest]
    assert answer["expired_before"] is None
    assert answer["newest"] == newest


# -- changing -------------------------------------------------------------------------------------------------------


def test_policy_is_changed_and_audited_with_before_and_after(as_operator: APIClient) -> None:
    version = as_operator.get(QUEUE).json()["version"]
    answer = patch(as_operator, QUEUE, version=version, reason="Black Friday", capacity_messages=500)
    assert answer.status_code == 200
    assert answer.json()["effective_capacity_messages"] == 500
    assert answer.json()["version"] > version
    entry = AuditEntry.objects.get()
    assert (entry.operation, entry.outcome, entry.reason) == ("update", "done", "Black Friday")
    assert entry.object == str(ORDERS)
    assert entry.before == {"capacity_messages": None}
    assert entry.after == {"capacity_messages": 500}
    assert entry.source_address == "127.0.0.1"
    assert entry.user is not None
    assert entry.user_name == "olga"


def test_null_makes_a_field_inherited_again(as_operator: APIClient) -> None:
    version = as_operator.get(QUEUE).json()["version"]
    version = patch(as_operator, QUEUE, version=version, capacity_messages=500).json()["version"]
    answer = patch(as_operator, QUEUE, version=version, capacity_messages=None).json()
    assert answer["capacity_messages"] is None
    assert answer["effective_capacity_messages"] == 0


def test_stale_version_is_409_with_the_current_object(as_operator: APIClient) -> None:
    version = as_operator.get(QUEUE).json()["version"]
    patch(as_operator, QUEUE, version=version, capacity_messages=500)
    answer = patch(as_operator, QUEUE, version=version, capacity_messages=900)
    assert answer.status_code == 409
    current = answer.json()["current"]
    assert current["version"] > version
    assert current["attributes"]["capacity_messages"] == 500
    assert AuditEntry.objects.first().outcome == "refused"  # type: ignore[union-attr]


def test_levels_that_contradict_each_other_are_400_by_field_with_both_values(as_operator: APIClient) -> None:
    version = as_operator.get(QUEUE).json()["version"]
    answer = patch(
        as_operator, QUEUE, version=version, capacity_messages=100, flow_stop_messages="80%", flow_resume_messages=90
    )
    assert answer.status_code == 400
    (sentence,) = answer.json()["flow_resume_messages"]
    assert "90" in sentence
    assert "80" in sentence


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"capacity_messages": 5}, "version"),
        ({"version": "one", "capacity_messages": 5}, "version"),
        ({"version": 1, "capacity_messages": -5}, "capacity_messages"),
        ({"version": 1, "capacity_messages": "many"}, "capacity_messages"),
        ({"version": 1, "colour": "red"}, "colour"),
        ({"version": 1, "depth_messages": 0}, "depth_messages"),
        ({"version": 1, "reason": 7, "capacity_messages": 5}, "reason"),
        ({"version": 1}, "attributes"),
    ],
)
def test_bad_policy_is_400_by_field(as_operator: APIClient, body: dict[str, Any], field: str) -> None:
    body = {**body, "version": as_operator.get(QUEUE).json()["version"]} if body.get("version") == 1 else body
    answer = patch(as_operator, QUEUE, **body)
    assert answer.status_code == 400
    assert field in answer.json()


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("queues/?colour=red", "colour"),
        ("queues/?state=ANGRY", "state"),
        ("queues/?sort=colour", "sort"),
        ("queues/?page=0", "page"),
        ("queues/?page_size=9000", "page_size"),
        ("brokers/local/objects/", "type"),
        ("brokers/local/objects/?type=Queue&count=x", "count"),
        ("events/?after=x", "after"),
        ("events/?count=0", "count"),
    ],
)
def test_bad_query_is_400_by_parameter(as_viewer: APIClient, path: str, field: str) -> None:
    answer = as_viewer.get(f"/api/v1/{path}")
    assert answer.status_code == 400
    assert field in answer.json()


@pytest.mark.parametrize(
    "path",
    [
        "brokers/elsewhere/",
        "brokers/local/objects/type=Queue,virtualhost=default,name=none/",
        "brokers/local/objects/nonsense/",
        "queues/default/none/",
        "queues/?broker=elsewhere",
    ],
)
def test_missing_object_is_404_with_a_message(as_viewer: APIClient, path: str) -> None:
    answer = as_viewer.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.json()["detail"]


def test_check_returns_effective_values_and_changes_nothing(broker: Broker, as_viewer: APIClient) -> None:
    before = broker.memory.engine.last_event
    answer = post(as_viewer, f"{QUEUE}check/", version=1, reason="", capacity_messages=100, flow_resume_messages="70%")
    assert answer.status_code == 200
    assert answer.json()["effective"]["effective_resume_messages"] == 70
    assert broker.memory.engine.last_event == before
    assert not AuditEntry.objects.exists()


def test_check_of_a_bad_policy_is_400_by_field(as_viewer: APIClient) -> None:
    answer = post(as_viewer, f"{QUEUE}check/", capacity_messages=100, flow_resume_messages="170%")
    assert answer.status_code == 400
    assert "170%" in answer.json()["flow_resume_messages"][0]


def test_object_is_created_changed_and_deleted(as_operator: APIClient) -> None:
    name = "type=Queue,virtualhost=default,name=new"
    answer = post(
        as_operator, "/api/v1/brokers/local/objects/", object=name, attributes={"capacity_bytes": 10}, reason="needed"
    )
    assert answer.status_code == 201
    path = f"/api/v1/brokers/local/objects/{quote(name, safe='')}/"
    changed = patch(as_operator, path, version=answer.json()["version"], attributes={"capacity_bytes": 20})
    assert changed.json()["attributes"]["capacity_bytes"] == 20
    assert as_operator.delete(f"{path}?version=1").status_code == 409
    assert as_operator.delete(f"{path}?version={changed.json()['version']}&reason=done").status_code == 204
    assert as_operator.get(path).status_code == 404
    rows = [(entry.operation, entry.outcome) for entry in AuditEntry.objects.order_by("id")]
    assert rows == [("create", "done"), ("update", "done"), ("delete", "refused"), ("delete", "done")]
    deleted = AuditEntry.objects.first()
    assert deleted is not None
    assert deleted.before is not None
    assert deleted.before["capacity_bytes"] == 20
    assert deleted.after is None


def test_existing_object_is_409(as_operator: APIClient) -> None:
    answer = post(as_operator, "/api/v1/brokers/local/objects/", object=str(ORDERS), attributes={})
    assert answer.status_code == 409


# -- operations -----------------------------------------------------------------------------------------------------


def test_stop_and_start_of_the_broker_are_audited(broker: Broker, as_operator: APIClient) -> None:
    stop = {"scope": "type=Broker", "reason": " disk swap "}
    answer = post(as_operator, "/api/v1/stop-producers/", **stop).json()
    assert (answer["queues"], answer["producers"], answer["changed"]) == (2, 2, True)
    assert post(as_operator, "/api/v1/stop-producers/", **stop).json()["changed"] is False
    stops = broker.link.call(lambda admin: admin.read(object_name("Broker")))["stops"]
    assert [(each["reason"], each["actor"]) for each in stops] == [("disk swap", "olga")]
    until(lambda: {row["state"] for row in broker.link.queues()} == {"STOPPED"})
    post(as_operator, "/api/v1/start-producers/", scope="type=Broker", reason="done")
    until(lambda: {row["state"] for row in broker.link.queues()} == {"NORMAL"})
    first = AuditEntry.objects.order_by("id").first()
    assert first is not None
    assert first.reason == "disk swap"
    assert first.before is not None
    assert first.after is not None
    assert first.before["stops"] == []
    assert first.after["stops"][0]["actor"] == "olga"
    assert AuditEntry.objects.count() == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "type=Broker", "reason": "  "}, "reason"),
        ({"scope": "type=Broker"}, "reason"),
        ({"reason": "test"}, "scope"),
        ({"scope": "type=Nonsense", "reason": "test"}, "scope"),
        ({"scope": "type=Producer,virtualhost=default,id=2", "reason": "test"}, "scope"),
        ({"scope": "type=Broker", "reason": "test", "pattern": "a..b"}, "pattern"),
        ({"scope": str(ORDERS), "reason": "test", "pattern": "a"}, "pattern"),
        ({"scope": "type=Broker", "reason": ["test"]}, "reason"),
    ],
)
def test_bad_stop_is_400_by_field_and_stops_nothing(
    broker: Broker, as_operator: APIClient, body: dict[str, Any], field: str
) -> None:
    answer = post(as_operator, "/api/v1/stop-producers/", **body)
    assert answer.status_code == 400
    assert field in answer.json()
    assert broker.link.call(lambda admin: admin.read(object_name("Broker")))["stops"] == []


def test_stop_without_a_reason_is_audited_as_refused(as_operator: APIClient) -> None:
    post(as_operator, "/api/v1/stop-producers/", scope="type=Broker", reason="")
    entry = AuditEntry.objects.get()
    assert (entry.operation, entry.outcome) == ("stop-producers", "refused")
    assert "reason" in entry.detail


def test_preview_counts_affected_queues_and_producers(broker: Broker, as_viewer: APIClient) -> None:
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope="type=Broker", pattern="", reason="").json()
    assert (answer["queues"], answer["producers"], answer["already_stopped"]) == (2, 2, 0)
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope="type=Broker", pattern="ord*").json()
    assert "pattern" in answer
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope="type=Broker", pattern="orders").json()
    assert [queue["name"] for queue in answer["largest"]] == ["orders"]
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope=str(ORDERS)).json()
    assert answer["queues"] == 1
    assert not AuditEntry.objects.exists()


def test_preview_of_an_exchange_counts_its_bound_queues(broker: Broker, as_viewer: APIClient) -> None:
    def bind(memory: InMemoryBroker) -> None:
        host = memory.engine.virtualhost("default")
        exchange = memory.engine.routing.create_exchange(host, "stocks", "topic")
        memory.engine.routing.bind(exchange, memory.engine.queue("default", "orders"), "a.#")
        memory.advance(50)  # ends the turn, so that the event is published

    broker.do(bind)
    until(lambda: any(row["bindings"] for row in broker.link.queues()))
    scope = "type=Exchange,virtualhost=default,name=stocks"
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope=scope).json()
    assert [queue["name"] for queue in answer["largest"]] == ["orders"]
    answer = post(as_viewer, "/api/v1/stop-producers/preview/", scope=scope, pattern="orders")
    assert answer.status_code == 400


def test_read_operation_needs_no_operator_and_is_not_audited(as_viewer: APIClient) -> None:
    answer = post(as_viewer, f"{OBJECT}operations/explain/", arguments={})
    assert answer.json()["fields"]["capacity_bytes"]["origin"] == "built-in"
    assert not AuditEntry.objects.exists()


def test_operation_is_called_on_behalf_of_the_user(broker: Broker, as_operator: APIClient) -> None:
    broker.do(lambda memory: memory.publish(next(iter(memory.engine.producers.values())), 3))
    answer = post(as_operator, f"{OBJECT}operations/purge/", arguments={"reason": "poison", "actor": "another user"})
    assert answer.json() == {"messages": 3}
    entry = AuditEntry.objects.get()
    assert (entry.operation, entry.outcome, entry.reason) == ("purge", "done", "poison")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["depth_messages"], entry.after["depth_messages"]) == (3, 0)
    purged = next(event for event in broker.memory._events if event.kind == "queue-purged")
    assert purged.attributes["actor"] == "olga"


def test_unknown_operation_is_404(as_operator: APIClient) -> None:
    assert post(as_operator, f"{OBJECT}operations/explode/", arguments={}).status_code == 404


def test_bad_argument_is_400_by_field(as_operator: APIClient) -> None:
    answer = post(as_operator, f"{OBJECT}operations/purge/", arguments={"colour": "red"})
    assert answer.status_code == 400
    assert "colour" in answer.json()


# -- a disconnected broker ------------------------------------------------------------------------------------------


def test_unreachable_broker_is_503_with_a_sentence(broker: Broker, as_operator: APIClient) -> None:
    broker.lose()
    answer = as_operator.get("/api/v1/queues/")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["detail"]
    assert as_operator.get("/api/v1/brokers/").json()[0]["connected"] is False


def test_attempt_on_an_unreachable_broker_is_audited_as_failed(broker: Broker, as_operator: APIClient) -> None:
    broker.lose()
    answer = post(as_operator, "/api/v1/stop-producers/", scope="type=Broker", reason="test")
    assert answer.status_code == 503
    assert AuditEntry.objects.get().outcome == "failed"


def test_connection_lost_during_a_change_is_audited_as_unknown(
    broker: Broker, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose_the_answer(self: InMemoryBroker, *args: Any) -> Any:
        self.disconnect()
        self._check()

    # The link has one connection: replace the object that its calls use.
    broker.lose()
    monkeypatch.setattr(InMemoryBroker, "call", lose_the_answer)
    broker.come_back()
    answer = post(as_operator, "/api/v1/stop-producers/", scope="type=Broker", reason="test")
    assert answer.status_code == 503
    assert AuditEntry.objects.get().outcome == "unknown"


# -- audit ----------------------------------------------------------------------------------------------------------


def test_audit_lists_the_newest_first_and_filters(as_operator: APIClient) -> None:
    post(as_operator, "/api/v1/stop-producers/", scope="type=Broker", reason="one")
    post(as_operator, "/api/v1/start-producers/", scope="type=Broker", reason="two")
    page = as_operator.get("/api/v1/audit/").json()
    assert [row["reason"] for row in page["results"]] == ["two", "one"]
    page = as_operator.get("/api/v1/audit/?operation=stop-producers&user=olga&outcome=done").json()
    assert [row["reason"] for row in page["results"]] == ["one"]
    assert as_operator.get("/api/v1/audit/?user=unknown").json()["count"] == 0
