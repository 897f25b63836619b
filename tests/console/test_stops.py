"""Stops through the API: by scope, by name and by filter, with an end, staged starts, and several brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.model import object_name
from brokers.testing import START, InMemoryBroker
from console.audit.models import AuditEntry
from console.links.registry import close_links, link, links
from console.operations.halted_starts import HaltedStarts
from tests.console.conftest import QUICK, Broker, signed_in, until

pytestmark = pytest.mark.django_db

ALL = {"scope": "type=Broker"}
#: Of the clock of the broker in memory, ms.
NEXT_YEAR = START + 365 * 24 * 3600 * 1000


def queue(name: str) -> str:
    return str(object_name("Queue", virtualhost="default", name=name))


def crowd(memory: InMemoryBroker, queues: int, producers: int) -> None:
    for n in range(queues):
        for _ in range(producers):
            memory.attach_producer(f"q{n:03}")


def post(client: APIClient, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, format="json")


def answer_of(client: APIClient, path: str, **body: Any) -> Any:
    answer = post(client, path, **body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def wait_for_queues(broker: Broker, count: int) -> None:
    until(lambda: link().queue_count == count and all(row["producers"] for row in link().queues()))


def test_thousand_producers_on_a_hundred_queues_are_stopped_and_undone(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 100, 10))
    broker.sample()
    wait_for_queues(broker, 100)
    until(lambda: sum(row["producers"] for row in link().queues()) == 1000)
    preview = answer_of(as_operator, "stop-producers/preview/", **ALL)
    assert (preview["queues"], preview["producers"], len(preview["largest"])) == (100, 1000, 5)
    stopped = answer_of(as_operator, "stop-producers/", **ALL, reason="incident 7")
    assert (stopped["queues"], stopped["producers"], stopped["changed"]) == (100, 1000, True)
    assert stopped["stopped"] + stopped["draining"] == 1000
    progress = answer_of(as_operator, "stop-producers/progress/", **ALL)
    assert progress["draining"] == stopped["draining"] > 0
    broker.sample()
    until(lambda: answer_of(as_operator, "stop-producers/progress/", **ALL)["stopped"] == 1000)
    assert answer_of(as_operator, "stop-producers/progress/", **ALL)["draining"] == 0
    undone = answer_of(as_operator, "start-producers/", **ALL, reason="undo: incident 7", only=True)
    assert (undone["changed"], undone["producers"]) == (True, 1000)
    assert broker.do(lambda memory: sum(p.blocked for p in memory.engine.producers.values())) == 0


def test_concurrent_stops_by_two_users_make_one_stop_and_two_audit_rows(broker: Broker, operator: User) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 3, 2))
    other = User.objects.create_superuser("otto")
    answers = [answer_of(signed_in(user), "stop-producers/", **ALL, reason="incident 7") for user in (operator, other)]
    assert [answer["changed"] for answer in answers] == [True, False]
    (stop,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    assert stop.actor == "olga"
    done = AuditEntry.objects.filter(operation="stop-producers", outcome="done")
    assert sorted(done.values_list("user_name", flat=True)) == ["olga", "otto"]
    again = [answer_of(signed_in(user), "start-producers/", **ALL, reason="x")["changed"] for user in (other, operator)]
    assert again == [True, False]


def test_undo_of_a_stop_by_name_keeps_earlier_stops(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 4, 1))
    wait_for_queues(broker, 4)
    answer_of(as_operator, "stop-producers/", scope=queue("q000"), reason="earlier")
    chosen = [queue("q000"), queue("q001")]
    preview = answer_of(as_operator, "stop-producers/preview/", **ALL, queues=chosen)
    assert (preview["queues"], preview["producers"]) == (2, 2)
    answer = answer_of(as_operator, "stop-producers/", **ALL, queues=chosen, reason="mine")
    assert (answer["queues"], answer["changed_queues"]) == (2, [queue("q001")])
    answer_of(as_operator, "start-producers/", **ALL, queues=answer["changed_queues"], reason="undo", only=True)
    states = broker.do(lambda memory: {q.name: q.gate.state.value for q in memory.engine.queues()})
    assert states == {"q000": "STOPPED", "q001": "NORMAL", "q002": "NORMAL", "q003": "NORMAL"}
    assert "q001" in AuditEntry.objects.filter(operation="stop-producers").first().detail  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "aim",
    [
        {"scope": "type=Broker"},
        {"scope": "type=VirtualHost,name=default", "pattern": "q000"},
        {"scope": queue("q000")},
        {"scope": "type=VirtualHost,name=default", "user": "anonymous"},
        {"scope": queue("q000"), "container_id": "not connected"},
    ],
)
def test_stop_that_changes_the_end_of_another_says_whose_it_was(
    broker: Broker, operator: User, aim: dict[str, str]
) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 2, 1))
    wait_for_queues(broker, 2)
    otto, olga = signed_in(User.objects.create_superuser("otto")), signed_in(operator)
    first = answer_of(otto, "stop-producers/", **aim, reason="older")
    assert (first["changed"], first["stops_before"]) == (True, [])
    until(lambda: bool((broker.link.broker or {}).get("stops")))
    second = answer_of(olga, "stop-producers/", **aim, reason="mine", for_ms=60_000)
    assert second["changed"] is True
    (before,) = second["stops_before"]
    assert (before["reason"], before["actor"], before["until"], before["below"]) == ("older", "otto", None, 0)
    assert before["replaced"] is False
    # Also of one that blocks none of the queue's producers, so that the queue does not show it.
    (stop,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    ahead = broker.do(lambda memory: memory.engine.turn.ahead)
    assert before["after"] == {"until": stop.end.until + ahead, "below": 0}
    assert second["stops_made"] == []
    made = {"object": aim["scope"], "since": before["since"], "until": None, "below": 0}
    assert first["stops_made"] == [made]  # what an undo compares


def depth_used(broker: Broker) -> None:
    """One queue, q000, with a producer and 8 messages of a capacity of 10."""
    broker.connected()

    def act(memory: InMemoryBroker) -> None:
        memory.management.create(object_name("Queue", virtualhost="default", name="q000"), {"capacity_messages": 10})
        memory.fill("q000", 8)

    broker.do(act)
    wait_for_queues(broker, 1)
    broker.sample_until(lambda: broker.link.broker_now < NEXT_YEAR)  # the broker's clock is known


@pytest.mark.parametrize("end", [{"for_ms": 600_000}, {"below": 40}, {"for_ms": 600_000, "below": 40}, {}])
@pytest.mark.parametrize("client", [{}, {"user": "anonymous"}])
def test_end_that_a_stop_has_replaced_can_be_restored_as_it_was(
    broker: Broker, as_operator: APIClient, end: dict[str, int], client: dict[str, str]
) -> None:
    """What the undo does: it gives the stop the end that `stops_before` names."""
    depth_used(broker)
    aim = {"scope": "type=VirtualHost,name=default", **client}
    answer_of(as_operator, "stop-producers/", **aim, reason="older", **end)
    (stop,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    (before,) = answer_of(as_operator, "stop-producers/", **aim, reason="mine", for_ms=5_000)["stops_before"]
    again = {name: before[name] for name in ("until", "below") if before[name]}
    assert answer_of(as_operator, "stop-producers/", **aim, reason="undo: mine", **again)["changed"] is True
    (restored,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    assert (restored.reason, restored.actor, restored.since) == (stop.reason, stop.actor, stop.since)
    assert restored.end.below == stop.end.below
    assert (restored.end.until is None) is (stop.end.until is None)
    if stop.end.until is not None:
        assert abs(restored.end.until - stop.end.until) < 5_000  # by the console's estimate of the broker's clock


def test_earlier_end_that_would_end_the_stop_at_once_is_refused_with_the_reason(
    broker: Broker, as_operator: APIClient
) -> None:
    depth_used(broker)
    answer_of(as_operator, "stop-producers/", **ALL, reason="older", below=40)
    answer_of(as_operator, "stop-producers/", **ALL, reason="mine", for_ms=60_000)
    broker.do(lambda memory: memory.consume(memory.attach_consumer("q000"), 8))
    refused = post(as_operator, "stop-producers/", **ALL, reason="undo: mine", below=40)
    assert (refused.status_code, "would end at once" in refused.json()["below"][0]) == (400, True)
    (stop,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    assert stop.end.below == 0


def test_time_at_which_a_stop_ends_is_to_come_and_not_given_twice(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    wait_for_queues(broker, 1)
    now = broker.link.broker_now
    for wrong in ({"until": now - 1}, {"until": now + 60_000, "for_ms": 60_000}, {"until": -1}):
        refused = post(as_operator, "stop-producers/", **ALL, reason="r", **wrong)
        assert (refused.status_code, list(refused.json())) == (400, ["until"]), wrong
    refused = post(as_operator, "stop-producers/", **ALL, reason="r", brokers=["local"], until=now - 1)
    assert (refused.status_code, list(refused.json())) == (400, ["until"])
    assert not broker.do(lambda memory: list(memory.engine.stops.values()))
    answer = answer_of(as_operator, "stop-producers/", **ALL, reason="r", brokers=["local"], until=now + 60_000)
    assert answer["brokers"][0]["changed"] is True
    (stop,) = broker.do(lambda memory: list(memory.engine.stops.values()))
    assert 0 < stop.end.until - broker.do(lambda memory: memory.engine.turn.now) <= 60_000


def test_stop_in_a_staged_start_is_named_as_replaced(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    wait_for_queues(broker, 1)
    answer_of(as_operator, "stop-producers/", **ALL, reason="older")
    answer_of(as_operator, "start-producers/", **ALL, reason="in stages", rate=10)
    (before,) = answer_of(as_operator, "stop-producers/", **ALL, reason="mine")["stops_before"]
    assert before["replaced"] is True


def test_stop_of_named_queues_says_which_were_stopped_already(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 3, 1))
    wait_for_queues(broker, 3)
    answer_of(as_operator, "stop-producers/", scope=queue("q000"), reason="older")
    answer_of(as_operator, "stop-producers/", scope=queue("q002"), reason="of another queue")
    named = [queue("q000"), queue("q001")]
    answer = answer_of(as_operator, "stop-producers/", **ALL, queues=named, reason="mine", for_ms=60_000)
    assert answer["changed_queues"] == named
    (made,) = answer["stops_made"]
    assert (made["object"], made["below"], made["until"] - made["since"]) == (queue("q001"), 0, 60_000)
    assert [(each["object"], each["reason"]) for each in answer["stops_before"]] == [(queue("q000"), "older")]


def test_preview_of_a_filter_lists_the_matching_queues(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 12, 1))
    wait_for_queues(broker, 12)
    preview = answer_of(as_operator, "stop-producers/preview/", **ALL, match={"search": "q01", "states": ["NORMAL"]})
    assert preview["objects"] == [queue("q010"), queue("q011")]
    assert post(as_operator, "stop-producers/preview/", **ALL, match={"search": "nothing"}).status_code == 404
    assert post(as_operator, "stop-producers/preview/", **ALL, match={"states": ["ODD"]}).status_code == 400
    assert post(as_operator, "stop-producers/preview/", **ALL, match={"only": ["odd"]}).status_code == 400
    blocked = {"search": "q01", "only": ["blocked"]}
    assert post(as_operator, "stop-producers/preview/", **ALL, match=blocked).status_code == 404  # none is
    assert post(as_operator, "stop-producers/preview/", **ALL, match="q").status_code == 400


def test_broker_ends_a_stop_after_its_duration(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    answer_of(as_operator, "stop-producers/", scope=queue("q000"), reason="a moment", for_ms=60_000)
    broker.do(lambda memory: memory.advance(59_000, step=1000))
    assert broker.do(lambda memory: memory.engine.queue("default", "q000").gate.state.stopped)
    broker.do(lambda memory: memory.advance(2_000, step=1000))
    assert not broker.do(lambda memory: memory.engine.queue("default", "q000").gate.state.stopped)
    until(lambda: link().queue(queue("q000"))["state"] == "NORMAL")  # type: ignore[index]


def test_stop_shows_its_staged_start(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    answer_of(as_operator, "stop-producers/", **ALL, reason="incident 7")
    answer = answer_of(as_operator, "start-producers/", **ALL, reason="staged", rate=50, step_ms=5000, halt=40)
    assert answer["changed"] is True
    (stop,) = broker_attributes(as_operator)["stops"]
    assert {key: stop["stage"][key] for key in ("rate", "step_ms", "halt")} == {
        "rate": 50,
        "step_ms": 5000,
        "halt": 40,
    }
    for wrong in ({"halt": 40}, {"rate": 50, "halt": 101}, {"rate": 50, "step_ms": 5}, {"rate": -1}):
        assert post(as_operator, "start-producers/", **ALL, reason="staged", **wrong).status_code == 400


def halted(broker: Broker, client: APIClient) -> None:
    """A staged start of all producers that halted, since nothing is consumed."""
    link = broker.connected()
    name = object_name("Queue", virtualhost="default", name="q000")
    broker.do(lambda memory: memory.management.create(name, {"capacity_messages": 100}))
    producer = broker.do(lambda memory: memory.attach_producer("q000"))
    answer_of(client, "stop-producers/", **ALL, reason="incident 7")
    answer_of(client, "start-producers/", **ALL, reason="back to work", rate=50, step_ms=5000, halt=40)
    for _ in range(4):
        broker.do(lambda memory: (memory.advance(1000, step=100), memory.publish(producer, 20)))
    broker.do(lambda memory: memory.advance(1000, step=100))
    until(lambda: ((link.broker or {}).get("stops") or [{}])[0].get("halted"))


def test_halted_staged_start_has_one_audit_row_that_refers_to_the_start(broker: Broker, as_operator: APIClient) -> None:
    halted(broker, as_operator)
    start = AuditEntry.objects.get(operation="start-producers")
    recorder = HaltedStarts(lambda: [broker.link])
    recorder.check()
    recorder.check()
    HaltedStarts(lambda: [broker.link]).check()  # after a restart
    row = AuditEntry.objects.get(operation="staged-start-halted")
    assert (row.user, row.user_name, row.object, row.outcome) == (None, "(system)", "type=Broker", "done")
    assert re.search(r"halted: queue q000 is at \d\d%, above 40%", row.reason)
    assert f"(audit row {start.pk})" in row.detail


def test_halted_staged_start_is_a_condition_of_the_queue_that_halted_it(broker: Broker, as_operator: APIClient) -> None:
    halted(broker, as_operator)
    until(broker.link.conditions)
    (found,) = as_operator.get("/api/v1/conditions/", {"kind": "halted-start"}).json()["results"]
    assert (found["object"], found["severity"]) == (queue("q000"), "trouble")
    assert re.search(r"\d\d%, above 40%", found["saw"])
    answer_of(as_operator, "start-producers/", **ALL, reason="slower")
    until(lambda: not [c for c in broker.link.conditions() if c.finding.kind == "halted-start"])


def broker_attributes(client: APIClient) -> Any:
    return client.get("/api/v1/brokers/local/objects/type=Broker/").json()["attributes"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**ALL, "for_ms": -1}, "for_ms"),
        ({**ALL, "for_ms": "soon"}, "for_ms"),
        ({**ALL, "below": 100}, "below"),
        ({**ALL, "below": True}, "below"),
        ({**ALL, "below": 20}, "below"),
        ({**ALL, "queues": []}, "queues"),
        ({**ALL, "queues": "q000"}, "queues"),
        ({**ALL, "queues": ["type=Broker"]}, "queues"),
        ({**ALL, "queues": [queue("q000")], "pattern": ">"}, "queues"),
        ({"scope": queue("q000"), "queues": [queue("q000")]}, "queues"),
        ({"scope": queue("q000"), "brokers": ["*"]}, "brokers"),
        ({**ALL, "brokers": []}, "brokers"),
        ({"scope": "type=Policy,virtualhost=default,pattern=a"}, "scope"),
    ],
)
def test_invalid_stop_is_refused_with_the_wrong_field(
    broker: Broker, as_operator: APIClient, body: dict[str, Any], field: str
) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    answer = post(as_operator, "stop-producers/", **body, reason="a test")
    assert answer.status_code == 400, answer.content
    assert field in answer.json()
    assert not broker.do(lambda memory: memory.engine.stops)


def test_viewer_can_preview_and_see_progress_but_not_stop_or_start(broker: Broker, as_viewer: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 2, 1))
    wait_for_queues(broker, 2)
    assert post(as_viewer, "stop-producers/preview/", **ALL).status_code == 200
    assert post(as_viewer, "stop-producers/progress/", **ALL).status_code == 200
    for path in ("stop-producers/", "start-producers/"):
        for body in (ALL, {**ALL, "queues": [queue("q000")]}, {**ALL, "brokers": ["*"]}):
            assert post(as_viewer, path, **body, reason="because").status_code == 403
    assert not broker.do(lambda memory: memory.engine.stops)
    assert AuditEntry.objects.filter(outcome="refused").count() == 6


# -- several brokers ------------------------------------------------------------------------------------------------


@pytest.fixture
def second(broker: Broker, settings: Any) -> Iterator[Broker]:
    close_links()
    other = Broker()
    settings.HEADGATE_BROKERS = [
        *settings.HEADGATE_BROKERS,
        {"slug": "other", "title": "Other broker", "connect": other.connect, "options": {}, "pace": QUICK},
    ]
    until(lambda: all(one.connected for one in links()))
    yield other
    close_links()


def test_all_brokers_are_stopped_in_one_call(broker: Broker, second: Broker, as_operator: APIClient) -> None:
    for each in (broker, second):
        each.do(lambda memory: crowd(memory, 2, 1))
    until(lambda: all(one.queue_count == 2 and all(r["producers"] for r in one.queues()) for one in links()))
    preview = answer_of(as_operator, "stop-producers/preview/", **ALL, brokers=["*"])
    assert (preview["queues"], preview["producers"]) == (4, 4)
    answer = answer_of(as_operator, "stop-producers/", **ALL, brokers=["*"], reason="everything")
    assert (answer["queues"], answer["changed"]) == (4, True)
    assert [(each["broker"], each["changed"]) for each in answer["brokers"]] == [("local", True), ("other", True)]
    assert set(AuditEntry.objects.values_list("broker", flat=True)) == {"local", "other"}


def test_disconnected_broker_does_not_prevent_the_stop_at_others(
    broker: Broker, second: Broker, as_operator: APIClient
) -> None:
    broker.do(lambda memory: crowd(memory, 1, 1))
    second.do(lambda memory: memory.disconnect())
    until(lambda: not link("other").connected)
    answer = answer_of(as_operator, "stop-producers/", **ALL, brokers=["*"], reason="everything")
    assert answer["queues"] == 1
    assert "error" in answer["brokers"][1]
    broker.lose()
    assert post(as_operator, "stop-producers/", **ALL, brokers=["*"], reason="again").status_code == 503
