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
    if sampled:
        followed = followed.where("source <> 'log'")
    rows = followed.select("broker", F.unix_millis("at").alias("begin"), F.unix_millis("until").alias("end")).where(
        "end >= begin"
    )
    ordered = Window.partitionBy("broker").orderBy("begin", "end")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    islands = rows.withColumn("apart", F.coalesce(F.col("begin") > F.max("end").over(before), F.lit(True)))
    islands = islands.withColumn("island", F.sum(F.col("apart").cast("int")).over(ordered))
    merged = islands.groupBy("broker", "island").agg(F.min("begin").alias("span_from"), F.max("end").alias("span_to"))
    return merged.select("broker", "span_from", "span_to")


def by_day(spans: DataFrame) -> DataFrame:
    """Return each whole span once for each day (since the epoch) that it overlaps, for joins by day."""

    days = F.sequence(F.expr(f"span_from div {DAY}"), F.expr(f"span_to div {DAY}"))
    return spans.select("broker", F.explode(days).alias("day"), "span_from", "span_to")
