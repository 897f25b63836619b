"""Recommendations for all queues: from generated history to the API, equal to those of single queues."""

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
from console.history.whatif import fleet_recommendations
from console.history.whatif.fleet_recommendations import last_weeks, recommendation_of_queue, write_recommendations
from console.history.whatif.minute_traffic import COLUMNS
from console.history.whatif.recommend import ADVICE
from tests.history.rows import Story
from tests.history.runs import History
from tests.history.whatif.simulation import simulate
from tests.history.whatif.test_against_simulation import LOADS, recorded

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
    """Fill the queue beyond its capacity for ten minutes and drain it for ten, repeatedly."""
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


def test_recommendations_equal_those_of_the_single_queues(history: History, client: APIClient) -> None:
    made = make_history(Landing(history.url), Plan(queues=25, days=2, seed=11, until=UNTIL, fine_days=2))
    assert made.episodes > 0
    history.run()
    history.tables.spark.conf.set("spark.sql.adaptive.enabled", "true")
    count, _seconds = write_recommendations(history.tables)
    recommendations = client.get("/api/v1/history/advice/").json()["results"]
    every = {row["queue"] for row in history.rows("days", kind="queue")}
    assert count == len(every) == 25
    assert recommendations, "a generated history has queues with recommendations"
    assert all(row["kind"] != "none" for row in recommendations)
    lost = [row["recorded_blocked_seconds"] for row in recommendations]
    assert lost == sorted(lost, reverse=True)
    for row in recommendations:
        key = {name: row[name] for name in ("broker", "virtualhost", "queue", "from", "until")}
        one = client.post("/api/v1/history/what-if/", key, format="json").json()
        assert one["source"] == "minutes"
        assert (one["advice"]["kind"], one["advice"]["text"]) == (row["kind"], row["text"])
        assert one["observed_ms"] == round(row["observed_seconds"] * 1000)
        assert one["recorded_blocked_ms"] == round(row["recorded_blocked_seconds"] * 1000)
        assert one["recorded_overfull_ms"] == round(row["recorded_overfull_seconds"] * 1000)
        for end in ("low", "high"):
            assert one["current"][f"blocked_{end}_ms"] == round(row[f"simulated_blocked_{end}_seconds"] * 1000)
        limits = one["advice"]["limits"]
        if limits is None:
            assert row["recommended_blocked_low_seconds"] is None
        else:
            for end in ("low", "high"):
                assert limits[f"blocked_{end}_ms"] == round(row[f"recommended_blocked_{end}_seconds"] * 1000)
            assert limits["capacity_messages"] == row["recommended_stop_messages"]
            assert limits["resume_bytes"] == row["recommended_resume_bytes"]
    of_queue = client.get(
        "/api/v1/history/advice/", {"broker": "made", "queue": recommendations[0]["queue"], **_host(recommendations[0])}
    ).json()
    assert of_queue["results"] == [recommendations[0]]


def _host(row: dict[str, Any]) -> dict[str, str]:
    return {"virtualhost": row["virtualhost"]}


def test_recommendations_are_replaced_and_cover_each_brokers_last_recorded_week(
    history: History, client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        pytest.fail("rows of a checkpoint are lost with their executor, and the job fails")

    history.land(full(Story("old"), "orders"))
    history.run()
    with monkeypatch.context() as patch:
        patch.setattr("pyspark.sql.classic.dataframe.DataFrame.localCheckpoint", refused)
        assert write_recommendations(history.tables, without_resume_levels={"old"})[0] == 1
    (first,) = history.rows("recommendations")
    history.land(full(Story("new"), "orders"), Story("old").watch(7200, 9 * 86_400))
    history.run()
    weeks = last_weeks(history.tables)
    assert weeks["old"][0] > weeks["new"][0] + 86_400_000
    assert write_recommendations(history.tables)[0] == 1
    (row,) = history.rows("recommendations")
    assert (first["broker"], row["broker"]) == ("old", "new"), (
        "the other broker has no traffic in its last recorded week"
    )
    assert {name: row[name] for name in ADVICE.names} == {name: first[name] for name in ADVICE.names}


def test_without_recorded_data_no_recommendations_are_written(history: History, client: APIClient) -> None:
    assert write_recommendations(history.tables) == (0, 0.0)
    assert client.get("/api/v1/history/advice/").status_code == 404


def test_table_has_the_columns_of_a_recommendation() -> None:
    kinds = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64()}
    declared = [one.split() for one in LAYOUTS["recommendations"].columns.split(",")]
    assert pa.schema([(name, kinds[kind]) for name, kind in declared[5:]]) == ADVICE


@pytest.mark.parametrize("resumes", [True, False])
def test_resume_level_is_recommended_only_where_one_can_be_set(monkeypatch: pytest.MonkeyPatch, resumes: bool) -> None:
    run = simulate(LOADS["one-off overload"], 300, 297, None)
    flapping = recorded(run, "samples", (300, 297))
    monkeypatch.setattr(fleet_recommendations, "recording_of_minutes", lambda got, consumers: flapping)
    minutes = dict.fromkeys(COLUMNS, 0.0) | {"ms": 0, "broker": "b", "virtualhost": "v", "name": "q"}
    minutes |= {"begin_ms": 0, "at_ms": 60_000, "consumers_most": 1, "unacknowledged_share": 0.0, "resumes": resumes}
    row = recommendation_of_queue(pa.Table.from_pylist([minutes]))
    assert (row["kind"][0].as_py() == "lower-resume") is resumes


def test_minutes_in_any_order_give_one_row_and_too_few_give_none() -> None:
    minutes = [
        dict.fromkeys(COLUMNS, 0.0)
        | {"messages_mean": 10.0 * n, "messages_max": 10.0 * n, "messages_in": 10.0, "stop_messages": 1000.0}
        | {"ms": n * 60_000, "broker": "b", "virtualhost": "v", "name": "q", "begin_ms": 0, "at_ms": 600_000}
        | {"consumers_most": 1, "unacknowledged_share": 0.0, "resumes": True}
        for n in range(10)
    ]
    rows = [recommendation_of_queue(pa.Table.from_pylist(queue)) for queue in (minutes, minutes[::-1], minutes[:2])]
    assert rows[0] == rows[1]
    assert rows[0].num_rows == 1
    assert rows[0]["peak_messages"][0].as_py() == 90
    assert rows[2].num_rows == 0
