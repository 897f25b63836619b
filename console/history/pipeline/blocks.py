"""Blocks: the intervals for which flow control blocked each producer, rows of the table `holds`. Pure.

A block starts with `producer-blocked` (CHN-1005). It ends with the first of: the producer's release (CHN-1006) or
detach, the end of its connection, evidence that its queue blocks no producer (underfull, deletion, an event or a sample
of all queues without blocked producers), the broker's restart. In a log, a channel may be blocked by several queues and
is released once: there is one block per queue.

Only events from a time `since` on are read. Blocks that were ongoing then are carried over, so the result is the same
as from all events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Later than any end, ms.
_ONGOING = 2**62
_COLUMNS = ("virtualhost", "queue", "client", "link", "connection", "channel", "reasons")


def blocks(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """Return the columns of the table `holds`. `events`, `samples`: those since `since`, of brokers that have one;
    `carried`: earlier blocks that were ongoing then."""
    producer = _producer()
    begun = events.where("kind = 'producer-blocked'").select(
        "broker", producer.alias("producer"), _ms("at"), F.col("sequence").alias("seq"), *_COLUMNS
    )
    taken_over = carried.select(
        "broker", "producer", F.unix_millis("start").alias("ms"), F.lit(-1).cast("bigint").alias("seq"), *_COLUMNS
    )
    begins = begun.unionByName(taken_over).withColumn("begins", F.lit(True))

    own = events.where("kind IN ('producer-released', 'producer-detached')").select(
        "broker", producer.alias("producer"), _ms("at"), F.col("sequence").alias("seq"), F.col("kind").alias("what")
    )
    closed = events.where("kind = 'connection-closed' AND connection IS NOT NULL").select(
        "broker", "connection", _ms("at"), F.col("sequence").alias("seq"), F.col("kind").alias("what")
    )
    restarted = events.where("kind = 'broker-ready'").select(
        "broker", _ms("at"), F.col("sequence").alias("seq"), F.col("kind").alias("what")
    )
    free = events.where(
        "queue IS NOT NULL AND (kind = 'queue-deleted' OR blocked_producers = 0"
        " OR kind = 'queue-underfull' AND blocked_producers IS NULL)"
    ).select("broker", "virtualhost", "queue", _ms("at"), F.col("sequence").alias("seq"), F.col("kind").alias("what"))
    sampled_free = samples.where("whole AND blocked_producers = 0").select(
        "broker", "virtualhost", "queue", _ms("at"), F.lit(-1).cast("bigint").alias("seq"), F.lit("seen").alias("what")
    )
    ended = begins
    for name, ends, key in (
        ("by_producer", own, ("broker", "producer")),
        ("by_queue", free.unionByName(sampled_free), ("broker", "virtualhost", "queue")),
        ("by_connection", closed, ("broker", "connection")),
        ("by_broker", restarted, ("broker",)),
    ):
        ended = _next(ended, ends, key, name)
    first = F.array_min(F.filter(F.array("by_producer", "by_connection", "by_queue", "by_broker"), F.isnotnull))
    ended = ended.withColumn("first", first)
    same = ended.groupBy("broker", "producer", "virtualhost", "queue", F.col("first.ms").alias("end_ms")).agg(
        F.min_by(F.struct("ms", *_COLUMNS[2:]), F.struct("ms", "seq")).alias("begin"),
        F.min("first.what").alias("ended_by"),
    )
    # One block for one start: a producer may be blocked, released and blocked within a ms.
    last = F.coalesce("end_ms", F.lit(_ONGOING))
    same = same.groupBy("broker", "producer", "virtualhost", "queue", F.col("begin.ms").alias("start_ms")).agg(
        F.min_by("begin", last).alias("begin"), F.max_by(F.struct("end_ms", "ended_by"), last).alias("last")
    )
    return same.select(
        "broker",
        "virtualhost",
        "queue",
        "producer",
        *(F.col(f"begin.{name}").alias(name) for name in _COLUMNS[2:]),
        F.timestamp_millis("start_ms").alias("start"),
        F.timestamp_millis("last.end_ms").alias("end"),
        F.col("last.ended_by").alias("ended_by"),
    )


def known_until(blocks: DataFrame, recorded: DataFrame) -> DataFrame:
    """End blocks that a restart of the broker ended with the last recorded moment before it: until then the producers
    were blocked, and a broker that does not run blocks none. `recorded`: as `spans.spans`."""
    return last_recorded(blocks, F.col("ended_by") == "broker-ready", "start", recorded)


def last_recorded(intervals: DataFrame, affected: Column, seen: str, recorded: DataFrame) -> DataFrame:
    """Move the `end` of the affected intervals back to the last recorded moment before it, but not before the evidence
    of them, at the time in the column `seen`."""
    rows = intervals.withColumn("interval", F.monotonically_increasing_id())
    late = rows.where(affected).select(
        "interval", "broker", F.unix_millis(seen).alias("seen_ms"), F.unix_millis("end").alias("end_ms")
    )
    spans = F.broadcast(recorded.withColumnRenamed("broker", "its_broker"))
    overlap = F.expr("broker = its_broker AND span_from <= end_ms AND span_to >= seen_ms")
    known = late.join(spans, overlap).groupBy("interval").agg(F.max(F.least("span_to", "end_ms")).alias("known_ms"))
    end = F.when(affected, F.coalesce(F.timestamp_millis("known_ms"), F.col(seen))).otherwise(F.col("end"))
    return rows.join(known, "interval", "left").withColumn("end", end).drop("interval", "known_ms")


def _next(begins: DataFrame, ends: DataFrame, key: tuple[str, ...], name: str) -> DataFrame:
    """Return `begins` with a column `name`: the first end among `ends` of the same key, as (ms, what), or null."""
    marked = ends.withColumn("ending", F.struct("ms", "what")).drop("what").withColumn("begins", F.lit(False))
    # Few producers are blocked, so few of the ends matter.
    marked = marked.join(begins.select(*key).distinct(), list(key), "left_semi")
    both = begins.unionByName(marked, allowMissingColumns=True)
    # Backwards, since Spark computes growing frames in linear time, but shrinking ones in quadratic time.
    backwards = Window.partitionBy(*key).orderBy(F.desc("ms"), F.desc("seq"), F.desc("begins"))
    after = backwards.rowsBetween(Window.unboundedPreceding, -1)
    return both.withColumn(name, F.last("ending", ignorenulls=True).over(after)).where("begins").drop("ending")


def _producer() -> Column:
    """Return a producer's identity: the managed object's name, or a log's connection and channel."""
    return F.coalesce("object", F.concat_ws("/", "connection", "channel"))


def _ms(column: str) -> Column:
    return F.unix_millis(column).alias("ms")
