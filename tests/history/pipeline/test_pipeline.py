"""Results of the pipeline for small scenarios, each of a separate broker, so that one run processes all of them."""

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


class Processed:
    def __init__(self, history: History) -> None:
        history.land(*FIRST)
        self.first_report = history.run()
        self.open_at_first = history.one("episodes", "open"), history.one("holds", "open")
        self.idle_report = history.run()
        history.land(*LATER)
        history.run()
        self.history = history


@pytest.fixture(scope="module")
def processed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Processed:
    return Processed(History(spark, str(tmp_path_factory.mktemp("processed") / "history")))


def values(row: Row, *columns: str) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def test_overfull_queue_is_an_episode_with_its_peak_and_blocked_time(processed: Processed) -> None:
    row = processed.history.one("episodes", "whole")
    assert values(row, "kind", "virtualhost", "queue", "start", "end") == ("overfull", "default", "q", at(60), at(90))
    assert values(row, "duration_ms", "peak_messages", "peak_bytes", "stop_messages") == (30_000, 20, 2_000, 10)
    assert values(row, "producers", "connections", "blocked_ms") == (1, 1, 30_000)
    assert values(row, "released_by", "settled", "seen") == ("drained", True, at(60))


def test_blocked_producer_is_a_row_of_holds(processed: Processed) -> None:
    row = processed.history.one("holds", "whole")
    assert values(row, "queue", "start", "end", "client", "link") == ("q", at(60), at(90), "client-1", "link-1")
    assert row["reasons"] == ["queue-overfull:q"]


def test_events_without_a_virtual_host_are_one_row_per_minute(processed: Processed) -> None:
    rows = processed.history.rows("minutes", "log without hosts", kind="queue")
    found = [values(row, "virtualhost", "at", "overfull_ms", "blocked_ms", "blocks", "bytes_max") for row in rows]
    assert found == [("test", at(0), 10_000, 0, 0, 1200), (None, at(0), 0, 10_000, 1, None)]


def test_plan_of_minutes_has_the_minimum_number_of_exchanges(processed: Processed, spark: Any) -> None:
    """Exchanges: of points, of intervals for their sums, and for the join of both."""
    tables, plans = processed.history.tables, []
    watched = spans(tables.read("coverage"))

    def keep(rows: Any) -> Any:
        plans.append(rows._jdf.queryExecution().executedPlan().toString())
        return rows

    ranges = spark.sql("SELECT * FROM VALUES ('b', 0L, 9999999999999L) AS t(range_broker, range_from, range_to)")
    spark.conf.set("spark.sql.maxPlanStringLength", 1_000_000)
    try:
        inputs = [tables.read(name) for name in ("samples", "events", "episodes", "holds")]
        rollups.minutes(*inputs[:2], watched, watched, *inputs[2:], ranges, keep)
    finally:
        spark.conf.set("spark.sql.maxPlanStringLength", 1000)
    (plan,) = plans
    assert "SortMergeJoin" in plan
    assert "SortAggregate(key=[slot" in plan
    assert len(re.findall(r"Exchange hashpartitioning\(broker#\d+, virtualhost#", plan)) == 2
    assert len(re.findall(r"Exchange hashpartitioning\(slot#", plan)) == 2


def test_minute_weights_each_depth_by_its_time(processed: Processed) -> None:
    row = processed.history.one("minutes", "whole", kind="queue", at=at(60))
    assert values(row, "watched_ms", "known_ms", "overfull_ms", "blocked_ms") == (60_000, 60_000, 30_000, 30_000)
    # 20 s at 11, 10 s at 20, 30 s at 5.
    assert row["messages_mean"] == pytest.approx((20 * 11 + 10 * 20 + 30 * 5) / 60)
    assert values(row, "messages_p95", "messages_max", "bytes_max") == (20, 20, 2_000)
    assert values(row, "messages_in", "messages_out", "episodes", "blocks") == (21, 19, 1, 1)
    assert row["rate_in"] == pytest.approx(21 / 60)
    assert values(row, "capacity_messages", "stop_messages", "resume_messages") == (10, 10, 8)


def test_time_before_the_first_sample_is_unknown(processed: Processed) -> None:
    row = processed.history.one("minutes", "whole", kind="queue", at=at(0))
    assert values(row, "watched_ms", "known_ms", "messages_mean", "overfull_ms") == (60_000, 59_000, 3.0, 0)
    assert row["messages_in"] is None


def test_depth_is_valid_until_the_end_of_the_recording(processed: Processed) -> None:
    rows = processed.history.rows("minutes", "whole", kind="queue")
    assert {row["at"] for row in rows if row["at"] >= at(0)} == {at(60 * n) for n in range(10)}
    assert sum(row["known_ms"] for row in rows if row["at"] >= at(0)) == 599_000


def test_hours_and_days_are_sums_of_their_minutes(processed: Processed) -> None:
    for name, start in (("hours", at(0)), ("days", at(-12 * 3600))):
        row = processed.history.one(name, "whole", kind="queue", at=start)
        assert values(row, "watched_ms", "known_ms", "overfull_ms", "episodes") == (600_000, 599_000, 30_000, 1)
        assert values(row, "blocked_ms", "messages_max", "messages_in") == (30_000, 20, 21)
        assert row["messages_mean"] == pytest.approx((59 * 3 + 20 * 11 + 10 * 20 + 510 * 5) / 599)


def test_producers_and_virtual_hosts_have_rollups(processed: Processed) -> None:
    producer = processed.history.one("minutes", "whole", kind="producer", at=at(60))
    assert values(producer, "name", "queue", "blocked_ms", "blocks") == ("client-1 link-1", "q", 30_000, 1)
    host = processed.history.one("minutes", "whole", kind="virtualhost", at=at(60))
    assert values(host, "name", "queue", "overfull_ms", "messages_max") == ("default", None, 30_000, 20)


