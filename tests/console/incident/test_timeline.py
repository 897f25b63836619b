"""The timeline of events and audit rows: search, pages, new entries, export."""

from __future__ import annotations

import csv
import datetime as dt
import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.incident import timeline
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")
STOCK = object_name("Queue", virtualhost="default", name="stock")


def busy(memory: InMemoryBroker) -> None:
    """Two queues become overfull; both have producers."""
    for name in (ORDERS, STOCK):
        memory.management.create(name, {"capacity_messages": 5})
        memory.fill(name["name"], 10)


@pytest.fixture
def happened(broker: Broker, as_operator: APIClient, as_viewer: APIClient) -> Broker:
    """After `busy`, olga stops orders and starts it again, and vera is refused."""
    broker.connected()
    broker.do(busy)
    for path, client in (("stop", as_operator), ("stop", as_viewer), ("start", as_operator)):
        body = {"scope": str(ORDERS), "reason": f"{path} because of incident 7"}
        client.post(f"/api/v1/{path}-producers/", body, format="json")
    until(lambda: broker.link.window.last == broker.do(lambda memory: memory.engine.last_event))
    return broker


def search(client: APIClient, **query: Any) -> Any:
    answer = client.get("/api/v1/timeline/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def kinds(client: APIClient, **query: Any) -> list[str]:
    return [entry["kind"] for entry in search(client, **query)["entries"]]


def test_events_and_audit_rows_are_one_stream_the_newest_first(happened: Broker, as_viewer: APIClient) -> None:
    answer = search(as_viewer)
    entries = answer["entries"]
    assert {entry["source"] for entry in entries} == {"broker", "people"}
    assert [entry["at"] for entry in entries] == sorted((entry["at"] for entry in entries), reverse=True)
    assert answer["more"] is False
    assert len({entry["id"] for entry in entries}) == len(entries)
    total = happened.do(lambda memory: memory.engine.last_event)
    assert len(entries) == total + 3


def test_search_by_queue_actor_kind_producer_and_text(happened: Broker, as_viewer: APIClient) -> None:
    assert kinds(as_viewer, kind="queue-overfull", queue="stock") == ["queue-overfull"]
    by_olga = search(as_viewer, actor="OLGA")["entries"]
    assert sorted((entry["source"], entry["kind"]) for entry in by_olga) == [
        ("broker", "producers-started"),
        ("broker", "producers-stopped"),
        ("people", "start-producers"),
        ("people", "stop-producers"),
    ]
    of_orders = search(as_viewer, queue=str(ORDERS))["entries"]
    assert {entry["queue"] for entry in of_orders} == {str(ORDERS)}
    assert "producer-blocked" in [entry["kind"] for entry in of_orders]
    assert set(kinds(as_viewer, producer="sender")) <= {"producer-blocked", "producer-released"}
    assert kinds(as_viewer, producer="sender")
    assert kinds(as_viewer, search="INCIDENT 7", source="broker") == ["producers-started", "producers-stopped"]
    refused = search(as_viewer, actor="vera")["entries"]
    assert [(entry["kind"], entry["outcome"]) for entry in refused] == [("stop-producers", "refused")]
    assert kinds(as_viewer, kind=["queue-overfull", "queue-created"], queue="orders") == [
        "queue-overfull",
        "queue-created",
    ]
    assert kinds(as_viewer, search="nothing of the kind") == []


def test_entry_of_a_blocked_producer_has_its_reasons(happened: Broker, as_viewer: APIClient) -> None:
    blocked = search(as_viewer, kind="producer-blocked", search="orders")["entries"]
    assert [entry["reason"] for entry in blocked if "(Queue orders)" in entry["text"]] == ["queue-overfull:orders"]


def test_search_by_time(happened: Broker, as_viewer: APIClient) -> None:
    entries = search(as_viewer)["entries"]
    people = [entry for entry in entries if entry["source"] == "people"]
    first = people[-1]["at"]
    assert {e["source"] for e in search(as_viewer, **{"from": first})["entries"]} == {"people"}
    assert {e["source"] for e in search(as_viewer, until=first - 1000)["entries"]} == {"broker"}
    named = dt.datetime.fromtimestamp(first / 1000, dt.UTC).isoformat()
    before, since = (search(as_viewer, **{side: named})["entries"] for side in ("until", "from"))
    assert since + before == entries
    assert people[-1] in since
    assert all(entry["at"] < first for entry in before)


def test_invalid_time_is_refused_with_an_example(broker: Broker, as_viewer: APIClient) -> None:
    refused = as_viewer.get("/api/v1/timeline/", {"until": "noon"})
    assert refused.status_code == 400
    assert "2026-03-14T12:00:00Z" in refused.json()["until"][0]


def test_pages_contain_every_entry_once(happened: Broker, as_viewer: APIClient) -> None:
    whole = [entry["id"] for entry in search(as_viewer)["entries"]]
    paged: list[str] = []
    position: dict[str, int] = {}
    for _ in range(len(whole) + 2):
        answer = search(as_viewer, count=3, **position)
        paged += [entry["id"] for entry in answer["entries"]]
        if not answer["more"]:
            break
        position = {"before_event": answer["before_event"], "before_audit": answer["before_audit"]}
    assert paged == whole


def test_search_that_uses_up_its_budget_continues_from_its_position(
    happened: Broker, as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_CHUNK", 2)
    monkeypatch.setattr(timeline, "_BUDGET", 4)
    found: list[str] = []
    position: dict[str, int] = {}
    for _ in range(50):
        answer = search(as_viewer, kind="queue-created", **position)
        found += [entry["object"] for entry in answer["entries"]]
        if not answer["more"]:
            break
        assert answer["searched_to"] is not None
        position = {"before_event": answer["before_event"], "before_audit": answer["before_audit"]}
    assert found == [str(STOCK), str(ORDERS)]


def test_new_entries_match_the_same_search(happened: Broker, as_viewer: APIClient) -> None:
    answer = search(as_viewer, kind="queue-overfull")
    position = {"after_event": answer["newest_event"], "after_audit": answer["newest_audit"]}
    assert search(as_viewer, kind="queue-overfull", **position)["entries"] == []
    name = object_name("Queue", virtualhost="default", name="late")

    def later(memory: InMemoryBroker) -> None:
        memory.management.create(name, {"capacity_messages": 5})
        memory.fill("late", 10)

    happened.do(later)
    until(lambda: happened.link.window.last == happened.do(lambda memory: memory.engine.last_event))
    fresh = search(as_viewer, kind="queue-overfull", **position)
    assert [entry["object"] for entry in fresh["entries"]] == [str(name)]
    assert fresh["newest_event"] > answer["newest_event"]


def test_events_older_than_memory_come_from_the_journal(
    broker: Broker, as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = broker.connected()

    def many(memory: InMemoryBroker) -> None:
        memory.management.create(ORDERS, {})
        for n in range(5200):
            memory.engine.turn.add_fact("queue-purged", STOCK, "x", f"number {n}", {})
        memory._end_turn()

    broker.do(many)
    until(lambda: link.window.last == broker.do(lambda memory: memory.engine.last_event), limit=20)
    assert link.window.first is not None
    assert link.window.first > 1
    assert kinds(as_viewer, kind="queue-created") == ["queue-created"]


def test_export_has_every_entry_that_matches(happened: Broker, as_viewer: APIClient) -> None:
    entries = search(as_viewer, queue="orders")["entries"]
    answer = as_viewer.get("/api/v1/timeline/download/", {"queue": "orders", "as": "json"})
    assert answer["Headgate-More"] == "false"
    assert "attachment" in answer["Content-Disposition"]
    exported = answer.json()
    assert (exported["more"], exported["stale"], exported["entries"]) == (False, False, entries)
    assert answer["Headgate-As-Of"] == str(exported["as_of"])
    text = as_viewer.get("/api/v1/timeline/download/", {"queue": "orders", "as": "csv"}).content.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["id"] for row in rows] == [entry["id"] for entry in entries]
    assert rows[0]["time"].endswith("+00:00")


def test_export_does_not_contain_formulas_of_clients() -> None:
    entry = dict.fromkeys(timeline.COLUMNS, "") | {"at": 0, "reason": "=HYPERLINK(1)"}
    assert "'=HYPERLINK(1)" in timeline.as_csv([entry])


@pytest.mark.parametrize(
    "query", [{"source": "operator"}, {"told_by": "operator"}, {"from": "yesterday"}, {"count": "0"}]
)
def test_invalid_parameters_are_refused(broker: Broker, as_viewer: APIClient, query: dict[str, str]) -> None:
    assert as_viewer.get("/api/v1/timeline/", query).status_code == 400
    assert as_viewer.get("/api/v1/timeline/download/", {**query, "as": "pdf"}).status_code == 400


def test_invalid_parameters_are_refused_also_while_the_broker_is_disconnected(
    broker: Broker, as_viewer: APIClient
) -> None:
    broker.connected()
    broker.lose()
    for name in ("count", "before_event", "before_audit", "after_event"):
        answer = as_viewer.get("/api/v1/timeline/", {name: "-5"})
        assert (answer.status_code, list(answer.json())) == (400, [name])


def test_deprecated_name_of_the_source_still_works(happened: Broker, as_viewer: APIClient) -> None:
    by_old_name = search(as_viewer, told_by="people")["entries"]
    assert by_old_name == search(as_viewer, source="people")["entries"]
    assert {(entry["source"], entry["told_by"]) for entry in by_old_name} == {("people", "people")}


def test_anonymous_request_for_the_timeline_is_refused(db: None, broker: Broker) -> None:
    assert APIClient().get("/api/v1/timeline/").status_code == 401
    assert APIClient().get("/api/v1/timeline/download/", {"as": "csv"}).status_code == 401


def test_step_back_of_the_clock_hides_nothing_and_repeats_nothing(broker: Broker, as_viewer: APIClient) -> None:
    link = broker.connected()

    def stepped(memory: InMemoryBroker) -> None:
        for n in range(20):
            memory.engine.turn.add_fact("queue-purged", STOCK, "x", f"before {n}", {})
        memory._end_turn()
        memory.engine.turn.now -= 3_600_000  # the host's clock was set back by an hour
        for n in range(20):
            memory.engine.turn.add_fact("queue-purged", STOCK, "x", f"after {n}", {})
        memory._end_turn()

    broker.do(stepped)
    until(lambda: link.window.last == broker.do(lambda memory: memory.engine.last_event))
    expected = [f"{when} {n}" for when in ("after", "before") for n in range(19, -1, -1)]
    found: list[str] = []
    position: dict[str, int] = {}
    for _ in expected:
        answer = search(as_viewer, kind="queue-purged", count=7, **position)
        found += _texts(answer["entries"])
        if not answer["more"]:
            break
        position = {"before_event": answer["before_event"], "before_audit": answer["before_audit"]}
    assert found == expected
    exported = as_viewer.get("/api/v1/timeline/download/", {"kind": "queue-purged", "as": "json"}).json()
    assert _texts(exported["entries"]) == expected
    latest = min(entry["at"] for entry in exported["entries"][20:])
    assert _texts(search(as_viewer, kind="queue-purged", **{"from": latest})["entries"]) == expected[20:]


def _texts(entries: list[dict[str, Any]]) -> list[str]:
    """What each event says, without its log's prefix."""
    return [entry["text"].rpartition(" : ")[2] for entry in entries]


@pytest.mark.parametrize("count", [2500, 700])
def test_answer_about_news_says_when_it_leaves_some_out(broker: Broker, as_viewer: APIClient, count: int) -> None:
    link = broker.connected()
    answer = search(as_viewer)
    position = {"after_event": answer["newest_event"], "after_audit": answer["newest_audit"]}
    assert search(as_viewer, **position)["more"] is False

    def many(memory: InMemoryBroker) -> None:
        for n in range(count):
            memory.engine.turn.add_fact("producer-blocked", STOCK, "x", f"number {n}", {})
        memory._end_turn()

    broker.do(many)
    until(lambda: link.window.last == broker.do(lambda memory: memory.engine.last_event), limit=20)
    assert search(as_viewer, **position)["more"] is True
    fresh = {"after_event": link.newest_event - 499, "after_audit": answer["newest_audit"]}
    news = search(as_viewer, **fresh)
    assert (news["more"], len(news["entries"])) == (False, 499)


@pytest.mark.parametrize("name", ["orders", "größe", 'the "best"'])
def test_stop_of_named_queues_is_in_the_timeline_of_these_alone(
    broker: Broker, as_operator: APIClient, as_viewer: APIClient, name: str
) -> None:
    broker.connected()
    queues = [object_name("Queue", virtualhost="default", name=each) for each in (name, f"{name}.eu")]
    broker.do(lambda memory: [memory.management.create(queue, {}) for queue in queues])
    until(lambda: len(broker.link.queues()) == 2)
    body = {"scope": "type=Broker", "queues": [str(queues[1])], "reason": "incident 7"}
    assert as_operator.post("/api/v1/stop-producers/", body, format="json").status_code == 200
    of_each = [
        [entry["kind"] for entry in search(as_viewer, queue=str(queue), source="people")["entries"]] for queue in queues
    ]
    assert of_each == [[], ["stop-producers"]]
