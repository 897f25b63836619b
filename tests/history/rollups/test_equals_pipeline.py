"""The recorder's rollups, episodes and blocks equal those that the pipeline computes from the same rows, for random
histories: side by side as different brokers, in one computation by Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from console.history.pipeline import blocks, episodes, rollups, spans, stops
from console.history.storage.durations import HOUR
from console.history.storage.tables import schema
from tests.history.rollups.random_histories import START, RandomHistory, Row, random_history
from tests.history.rollups.test_rollups import assert_equal_rows, feed
from tests.history.rows import table

pytestmark = pytest.mark.timeout(600)

HISTORIES = 200
#: Times of the tables' rows.
_TIMES = ("at", "start", "end", "seen")


def of_pipeline(spark: Any, histories: list[RandomHistory]) -> Mapping[str, list[Row]]:
    """Return the rows of the tables, with times in ms, as the pipeline's steps compute them from all rows at once."""
    landed: dict[str, list[Row]] = {"samples": [], "events": [], "coverage": []}
    for history in histories:
        covered = max(row["until"] for row in history.coverage if row["followed"])
        landed["samples"] += [row for row in history.samples if row["at"] < covered]
        landed["events"] += [row for row in history.events if row["at"] < covered]
        landed["coverage"] += history.coverage
    frames = {kind: spark.createDataFrame(table(kind, rows)).localCheckpoint() for kind, rows in landed.items()}
    samples, events, coverage = frames["samples"], frames["events"], frames["coverage"]

    def keep(rows: Any) -> Any:
        return rows.localCheckpoint()

    def nothing(name: str) -> Any:
        return spark.createDataFrame([], schema(name))

    recorded = keep(spans.spans(coverage))
    whole = samples.where("whole")
    holds = keep(blocks.known_until(blocks.blocks(events, whole, nothing("holds")), recorded))
    found = episodes.known_until(episodes.overfull(events, whole, nothing("episodes")), recorded)
    found = keep(episodes.measured_from(found, nothing("episodes"), {}))
    columns = ("broker", "virtualhost", "queue", "at", "depth_messages", "depth_bytes")
    points = samples.select(*columns).unionByName(events.select(*columns)).where("queue IS NOT NULL")
    horizons = dict(recorded.groupBy("broker").agg({"span_to": "max"}).collect())
    overfull = keep(episodes.measured(found, points, holds, horizons, recorded))
    stopped = keep(stops.stopped(events, nothing("episodes")))
    ranges = spark.createDataFrame(
        [(history.broker, START - HOUR, START + 4 * HOUR) for history in histories],
        "range_broker string, range_from bigint, range_to bigint",
    )
    sampled = spans.spans(coverage, sampled=True)
    minutes = keep(rollups.minutes(samples, events, recorded, sampled, overfull, holds, ranges, keep))
    hours = rollups.coarser(minutes, recorded, ranges, HOUR)
    both = overfull.unionByName(stopped, allowMissingColumns=True)
    tables = {"holds": holds, "episodes": both, "minutes": minutes, "hours": hours}
    return {name: [_plain(row) for row in frame.toArrow().to_pylist()] for name, frame in tables.items()}


def _plain(row: Row) -> Row:
    times = {name: round(row[name].timestamp() * 1000) for name in _TIMES if row.get(name) is not None}
    return row | times


def test_rollups_of_the_recorder_equal_those_of_the_pipeline(quick_spark: Any) -> None:
    histories = [random_history(random.Random(seed), f"b{seed}", rows=50) for seed in range(HISTORIES)]
    expected = of_pipeline(quick_spark, histories)
    for history in histories:
        fed = feed(history)
        mine = {
            "holds": fed.rollups.holds(),
            "episodes": fed.rollups.episodes(),
            "minutes": fed.minutes,
            "hours": fed.hours,
        }
        for name, rows in mine.items():
            others = [row for row in expected[name] if row["broker"] == history.broker]
            assert_equal_rows(name, rows, others)
