"""Absurd requests to the history's API: an answer, or a refusal that names the parameter; never a server error."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.history.delta import DAY, HOUR, MINUTE, coverage, episode, event, rollup, sample, write

NOW = time.time_ns() // 1_000_000 // HOUR * HOUR
QUEUE = {"broker": "local", "virtualhost": "default", "queue": "orders"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A queue with a recorded hour: a sample each 150 ms, a gap of 20 minutes, deleted and created again."""
    url = str(tmp_path_factory.mktemp("history"))
    samples = []
    for number, at in enumerate(range(NOW - HOUR, NOW, 150)):
        if HOUR / 3 <= at - NOW + HOUR < 2 * HOUR / 3:
            continue
        since = number if number < 20_000 else number - 20_000
        counters = {"enqueued_messages": 2 * since, "dequeued_messages": since}
        state = "OVERFULL" if number % 1000 > 800 else "NORMAL"
        samples.append(sample(at, since % 1000, **counters, state=state))
    write(url, "samples", samples)
    minutes = range(NOW - HOUR, NOW, MINUTE)
    write(url, "minutes", [rollup(at, messages_mean=5.0, messages_in=50, messages_out=50) for at in minutes])
    write(url, "hours", [rollup(NOW - HOUR)])
    write(url, "days", [rollup((NOW - HOUR) // DAY * DAY)])
    write(url, "events", [event(NOW - HOUR, "queue-created", 1, queue="orders")])
    write(url, "episodes", [episode(NOW - HOUR, NOW - MINUTE)])
    write(url, "coverage", [coverage(NOW - HOUR, NOW - 40 * MINUTE), coverage(NOW - 20 * MINUTE, NOW)])
    return url


@pytest.fixture
def client(url: str, settings: Any, db: Any) -> APIClient:
    settings.HEADGATE_HISTORY_URL = url
    client = APIClient()
    client.force_login(User.objects.create_superuser("ada"))
    return client


RANGES = [
    {"from": 0, "until": 1},
    {"from": -(10**18), "until": -(10**18) + 1000},
    {"from": 10**18, "until": 10**18 + 1},
    {"from": -62_135_596_800_001, "until": -62_135_596_800_000},
    {"from": NOW - 1000, "until": NOW},
    {"from": NOW, "until": NOW - 1},
    {"from": NOW + DAY, "until": NOW + 2 * DAY},
    {"from": NOW - 365 * DAY, "until": NOW},
    {"from": NOW - 1199 * DAY, "until": NOW},
    {"from": NOW - HOUR, "until": NOW},
    {"from": "0001-01-01T00:00:00Z", "until": "0001-01-02T00:00:00Z"},
    {"from": "9999-12-30T00:00:00Z", "until": "9999-12-31T00:00:00Z"},
    {"from": "nan", "until": "inf"},
    {"from": "1e3", "until": "²"},
]


@pytest.mark.parametrize("call", ["series", "top", "heat", "episodes", "events"])
def test_any_range_has_an_answer_or_a_refusal(client: APIClient, call: str) -> None:
    for given in RANGES:
        about: dict[str, Any] = {} if call in ("top", "heat") else {**QUEUE}
        answer = client.get(f"/api/v1/history/{call}/", about | given)
        assert answer.status_code in (200, 400), (call, given, answer.content[:300])
        if answer.status_code == 400:
            assert "from" in answer.content.decode() or "until" in answer.content.decode(), answer.content


@pytest.mark.parametrize("resolution", ["raw", "minute", "hour", "day", "auto"])
def test_any_resolution_has_points_or_a_refusal(client: APIClient, resolution: str) -> None:
    for span in (1, 1000, HOUR, 12_000_000, DAY, 100 * DAY, 1200 * DAY):
        answer = client.get(
            "/api/v1/history/series/", QUEUE | {"from": NOW - span, "until": NOW, "resolution": resolution}
        )
        found = answer.json()
        if answer.status_code == 400:
            assert list(found) == ["resolution"], found
            continue
        assert answer.status_code == 200
        assert found["resolution"] in ("raw", "minute", "hour", "day")
        assert len(found["at"]) == len(found["messages"])


LIMITS = {"capacity_messages": 0, "resume_messages": 0, "capacity_bytes": 0, "resume_bytes": 0}
CANDIDATES = [
    LIMITS,
    LIMITS | {"capacity_messages": 1},
    LIMITS | {"capacity_messages": 10**18, "resume_messages": 10**18},
    LIMITS | {"capacity_bytes": 1},
    LIMITS | {"capacity_bytes": 10**18, "capacity_messages": 3, "resume_messages": 3},
    LIMITS | {"capacity_messages": -1},
    LIMITS | {"capacity_messages": 10**30},
    LIMITS | {"capacity_messages": 5, "resume_messages": 6},
    LIMITS | {"resume_bytes": 6},
    LIMITS | {"capacity_messages": float("nan")},
    LIMITS | {"capacity_messages": float("inf")},
    LIMITS | {"capacity_messages": 1.5},
    LIMITS | {"capacity_messages": None},
    LIMITS | {"capacity_messages": "many"},
    LIMITS | {"capacity_messages": True},
    {},
    5,
]


def test_simulation_of_any_range_has_an_answer_or_a_refusal(client: APIClient) -> None:
    for given in RANGES:
        answer = client.post("/api/v1/history/what-if/", QUEUE | given | {"candidates": [CANDIDATES[1]]}, format="json")
        assert answer.status_code in (200, 400), answer.content
        found = answer.json()
        if answer.status_code == 400:
            assert {"from", "until"} & set(found), found
        elif found["source"] != "none":
            assert found["observed_ms"] <= HOUR


def test_any_candidate_is_simulated_or_refused(client: APIClient) -> None:
    for candidate in CANDIDATES:
        body = json.dumps(QUEUE | {"from": NOW - HOUR, "until": NOW, "candidates": [candidate]})
        answer = client.post("/api/v1/history/what-if/", body, content_type="application/json")
        found = answer.json()
        if answer.status_code == 200:
            outcome = found["candidates"][0]
            # The gap does not count.
            assert 0 <= outcome["overfull_low_ms"] <= outcome["overfull_high_ms"] <= found["observed_ms"] <= 40 * MINUTE
        else:
            assert answer.status_code == 400, (candidate, found)
            assert any(name in str(found) for name in ("candidate", *LIMITS)), (candidate, found)
