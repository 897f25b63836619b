"""Simulations and recommendations over HTTP: what other limits would have done."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from brokers.model import object_name
from tests.console.conftest import Broker
from tests.console.other_kind import TYPES as OTHER_TYPES
from tests.console.other_kind import OtherKind
from tests.console.recorded_hour import BASE, T, query
from tests.console.recorded_hour import recorded_hour as recorded_hour  # noqa: PLC0414 -- a fixture
from tests.console.recorded_hour import url as url  # noqa: PLC0414 -- a fixture
from tests.history.delta import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    coverage,
    sample,
    write,
)
from tests.history.whatif import simulation

pytestmark = pytest.mark.django_db


def replay(client: APIClient, status: int = 200, **body: Any) -> Any:
    given = {"queue": "orders", "from": T, "until": T + HOUR} | body
    answer = client.post(f"{BASE}what-if/", given, format="json")
    assert answer.status_code == status, answer.content
    return answer.json()


@pytest.fixture
def crossing(url: str) -> str:
    """Ten minutes of 20 messages/s in and 10 out, then ten of none in: 6,000 messages at most, capacity 1,000."""
    write(url, "coverage", [coverage(T, T + HOUR)])
    rows = []
    for second in range(0, 1800, 2):
        came = min(second, 600) * 20
        went = second * 10 if second <= 1200 else 12_000
        depth = max(0, came - went)
        rows.append(
            sample(
                T + second * SECOND,
                depth,
                enqueued_messages=came,
                dequeued_messages=went,
                stop_messages=1000,
                resume_messages=800,
            )
        )
    write(url, "samples", rows)
    return url


def test_candidates_are_compared_with_the_current_limits(crossing: str, as_viewer: APIClient) -> None:
    found = replay(
        as_viewer,
        candidates=[
            {"capacity_messages": 3000, "resume_messages": 2400},
            {"capacity_messages": 10_000, "resume_messages": 8000},
        ],
    )
    assert found["source"] == "samples"
    assert "not a forecast" in found["caveat"]
    now, more, enough = found["current"], *found["candidates"]
    assert (now["capacity_messages"], now["resume_messages"]) == (1000, 800)
    assert now["overfull_low_ms"] > more["overfull_high_ms"] > enough["overfull_high_ms"] == 0
    assert all(one["overfull_low_ms"] <= one["overfull_high_ms"] for one in (now, more, enough))
    assert (found["recorded_overfull_ms"], now["overfull_low_ms"] > 0) == (0, True)  # the levels were lowered later
    assert now["peak_messages"] <= 1001 < more["peak_messages"] <= 3001
    assert enough["episodes_high"] == 0
    assert found["advice"]["kind"] in ("raise-capacity", "lower-resume")


def test_without_a_resume_level_the_capacity_is_the_resume_level(crossing: str, as_viewer: APIClient) -> None:
    """As DOMAIN.md says; 0 is a level: the queue resumes when it is empty."""
    three = {"capacity_messages": 3000}
    given = [three, {**three, "resume_messages": None}, {**three, "resume_messages": 3000}]
    *same, empty = replay(as_viewer, candidates=[*given, {**three, "resume_messages": 0}])["candidates"]
    assert same[0] == same[1] == same[2]
    assert [one["resume_messages"] for one in (*same, empty)] == [3000, 3000, 3000, 0]
    assert empty["longest_ms"] > same[0]["longest_ms"]


def test_range_without_samples_is_simulated_from_minutes(recorded_hour: str, as_viewer: APIClient) -> None:
    found = replay(as_viewer, **{"from": T - 3 * DAY})
    assert found["source"] == "minutes"
    assert found["recorded_blocked_ms"] > 0


def test_what_the_broker_does_not_report_is_unknown_and_not_zero(
    recorded_hour: str, broker: Broker, as_viewer: APIClient
) -> None:
    broker.wrap = OtherKind
    broker.connected()
    rows = query(as_viewer, "episodes")["results"]
    known = {row["kind"]: {row[name] for name in ("producers", "connections", "blocked_ms")} for row in rows}
    assert known["overfull"] == {None}
    assert None not in known["stopped"]
    exported = as_viewer.get(f"{BASE}episodes/file/", {"from": T, "until": T + HOUR, "kind": "overfull"})
    text = b"".join(exported.streaming_content).decode()  # type: ignore[attr-defined]
    assert {row["blocked_ms"] for row in csv.DictReader(io.StringIO(text))} == {""}
    found = replay(as_viewer, candidates=[{"capacity_messages": 10, "resume_messages": 5}])
    assert found["recorded_blocked_ms"] is found["blocked_producers"] is None
    assert {one["blocked_high_ms"] for one in (found["current"], *found["candidates"])} == {None}
    assert found["recorded_overfull_ms"] > 0
    for of in ("queues", "virtualhosts"):
        top = query(as_viewer, "top", of=of)
        assert (top["rows"], top["unreported"]) == ([], ["local"])
        overfull = query(as_viewer, "top", of=of, measure="overfull")
        assert {row["blocked_ms"] for row in overfull["rows"]} <= {None}
        assert overfull["unreported"] == []
    assert query(as_viewer, "top", measure="overfull")["rows"]
    assert query(as_viewer, "top", of="producers")["rows"][0]["blocked_ms"] == MINUTE, "reported without queues"
    heat = query(as_viewer, "heat")
    assert (heat["queues"], heat["unreported"]) == ([], ["local"])
    assert query(as_viewer, "heat", measure="overfull")["queues"]
    for resolution in ("raw", "minute"):
        series = query(as_viewer, "series", queue="orders", resolution=resolution)
        assert series["at"]
        assert {*series["blocked_producers"], *series["blocked_ms"], series["total_blocked_ms"]} == {None}
        assert {*series["messages"]} != {None}


def test_what_is_not_known_to_be_reported_is_unknown_until_the_first_connection(
    recorded_hour: str, broker: Broker, as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.connected()
    assert query(as_viewer, "top")["rows"]
    monkeypatch.setattr(broker.link, "types_known", False)
    assert (query(as_viewer, "top")["rows"], query(as_viewer, "top")["unreported"]) == ([], ["local"])
    assert query(as_viewer, "episodes", kind="overfull")["results"][0]["blocked_ms"] is None


def test_simulation_offers_only_levels_that_can_be_set(
    recorded_hour: str, broker: Broker, client: Client, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.connected()
    client.force_login(viewer)

    def offered() -> list[str]:
        page = client.get("/history/what-if/default/orders/").content.decode()
        found = re.search(r'<script id="page-settings" type="application/json">(.*?)</script>', page)
        assert found
        return list(json.loads(found[1])["fields"])

    assert {"capacity_messages", "flow_resume_messages", "flow_resume_bytes"} <= set(offered())
    monkeypatch.setattr(broker.link, "types", OTHER_TYPES)
    assert offered() == ["capacity_bytes", "capacity_messages", "overflow"]


def test_queue_without_traffic_has_no_simulation(recorded_hour: str, as_viewer: APIClient) -> None:
    found = replay(as_viewer, queue="nowhere")
    assert (found["source"], found["current"], found["advice"]) == ("none", None, None)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"candidates": [{"capacity_messages": 10, "resume_messages": 11}]}, "resume_messages 11 is above"),
        ({"candidates": [{"resume_bytes": 11}]}, "without a capacity_bytes"),
        ({"candidates": [{"capacity_messages": "many"}]}, "many"),
        ({"candidates": [{"capacity_messages": -1}]}, "-1"),
        ({"candidates": [{"colour": 1}]}, "colour"),
        ({"candidates": [{}] * 11}, "at most 10"),
        ({"candidates": "all"}, "a list"),
        ({"from": T - 200 * DAY}, "the maximum is 100"),
    ],
)
def test_invalid_candidate_is_refused_by_name(
    recorded_hour: str, as_viewer: APIClient, body: dict[str, Any], says: str
) -> None:
    refused = replay(as_viewer, 400, **body)
    assert says in str(refused)


def test_recommendations_are_not_found_before_the_first_run_of_the_job(
    recorded_hour: str, as_viewer: APIClient
) -> None:
    assert "no recommendations" in query(as_viewer, "advice", 404)["detail"]
    assert as_viewer.get(BASE).json()["recommendations"] is False


def test_catalog_states_that_recommendations_are_computed(recorded_hour: str, as_viewer: APIClient) -> None:
    row = {"broker": "local", "virtualhost": "default", "queue": "orders", "begin": T, "at": T + HOUR}
    write(recorded_hour, "recommendations", [{**row, "kind": "none", "text": "The queue was not overfull."}])
    assert as_viewer.get(BASE).json()["recommendations"] is True


COUNTED = ("enqueued_messages", "dequeued_messages", "overfull_ms")


def limit_memory(broker: Broker, limit: int) -> None:
    broker.do(lambda memory: memory.management.update(object_name("Broker"), {"memory_limit": limit}, 1))
    link = broker.connected()
    broker.lose()
    broker.come_back()  # reads the broker again
    assert (link.broker or {})["memory_limit_bytes"] == limit


def test_recommendations_state_what_they_need_together_and_what_the_broker_has(
    url: str, as_viewer: APIClient, broker: Broker
) -> None:
    row = {"broker": "local", "virtualhost": "default", "begin": T, "at": T + HOUR, "text": "Raise it."}
    row |= {"kind": "raise-capacity", "recommended_peak_bytes": 5e6, "peak_bytes": 1e6}
    write(url, "recommendations", [{**row, "queue": name} for name in ("orders", "invoices")])
    limit_memory(broker, 6_000_000)
    (required,) = query(as_viewer, "advice")["required"]
    assert (required["required_bytes"], required["memory_free_bytes"]) == (8_000_000, 6_000_000)
    broker.lose()
    assert query(as_viewer, "advice")["required"] == [{"broker": "local", "required_bytes": 8_000_000}]


def test_capacity_beyond_the_brokers_memory_is_not_recommended(url: str, as_viewer: APIClient, broker: Broker) -> None:
    write(url, "coverage", [coverage(T, T + HOUR)])
    run = simulation.simulate(simulation.loads()["one-off overload"], 300, 200, 1000.0)
    columns = simulation.samples(run, 300, 200)
    rows = zip(*(columns[name] for name in ("ms", "depth_messages", *COUNTED)), strict=True)
    levels = {"stop_messages": 300, "resume_messages": 200}
    samples = [
        sample(
            T + int(ms) - simulation.START, int(depth), **dict(zip(COUNTED, map(int, counts), strict=True)), **levels
        )
        for ms, depth, *counts in rows
        if ms < simulation.START + HOUR
    ]
    write(url, "samples", samples)
    limit_memory(broker, 1000)
    refused = replay(as_viewer)["advice"]
    assert (refused["kind"], refused["limits"]) == ("no-room", None)
    assert "the broker's memory has 1.0 kB free below its limit" in refused["text"]
    broker.lose()  # what the broker has is not known
    assert replay(as_viewer)["advice"]["kind"] == "raise-capacity"
