"""The advice for the fleet: from generated history to the API, where it is what the replay of one queue gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from console.history.generate.generator import Plan, make_history
from console.history.storage.landing import Landing
from console.history.storage.layout import LAYOUTS
from console.history.whatif.comparison import ADVICE
from console.history.whatif.fleet_recommendations import advice_of_queue, last_weeks, write_advice
from console.history.whatif.minute_traffic import COLUMNS
from tests.history.rows import Story
from tests.history.runs import History

pytestmark = pytest.mark.timeout(600)

UNTIL = datetime(2026, 11, 18, 15, 0, tzinfo=UTC)


@pytest.fixture
def client(db: None, settings: Any, history: History) -> APIClient:
    settings.HEADGATE_HISTORY_URL = history.url
    client = APIClient()
    vera = User.objects.create_user("vera")
    vera.groups.add(Group.objects.get(name="viewers"))
    client.force_login(vera)
    return client


def full(story: Story, queue: str, hours: int = 2) -> Story:
    """An hour of traffic that fills the queue beyond its capacity, then drains it; again and again."""
    levels = {"capacity_messages": 100, "stop_messages": 100, "resume_messages": 80}
    came = went = 0
    for minute in range(hours * 60):
        filling = minute % 20 < 10
        depth = came - went
        story.sample(minute * 60, depth, queue, enqueued_messages=came, dequeued_messages=went, **levels)
        if filling and depth >= 90:
            story.overfull(minute * 60 + 20, queue, 101, 100).underfull(minute * 60 + 50, queue, 80)
        came += 60 if filling else 10
        went = max(went, min(came, came - 101 if came - went > 101 else went + 40))
    return story.watch(0, hours * 3600)


def test_the_fleets_advice_is_what_the_replay_of_each_queue_gives(history: History, client: APIClient) -> None:
    made = make_history(Landing(history.url), Plan(queues=25, days=2, seed=11, until=UNTIL, fine_days=2))
    assert made.episodes > 0
    history.run()
    history.tables.spark.conf.set("spark.sql.adaptive.enabled", "true")
    count, _seconds = write_advice(history.tables)
    told = client.get("/api/v1/history/advice/").json()["results"]
    every = {row["queue"] for row in history.rows("days", kind="queue")}
    assert count == len(every) == 25
    assert told, "some queue of a generated history is to be advised"
    assert all(row["kind"] != "none" for row in told)
    lost = [row["recorded_blocked_seconds"] for row in told]
    assert lost == sorted(lost, reverse=True)
    for row in told:
        key = {name: row[name] for name in ("broker", "virtualhost", "queue", "from", "until")}
        one = client.post("/api/v1/history/what-if/", key, format="json").json()
        assert one["source"] == "minutes"
        assert (one["advice"]["kind"], one["advice"]["text"]) == (row["kind"], row["text"])
        assert one["observed_ms"] == round(row["observed_seconds"] * 1000)
        assert one["recorded_blocked_ms"] == round(row["recorded_blocked_seconds"] * 1000)
        assert one["current"]["blocked_ms"] == round(row["replayed_blocked_seconds"] * 1000)
        limits = one["advice"]["limits"]
        if limits is None:
            assert row["recommended_blocked_seconds"] is None
        else:
            assert limits["blocked_ms"] == round(row["recommended_blocked_seconds"] * 1000)
            assert limits["capacity_messages"] == round(row["recommended_stop_messages"])
            assert limits["resume_bytes"] == round(row["recommended_resume_bytes"])
    asked = client.get(
        "/api/v1/history/advice/", {"broker": "made", "queue": told[0]["queue"], **_host(told[0])}
    ).json()
    assert asked["results"] == [told[0]]


def _host(row: dict[str, Any]) -> dict[str, str]:
    return {"virtualhost": row["virtualhost"]}


def test_it_is_worked_out_anew_as_a_whole_and_of_each_brokers_own_last_week(
    history: History, client: APIClient
) -> None:
    history.land(full(Story("old"), "orders"))
    history.run()
    write_advice(history.tables)
    (first,) = history.rows("advice")
    history.land(full(Story("new"), "orders"), Story("old").watch(7200, 9 * 86_400))
    history.run()
    weeks = last_weeks(history.tables)
    assert weeks["old"][0] > weeks["new"][0] + 86_400_000
    assert write_advice(history.tables)[0] == 1
    (row,) = history.rows("advice")
    assert (first["broker"], row["broker"]) == ("old", "new"), "of the other nothing is known in its last week"
    assert {name: row[name] for name in ADVICE.names} == {name: first[name] for name in ADVICE.names}


def test_without_a_recording_nothing_is_written(history: History, client: APIClient) -> None:
    assert write_advice(history.tables) == (0, 0.0)
    assert client.get("/api/v1/history/advice/").status_code == 404


def test_the_table_has_the_columns_of_the_replays_row() -> None:
    kinds = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64()}
    declared = [one.split() for one in LAYOUTS["advice"].columns.split(",")]
    assert pa.schema([(name, kinds[kind]) for name, kind in declared[5:]]) == ADVICE


def test_minutes_in_any_order_give_one_row_and_too_few_none() -> None:
    minutes = [
        dict.fromkeys(COLUMNS, 0.0)
        | {"messages_mean": 10.0 * n, "messages_max": 10.0 * n, "messages_in": 10.0, "stop_messages": 1000.0}
        | {"ms": n * 60_000, "broker": "b", "virtualhost": "v", "name": "q", "begin_ms": 0, "at_ms": 600_000}
        for n in range(10)
    ]
    told = [advice_of_queue(pa.Table.from_pylist(rows)) for rows in (minutes, minutes[::-1], minutes[:2])]
    assert told[0] == told[1]
    assert told[0].num_rows == 1
    assert told[0]["peak_messages"][0].as_py() == 90
    assert told[2].num_rows == 0