def test_ongoing_episode_counts_up_to_the_last_recorded_time(processed: Processed) -> None:
    episode, block = processed.open_at_first
    assert values(episode, "start", "end", "duration_ms", "released_by") == (at(60), None, None, None)
    assert episode["blocked_ms"] == 240_000
    assert values(block, "start", "end", "ended_by") == (at(60), None, None)


def test_ongoing_episode_ends_with_later_rows_and_has_the_same_id(processed: Processed) -> None:
    row = processed.history.one("episodes", "open")
    assert row["id"] == processed.open_at_first[0]["id"]
    assert values(row, "start", "end", "blocked_ms", "released_by") == (at(60), at(350), 290_000, "drained")
    assert processed.history.one("holds", "open")["end"] == at(350)
    minutes = processed.history.rows("minutes", "open", kind="queue")
    assert sum(row["overfull_ms"] for row in minutes) == 290_000


def test_episode_without_an_underfull_event_ends_with_the_next_sample(processed: Processed) -> None:
    assert values(processed.history.one("episodes", "lost"), "end", "released_by") == (at(60), "seen")
    assert processed.history.one("holds", "lost")["end"] == at(60)


def test_episode_from_a_sample_starts_at_the_reported_time(processed: Processed) -> None:
    row = processed.history.one("episodes", "joined late")
    assert values(row, "start", "seen", "end") == (at(-3600), at(30), None)


def test_deletion_of_a_queue_ends_its_episode_and_blocks(processed: Processed) -> None:
    assert values(processed.history.one("episodes", "deleted"), "end", "released_by") == (at(20), "deleted")
    assert values(processed.history.one("holds", "deleted"), "end", "ended_by") == (at(20), "queue-deleted")


def test_detach_and_closed_connection_end_only_their_own_blocks(processed: Processed) -> None:
    first, second = sorted(processed.history.rows("holds", "detached"), key=lambda row: row["producer"])
    assert values(first, "end", "ended_by") == (at(15), "producer-detached")
    assert values(second, "end", "ended_by") == (at(16), "connection-closed")
    assert processed.history.one("episodes", "detached")["end"] is None


def test_restart_ends_the_episode_of_a_queue_that_is_not_overfull_afterwards(processed: Processed) -> None:
    assert values(processed.history.one("episodes", "restarted"), "end", "released_by") == (at(30), "restart")
    assert values(processed.history.one("holds", "restarted"), "end", "ended_by") == (at(30), "broker-ready")


def test_queue_still_overfull_after_a_restart_has_one_episode(processed: Processed) -> None:
    row = processed.history.one("episodes", "full after restart")
    assert values(row, "start", "end", "released_by") == (at(10), at(50), "drained")
    assert processed.history.one("holds", "full after restart")["end"] == at(30)


def test_episode_has_the_operator_who_ended_it(processed: Processed) -> None:
    assert values(processed.history.one("episodes", "purged"), "released_by", "released_actor") == ("purged", "ann")
    assert values(processed.history.one("episodes", "edited"), "released_by", "released_actor") == ("policy", "ann")


def test_stop_lasts_until_a_start_whose_scope_contains_it(processed: Processed) -> None:
    lifted, other = sorted(processed.history.rows("episodes", "stopped"), key=lambda row: row["start"])
    assert values(lifted, "kind", "scope", "actor", "reason") == ("stopped", "queue default/q", "ann", "disk")
    assert values(lifted, "end", "released_by", "released_actor") == (at(100), "started", "bob")
    assert values(other, "scope", "end") == ("queue other/q", None)


def test_release_in_a_log_ends_the_blocks_of_its_channel(processed: Processed) -> None:
    rows = {
        (row["queue"], row["channel"]): values(row, "start", "end") for row in processed.history.rows("holds", "log")
    }
    assert rows == {
        ("one", "ch:1"): (at(10), at(20)),
        ("two", "ch:1"): (at(12), at(40)),
        ("one", "ch:2"): (at(12), at(20)),
    }
    episodes = processed.history.rows("episodes", "log")
    assert {(row["queue"], row["end"], row["peak_bytes"]) for row in episodes} == {
        ("one", at(20), 1200),
        ("two", at(40), 1200),
    }


def test_log_contributes_to_maxima_but_not_to_means(processed: Processed) -> None:
    row = processed.history.one("minutes", "log", kind="queue", name="one", at=at(0))
    assert values(row, "known_ms", "messages_mean", "bytes_mean", "bytes_max") == (0, None, None, 1200)
    assert values(row, "overfull_ms", "blocked_ms") == (10_000, 18_000)


def test_unrecorded_time_has_no_rows(processed: Processed) -> None:
    times = {row["at"] for row in processed.history.rows("minutes", "gap")}
    assert times == {at(0), at(3600)}


def test_sample_outside_recorded_time_is_valid_for_no_time(processed: Processed) -> None:
    (row,) = processed.history.rows("minutes", "unwatched", kind="queue")
    assert values(row, "watched_ms", "known_ms", "messages_mean", "messages_max") == (0, 0, None, 3)


def test_run_reports_its_rows_and_the_next_one_has_none(processed: Processed) -> None:
    report = processed.first_report
    assert report.files == 3
    assert report.rows == {
        kind: sum(len(story.rows[kind]) for story in FIRST) for kind in ("events", "samples", "coverage")
    }
    assert report.newest == at(3601)
    assert processed.idle_report == Report()


def test_old_row_changes_only_its_own_time(processed: Processed) -> None:
    old = [row for row in processed.history.rows("minutes", "whole", kind="queue") if row["at"] < at(0)]
    assert len(old) == 1
    assert old[0]["messages_max"] == 1
