"""Rollups by minute, hour and day of queues, virtual hosts and producers. Pure.

A reported value counts for the time for which it is valid (`segments.py`). So a mean is weighted by time, and unknown
time is excluded. Values of an imported log are valid for no time: they contribute to maxima, but not to means.

| column | meaning |
|---|---|
| `watched_ms` | recorded time of the broker |
| `known_ms` | time with a known depth; of a virtual host: the sum over its queues |
| `overfull_ms`, `stopped_ms` | time in that state; of a virtual host: the sum over its queues |
| `…_p95` | of a minute: the depth not exceeded in 95% of its known time. Of hours and days: the same of the means |
| | of their minutes, weighted by known time |
| `…_max` | of a virtual host: the sum of its queues' maxima, an upper bound |
| `blocked_ms` | blocked producer time |

Hours and days are computed from minutes, so late rows require only the minutes of their hours and days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.pipeline.segments import SLOT, parts_of_intervals, segments_of_queues
from console.history.storage.durations import MINUTE
from console.history.storage.layout import LEVELS, MAXIMA, MEANS, OF_INTERVALS, SUMS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def minutes(  # noqa: PLR0917 -- each argument is a different table
    samples: DataFrame,
    events: DataFrame,
    spans: DataFrame,
    sampled: DataFrame,
    episodes: DataFrame,
    blocks: DataFrame,
    ranges: DataFrame,
    keep: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> DataFrame:
    """Return the rows of the table `minutes` within `ranges`: (range_broker, range_from, range_to), ms, whole hours,
    disjoint by broker.

    `samples` and `events`: of the ranges and of `SAMPLE_VALIDITY_MS` before each. `spans`: `spans.spans` of the ranges
    and of `SAMPLE_VALIDITY_MS` before each; `sampled`: the same of samples only. `episodes` and `blocks`: all that
    overlap a range.
    `keep`: caches rows that are needed twice.
    """
    ranges = F.broadcast(ranges)
    known = _one_row_per_slot(_ranked(segments_of_queues(samples, events, sampled, ranges)))
    rows = keep(_with_intervals(known, parts_of_intervals(episodes, blocks, spans, ranges)))
    rows = rows.unionByName(_virtual_hosts(rows))
    return _finished(rows, _watched(spans, ranges), MINUTE)


def coarser(minutes: DataFrame, spans: DataFrame, ranges: DataFrame, step: int) -> DataFrame:
    """Return rows of `hours` or `days` from those of `minutes`. `step`: ms; `ranges`: (range_broker, range_from,
    range_to), whole steps."""
    at = F.unix_millis("at")
    weight = F.col("known_ms")
    slot = (at - at % step).alias("slot")
    rows = minutes.groupBy("broker", "virtualhost", "kind", "name", "queue", slot).agg(
        *(F.sum(name).alias(name) for name in SUMS),
        *(
            expression
            for unit in ("messages", "bytes")
            for expression in (
                _mean(F.col(f"{unit}_mean"), weight).alias(f"{unit}_mean"),
                _p95(F.col(f"{unit}_mean"), weight).alias(f"{unit}_p95"),
            )
        ),
        *(F.max(name).alias(name) for name in MAXIMA),
        F.max_by(F.struct(*LEVELS), F.when(F.col("capacity_messages").isNotNull(), at)).alias("levels"),
    )
    rows = rows.select("*", *(F.col(f"levels.{name}").alias(name) for name in LEVELS)).drop("levels")
    return _finished(rows, _watched(spans, F.broadcast(ranges), step), step)


def _ranked(segments: DataFrame) -> DataFrame:
    """Add the columns from which `_one_row_per_slot` computes 95th percentiles: `…_low` and `…_high` are the segment's
    depth if it is above the rank in the slot's known time, `…_known` is that time. Spark's percentile takes several
    times as long for many groups of few rows."""
    ranked = segments
    for unit in ("messages", "bytes"):
        depth = F.col(f"depth_{unit}")
        ordered = Window.partitionBy(*SLOT).orderBy(depth)
        weight = F.when(depth.isNotNull(), F.col("known_ms"))
        whole = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        so_far = F.sum(weight).over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        ranked = ranked.withColumns({f"{unit}_known": F.sum(weight).over(whole), f"{unit}_so_far": so_far})
        rank = _rank(unit)
        ranked = ranked.withColumns(
            {
                f"{unit}_low": F.when(F.col(f"{unit}_so_far") > F.floor(rank), depth),
                f"{unit}_high": F.when(F.col(f"{unit}_so_far") > F.ceil(rank), depth),
            }
        ).drop(f"{unit}_so_far")
    return ranked


def _rank(unit: str) -> Column:
    """Return the rank, from 0, of the 95th percentile among the milliseconds with a known depth; between two of them
    the value is interpolated."""
    return (F.col(f"{unit}_known") - 1) * 0.95


def _one_row_per_slot(segments: DataFrame) -> DataFrame:
    """Aggregate the segments of each slot of a queue to one row."""
    weight = F.coalesce("known_ms", F.lit(0).cast("bigint"))
    zero = F.lit(0).cast("bigint")
    leveled = F.when(F.col("capacity_messages").isNotNull() | F.col("stop_messages").isNotNull(), F.col("from_ms"))
    return (
        segments.groupBy(*SLOT)
        .agg(
            F.sum("known_ms").alias("known_ms"),
            F.when(F.max("known_ms").isNotNull(), F.coalesce(F.sum("stopped_ms"), zero)).alias("stopped_ms"),
            *(
                expression
                for unit in ("messages", "bytes")
                for expression in (
                    _mean(F.col(f"depth_{unit}"), weight).alias(f"{unit}_mean"),
                    F.max(f"{unit}_known").alias(f"{unit}_known"),
                    F.min(f"{unit}_low").alias(f"{unit}_low"),
                    F.min(f"{unit}_high").alias(f"{unit}_high"),
                    F.max(f"depth_{unit}").alias(f"{unit}_max"),
                )
            ),
            F.sum("messages_in").alias("messages_in"),
            F.sum("messages_out").alias("messages_out"),
            F.max("blocked_producers").alias("blocked_producers_max"),
            F.max("producers").alias("producers_max"),
            *(F.max_by(name, leveled).alias(name) for name in LEVELS),
        )
        .withColumns({f"{unit}_p95": _between(unit) for unit in ("messages", "bytes")})
        .drop(*(f"{unit}_{part}" for unit in ("messages", "bytes") for part in ("known", "low", "high")))
    )


def _with_intervals(rows: DataFrame, intervals: DataFrame) -> DataFrame:
    """Join the rows of queues with the sums of intervals, and add queues and producers that have only intervals. Only
    an interval may lack its virtual host (in a log without it), so there are no duplicates."""
    totals = intervals.groupBy(*SLOT, "kind", "name").agg(*(F.sum(name).alias(name) for name in OF_INTERVALS))
    queues = rows.join(totals.where("kind = 'queue'").drop("kind", "name"), list(SLOT), "full_outer")
    queues = queues.withColumns({"kind": F.lit("queue"), "name": F.col("queue")})
    both = queues.unionByName(totals.where("kind = 'producer'"), allowMissingColumns=True)
    zero = F.lit(0).cast("bigint")
    return both.withColumns({name: F.coalesce(name, zero) for name in ("known_ms", *OF_INTERVALS)}).drop("range_from")


def _between(unit: str) -> Column:
    rank, low, high = _rank(unit), F.col(f"{unit}_low"), F.col(f"{unit}_high")
    mixed = (F.ceil(rank) - rank) * low + (rank - F.floor(rank)) * high
    return F.when(low == high, low.cast("double")).otherwise(mixed)


def _virtual_hosts(rows: DataFrame) -> DataFrame:
    """Return the rows of virtual hosts: sums over their queues."""
    hosts = (
        rows.where("kind = 'queue'")
        .groupBy("broker", "virtualhost", "slot")
        .agg(
            *(F.sum(name).alias(name) for name in (*SUMS, *MEANS, *MAXIMA)),
        )
    )
    empty = F.lit(None)
    return hosts.select(
        "*",
        F.lit("virtualhost").alias("kind"),
        F.col("virtualhost").alias("name"),
        empty.cast("string").alias("queue"),
        *(F.col(f"{unit}_mean").alias(f"{unit}_p95") for unit in ("messages", "bytes")),
        *(empty.cast("bigint").alias(name) for name in LEVELS),
    )


def _finished(rows: DataFrame, watched: DataFrame, step: int) -> DataFrame:
    seconds = F.when(F.col("known_ms") > 0, F.col("known_ms") / 1000)
    whole = F.coalesce("watched_ms", F.lit(0).cast("bigint")).alias("watched_ms")
    joined = rows.join(F.broadcast(watched), ["broker", "slot"], "left")
    # A virtual host's known time is a sum over queues; its rate is per second of recorded time.
    seconds = F.when(F.col("kind") == "virtualhost", F.col("watched_ms") / 1000).otherwise(seconds)
    rate = {f"rate_{way}": F.when(seconds > 0, F.col(f"messages_{way}") / seconds) for way in ("in", "out")}
    return joined.select(
        *(name for name in rows.columns if name != "slot"),
        whole,
        F.timestamp_millis("slot").alias("at"),
        *(value.alias(name) for name, value in rate.items()),
    )


def _watched(spans: DataFrame, ranges: DataFrame, step: int = MINUTE) -> DataFrame:
    """Return (broker, slot, watched_ms): the recorded time of each slot."""
    parts = (
        spans.join(ranges, F.expr("broker = range_broker AND span_from < range_to AND span_to > range_from"))
        .select(
            "broker",
            F.greatest("span_from", "range_from").alias("from_ms"),
            F.least("span_to", "range_to").alias("to_ms"),
        )
        .withColumn("number", F.explode(F.sequence(F.expr(f"from_ms div {step}"), F.expr(f"(to_ms - 1) div {step}"))))
        .withColumn("slot", F.col("number") * step)
    )
    length = F.least("to_ms", F.col("slot") + step) - F.greatest("from_ms", "slot")
    return parts.groupBy("broker", "slot").agg(F.sum(length).alias("watched_ms"))


def _mean(value: Column, weight: Column) -> Column:
    return F.try_divide(F.sum(value * weight), F.sum(F.when(value.isNotNull(), weight)))


def _p95(value: Column, weight: Column) -> Column:
    """Return the exact percentile, weighted by time."""
    return F.percentile(value.cast("double"), 0.95, F.when(value.isNotNull(), weight).otherwise(F.lit(0)))
