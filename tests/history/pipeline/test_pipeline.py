"""What becomes of small stories, each told by a broker of its own, so that one run works all of them out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from console.history.pipeline import rollups
from console.history.pipeline.run import Report
from console.history.pipeline.spans import spans
from tests.history.rows import Row, at
from tests.history.runs import History
from tests.history.stories import FIRST, LATER

pytestmark = pytest.mark.timeout(600)


class Told:
    def __init__(self, history: History) -> None:
        history.land(*FIRST)
        self.first_report = history.run()
        self.open_at_first = history.one("episodes", "open"), history.one("holds", "open")
        self.idle_report = history.run()
        history.land(*LATER)
        history.run()
        self.history = history


@pytest.fixture(scope="module")
def told(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(History(spark, str(tmp_path_factory.mktemp("told") / "history")))


def some(row: Row, *columns: str) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def test_queue_that_was_overfull_is_an_episode_with_its_peak_and_its_cost(told: Told) -> None:
    row = told.history.one("episodes", "whole")
    assert some(row, "kind", "virtualhost", "queue", "start", "end") == ("overfull", "default", "q", at(60), at(90))
    assert some(row, "duration_ms", "peak_messages", "peak_bytes", "stop_messages") == (30_000, 20, 2_000, 10)
    assert some(row, "producers", "connections", "blocked_ms") == (1, 1, 30_000)
    assert some(row, "released_by", "settled", "seen") == ("drained", True, at(60))


def test_producer_that_was_held_is_a_hold(told: Told) -> None:
    row = told.history.one("holds", "whole")
    assert some(row, "queue", "start", "end", "client", "link") == ("q", at(60), at(90), "client-1", "link-1")
    assert row["reasons"] == ["queue-overfull:q"]


def test_what_is_told_of_a_queue_without_its_virtual_host_is_one_row_of_a_minute(told: Told) -> None:
    rows = told.history.rows("minutes", "log without hosts", kind="queue")
    found = [some(row, "virtualhost", "at", "overfull_ms", "blocked_ms", "blocks", "bytes_max") for row in rows]
    assert found == [("test", at(0), 10_000, 0, 0, 1200), (None, at(0), 0, 10_000, 1, None)]


def test_minutes_bring_the_rows_of_a_queue_together_once(told: Told, spark: Any) -> None:
    """As few exchanges as there can be: of points, and of intervals, to be summed up and to join those."""
    tables, plans = told.history.tables, []
    looked = spans(tables.read("coverage"))

    def kept(rows: Any) -> Any:
        plans.append(rows._jdf.queryExecution().executedPlan().toString())
        return rows

    ranges = spark.sql("SELECT * FROM VALUES (0L, 9999999999999L) AS t(range_from, range_to)")
    spark.conf.set("spark.sql.maxPlanStringLength", 1_000_000)
    try:
        inputs = [tables.read(name) for name in ("samples", "events", "episodes", "holds")]
        rollups.minutes(*inputs[:2], looked, looked, *inputs[2:], ranges, kept)
    finally:
        spark.conf.set("spark.sql.maxPlanStringLength", 1000)
    (plan,) = plans
    assert "SortMergeJoin" in plan
    assert "SortAggregate(key=[slot" in plan
    assert len(re.findall(r"Exchange hashpartitioning\(broker#\d+, virtualhost#", plan)) == 2
    assert len(re.findall(r"Exchange hashpartitioning\(slot#", plan)) == 2


def test_minute_weighs_each_depth_by_its_time(told: Told) -> None:
    row = told.history.one("minutes", "whole", kind="queue", at=at(60))
    assert some(row, "watched_ms", "known_ms", "overfull_ms", "blocked_ms") == (60_000, 60_000, 30_000, 30_000)
    # 20 s at 11, 10 s at 20, 30 s at 5.
    assert row["messages_mean"] == pytest.approx((20 * 11 + 10 * 20 + 30 * 5) / 60)
    assert some(row, "messages_p95", "messages_max", "bytes_max") == (20, 20, 2_000)
    assert some(row, "messages_in", "messages_out", "episodes", "blocks") == (21, 19, 1, 1)
    assert row["rate_in"] == pytest.approx(21 / 60)
    assert some(row, "capacity_messages", "stop_messages", "resume_messages") == (10, 10, 8)


def test_first_minute_knows_nothing_before_its_first_sample(told: Told) -> None:
    row = told.history.one("minutes", "whole", kind="queue", at=at(0))
    assert some(row, "watched_ms", "known_ms", "messages_mean", "overfull_ms") == (60_000, 59_000, 3.0, 0)
    assert row["messages_in"] is None


def test_depth_holds_until_nobody_looks_any_more(told: Told) -> None:
    rows = told.history.rows("minutes", "whole", kind="queue")
    assert {row["at"] for row in rows if row["at"] >= at(0)} == {at(60 * n) for n in range(10)}
    assert sum(row["known_ms"] for row in rows if row["at"] >= at(0)) == 599_000


def test_hour_and_day_are_the_sums_of_their_minutes(told: Told) -> None:
    for name, start in (("hours", at(0)), ("days", at(-12 * 3600))):
        row = told.history.one(name, "whole", kind="queue", at=start)
        assert some(row, "watched_ms", "known_ms", "overfull_ms", "episodes") == (600_000, 599_000, 30_000, 1)
        assert some(row, "blocked_ms", "messages_max", "messages_in") == (30_000, 20, 21)
        assert row["messages_mean"] == pytest.approx((59 * 3 + 20 * 11 + 10 * 20 + 510 * 5) / 599)


def test_producer_and_virtual_host_have_rollups_of_their_own(told: Told) -> None:
    producer = told.history.one("minutes", "whole", kind="producer", at=at(60))
    assert some(producer, "name", "queue", "blocked_ms", "blocks") == ("client-1 link-1", "q", 30_000, 1)
    host = told.history.one("minutes", "whole", kind="virtualhost", at=at(60))
    assert some(host, "name", "queue", "overfull_ms", "messages_max") == ("default", None, 30_000, 20)


def test_open_episode_stays_open_and_counts_up_to_what_is_known(told: Told) -> None:
    episode, hold = told.open_at_first
    assert some(episode, "start", "end", "duration_ms", "released_by") == (at(60), None, None, None)
    assert episode["blocked_ms"] == 240_000
    assert some(hold, "start", "end", "ended_by") == (at(60), None, None)


def test_episode_that_was_open_closes_with_later_rows_and_keeps_its_id(told: Told) -> None:
    row = told.history.one("episodes", "open")
    assert row["id"] == told.open_at_first[0]["id"]
    assert some(row, "start", "end", "blocked_ms", "released_by") == (at(60), at(350), 290_000, "drained")
    assert told.history.one("holds", "open")["end"] == at(350)
    minutes = told.history.rows("minutes", "open", kind="queue")
    assert sum(row["overfull_ms"] for row in minutes) == 290_000


def test_lost_underfull_ends_with_the_sample_that_shows_it(told: Told) -> None:
    assert some(told.history.one("episodes", "lost"), "end", "released_by") == (at(60), "seen")
    assert told.history.one("holds", "lost")["end"] == at(60)


def test_queue_found_overfull_has_been_so_since_the_broker_says(told: Told) -> None:
    row = told.history.one("episodes", "joined late")
    assert some(row, "start", "seen", "end") == (at(-3600), at(30), None)


def test_deleted_queue_ends_its_episode_and_its_holds(told: Told) -> None:
    assert some(told.history.one("episodes", "deleted"), "end", "released_by") == (at(20), "deleted")
    assert some(told.history.one("holds", "deleted"), "end", "ended_by") == (at(20), "queue-deleted")


def test_detached_producer_and_closed_connection_end_their_holds_alone(told: Told) -> None:
    first, second = sorted(told.history.rows("holds", "detached"), key=lambda row: row["producer"])
    assert some(first, "end", "ended_by") == (at(15), "producer-detached")
    assert some(second, "end", "ended_by") == (at(16), "connection-closed")
    assert told.history.one("episodes", "detached")["end"] is None


def test_restarted_broker_ends_what_is_not_overfull_afterwards(told: Told) -> None:
    assert some(told.history.one("episodes", "restarted"), "end", "released_by") == (at(30), "restart")
    assert some(told.history.one("holds", "restarted"), "end", "ended_by") == (at(30), "broker-ready")


def test_queue_that_is_still_overfull_after_a_restart_has_one_episode(told: Told) -> None:
    row = told.history.one("episodes", "full after restart")
    assert some(row, "start", "end", "released_by") == (at(10), at(50), "drained")
    assert told.history.one("holds", "full after restart")["end"] == at(30)


def test_episode_says_who_released_it(told: Told) -> None:
    assert some(told.history.one("episodes", "purged"), "released_by", "released_actor") == ("purged", "ann")
    assert some(told.history.one("episodes", "edited"), "released_by", "released_actor") == ("policy", "ann")


def test_stop_lasts_until_a_start_that_covers_it(told: Told) -> None:
    lifted, other = sorted(told.history.rows("episodes", "stopped"), key=lambda row: row["start"])
    assert some(lifted, "kind", "scope", "actor", "reason") == ("stopped", "queue default/q", "ann", "disk")
    assert some(lifted, "end", "released_by", "released_actor") == (at(100), "started", "bob")
    assert some(other, "scope", "end") == ("queue other/q", None)


def test_log_releases_a_channel_whose_queue_it_does_not_name(told: Told) -> None:
    rows = {(row["queue"], row["channel"]): some(row, "start", "end") for row in told.history.rows("holds", "log")}
    assert rows == {
        ("one", "ch:1"): (at(10), at(20)),
        ("two", "ch:1"): (at(12), at(40)),
        ("one", "ch:2"): (at(12), at(20)),
    }
    episodes = told.history.rows("episodes", "log")
    assert {(row["queue"], row["end"], row["peak_bytes"]) for row in episodes} == {
        ("one", at(20), 1200),
        ("two", at(40), 1200),
    }


def test_log_gives_maxima_and_no_means(told: Told) -> None:
    row = told.history.one("minutes", "log", kind="queue", name="one", at=at(0))
    assert some(row, "known_ms", "messages_mean", "bytes_mean", "bytes_max") == (0, None, None, 1200)
    assert some(row, "overfull_ms", "blocked_ms") == (10_000, 18_000)


def test_time_that_nobody_watched_has_no_rows(told: Told) -> None:
    times = {row["at"] for row in told.history.rows("minutes", "gap")}
    assert times == {at(0), at(3600)}


def test_sample_outside_watched_time_tells_a_moment_only(told: Told) -> None:
    (row,) = told.history.rows("minutes", "unwatched", kind="queue")
    assert some(row, "watched_ms", "known_ms", "messages_mean", "messages_max") == (0, 0, None, 3)


def test_run_tells_what_it_took_and_the_next_finds_nothing(told: Told) -> None:
    report = told.first_report
    assert report.files == 3
    assert report.rows == {
        kind: sum(len(story.rows[kind]) for story in FIRST) for kind in ("events", "samples", "coverage")
    }
    assert report.newest == at(3601)
    assert told.idle_report == Report()


def test_row_of_years_ago_changes_its_own_time_alone(told: Told) -> None:
    old = [row for row in told.history.rows("minutes", "whole", kind="queue") if row["at"] < at(0)]
    assert len(old) == 1
    assert old[0]["messages_max"] == 1
