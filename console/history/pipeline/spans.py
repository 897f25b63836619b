"""Recorded time: merge the rows of COVERAGE into the smallest number of spans. Pure.

Time without a span is unknown, and excluded from all rollups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.storage.durations import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def spans(coverage: DataFrame, *, sampled: bool = False) -> DataFrame:
    """Return (broker, span_from, span_to), in ms, disjoint. `sampled`: only time with samples, which excludes
    imported logs."""
    followed = coverage.where("followed")
    return _merged(followed.where(_SAMPLED) if sampled else followed, "broker")


def spans_of_both(coverage: DataFrame) -> DataFrame:
    """Return both kinds of spans, in one pass over the rows, with a column `sampled`."""
    kinds = F.when(F.expr(_SAMPLED), F.array(F.lit(False), F.lit(True))).otherwise(F.array(F.lit(False)))
    return _merged(coverage.where("followed").withColumn("sampled", F.explode(kinds)), "broker", "sampled")


_SAMPLED = "source <> 'log'"


def _merged(followed: DataFrame, *key: str) -> DataFrame:
    rows = followed.select(*key, F.unix_millis("at").alias("begin"), F.unix_millis("until").alias("end")).where(
        "end >= begin"
    )
    ordered = Window.partitionBy(*key).orderBy("begin", "end")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    islands = rows.withColumn("apart", F.coalesce(F.col("begin") > F.max("end").over(before), F.lit(True)))
    islands = islands.withColumn("island", F.sum(F.col("apart").cast("int")).over(ordered))
    merged = islands.groupBy(*key, "island").agg(F.min("begin").alias("span_from"), F.max("end").alias("span_to"))
    return merged.select(*key, "span_from", "span_to")


def by_day(spans: DataFrame) -> DataFrame:
    """Return each whole span once for each day (since the epoch) that it overlaps, for joins by day."""

    days = F.sequence(F.expr(f"span_from div {DAY}"), F.expr(f"span_to div {DAY}"))
    return spans.select("broker", F.explode(days).alias("day"), "span_from", "span_to")
