"""When somebody looked: the rows of COVERAGE put together to as few spans of time as possible. Pure.

Time that no span covers is unknown: nothing is worked out for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = 86_400_000


def spans(coverage: DataFrame, *, sampled: bool = False) -> DataFrame:
    """(broker, day, span_from, span_to), in ms: the days since the epoch that a span touches, each with the whole span.
    `sampled`: only where samples were taken, which imported logs have none of."""
    looked = coverage.where("followed")
    if sampled:
        looked = looked.where("source <> 'log'")
    rows = looked.select("broker", F.unix_millis("at").alias("begin"), F.unix_millis("until").alias("end")).where(
        "end >= begin"
    )
    ordered = Window.partitionBy("broker").orderBy("begin", "end")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    islands = rows.withColumn("apart", F.coalesce(F.col("begin") > F.max("end").over(before), F.lit(True)))
    islands = islands.withColumn("island", F.sum(F.col("apart").cast("int")).over(ordered))
    merged = islands.groupBy("broker", "island").agg(F.min("begin").alias("span_from"), F.max("end").alias("span_to"))
    days = F.sequence(F.expr(f"span_from div {DAY}"), F.expr(f"span_to div {DAY}"))
    return merged.select("broker", F.explode(days).alias("day"), "span_from", "span_to")
