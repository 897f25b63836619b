"""Holds: from when to when flow control held which producer. Pure.

A hold begins with `producer-blocked` (CHN-1005). It ends with the first of: the producer's release (CHN-1006) or
detach, the end of its connection, anything that says that its queue blocks nobody (an underfull, a deletion, an event
or a sample of all queues with no blocked producer), the broker's restart. A log's channel may be held by several queues
and is released once: each queue is a hold of its own.

Only events from a moment on are looked at, `since`, and the holds that were not over by then: these are carried in, so
the result is the one that all events together would give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TOLD = ("virtualhost", "queue", "client", "link", "connection", "channel", "reasons")


def holds(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """Columns of the table `holds`. `events` and `samples`: those since the moment, of brokers that have one;
    `carried`: holds that began before it and were not over."""
    producer = _producer()
    begun = events.where("kind = 'producer-blocked'").select(
        "broker", producer.alias("producer"), _ms("at"), F.col("sequence").alias("seq"), *_TOLD
    )
    taken_over = carried.select(
        "broker", "producer", F.unix_millis("start").alias("ms"), F.lit(-1).cast("bigint").alias("seq"), *_TOLD
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
    seen_free = samples.where("whole AND blocked_producers = 0").select(
        "broker", "virtualhost", "queue", _ms("at"), F.lit(-1).cast("bigint").alias("seq"), F.lit("seen").alias("what")
    )
    ended = begins
    for name, ends, key in (
        ("by_producer", own, ("broker", "producer")),
        ("by_queue", free.unionByName(seen_free), ("broker", "virtualhost", "queue")),
        ("by_connection", closed, ("broker", "connection")),
        ("by_broker", restarted, ("broker",)),
    ):
        ended = _next(ended, ends, key, name)
    first = F.array_min(F.filter(F.array("by_producer", "by_connection", "by_queue", "by_broker"), F.isnotnull))
    ended = ended.withColumn("first", first)
    same = ended.groupBy("broker", "producer", "virtualhost", "queue", F.col("first.ms").alias("end_ms")).agg(
        F.min_by(F.struct("ms", *_TOLD[2:]), F.struct("ms", "seq")).alias("begin"),
        F.first("first.what").alias("ended_by"),
    )
    return same.select(
        "broker",
        "virtualhost",
        "queue",
        "producer",
        *(F.col(f"begin.{name}").alias(name) for name in _TOLD[2:]),
        F.timestamp_millis("begin.ms").alias("start"),
        F.timestamp_millis("end_ms").alias("end"),
        "ended_by",
    )


def _next(begins: DataFrame, ends: DataFrame, key: tuple[str, ...], name: str) -> DataFrame:
    """`begins` with a column `name`: what ends it first among `ends` of the same key, as (ms, what), or null."""
    marked = ends.withColumn("ending", F.struct("ms", "what")).drop("what").withColumn("begins", F.lit(False))
    # Few producers are held, so few of the ends are of any interest.
    marked = marked.join(begins.select(*key).distinct(), list(key), "left_semi")
    both = begins.unionByName(marked, allowMissingColumns=True)
    # Backwards: Spark works out a frame that grows in linear time, and one that shrinks in quadratic time.
    backwards = Window.partitionBy(*key).orderBy(F.desc("ms"), F.desc("seq"), F.desc("begins"))
    after = backwards.rowsBetween(Window.unboundedPreceding, -1)
    return both.withColumn(name, F.last("ending", ignorenulls=True).over(after)).where("begins").drop("ending")


def _producer() -> Column:
    """What tells a producer from the broker's others: the managed object's name, or a log's connection and channel."""
    return F.coalesce("object", F.concat_ws("/", "connection", "channel"))


def _ms(column: str) -> Column:
    return F.unix_millis(column).alias("ms")
