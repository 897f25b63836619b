"""What is known from moment to moment, cut at minutes: segments of time of queues, and parts of intervals. Pure.

A sample holds until the queue's next one, for `SAMPLE_VALIDITY_MS` at most and only while somebody looked (`spans.py`).
Events tell a queue's depth as well and are points like samples are; those of an imported log hold for no time, since
nobody knows what came after. Episodes and holds are intervals: of them counts what lies within spans.

`rollups.py` sums up what is cut here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.pipeline.spans import by_day
from console.history.storage.durations import DAY, MINUTE, SAMPLE_VALIDITY_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_QUEUE = ("broker", "virtualhost", "queue")
LEVELS = (
    "capacity_messages",
    "stop_messages",
    "resume_messages",
    "capacity_bytes",
    "stop_bytes",
    "resume_bytes",
)
#: What rows of queues are told apart by, within `minutes`. The slot first: it tells most of them apart, and numbers are
#: compared faster than names. Windows, sums and joins by it, in this order, share an exchange, and the last two a sort.
SLOT = ("slot", "queue", "virtualhost", "broker", "range_from")
_STOPPED = "state IN ('STOPPED', 'OVERFULL_STOPPED')"


def segments_of_queues(samples: DataFrame, events: DataFrame, sampled: DataFrame, ranges: DataFrame) -> DataFrame:
    """What `rollups.minutes` is given of queues, as segments of time (`from_ms`, `known_ms`: null where no depth is
    known), each within one slot. `messages_in` and `messages_out` are with the piece that a sample begins."""
    cut = _held(_points(samples, events), sampled, ranges)
    known = F.when(F.col("depth_messages").isNotNull() | F.col("depth_bytes").isNotNull(), F.col("piece_ms"))
    return cut.select(
        *SLOT,
        "from_ms",
        known.alias("known_ms"),
        F.when(F.expr(_STOPPED), F.col("piece_ms")).alias("stopped_ms"),
        "depth_messages",
        "depth_bytes",
        "messages_in",
        "messages_out",
        "blocked_producers",
        "producers",
        *LEVELS,
    )


def parts_of_intervals(episodes: DataFrame, holds: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """What episodes and holds add to slots, a row for each part: `overfull_ms` and `episodes` of queues, `blocked_ms`
    and `blocks` of queues and of producers (`kind`, `name`); the others of a row are null."""
    return _of_episodes(episodes, spans, ranges).unionByName(_of_holds(holds, spans, ranges), allowMissingColumns=True)


def _points(samples: DataFrame, events: DataFrame) -> DataFrame:
    """What is known of a queue at a moment. `holds`: whether it says anything of the time after it."""
    sampled = samples.select(
        *_QUEUE,
        F.unix_millis("at").alias("ms"),
        F.lit(-1).cast("bigint").alias("seq"),
        "state",
        "depth_messages",
        "depth_bytes",
        "blocked_producers",
        "producers",
        "enqueued_messages",
        "dequeued_messages",
        *LEVELS,
        F.lit(True).alias("holds"),
    )
    gone = F.col("kind") == "queue-deleted"
    told = events.where("queue IS NOT NULL AND (depth_messages IS NOT NULL OR depth_bytes IS NOT NULL)").select(
        *_QUEUE,
        F.unix_millis("at").alias("ms"),
        F.col("sequence").alias("seq"),
        F.when(~gone, F.col("state")).alias("state"),
        F.when(~gone, F.col("depth_messages")).alias("depth_messages"),
        F.when(~gone, F.col("depth_bytes")).alias("depth_bytes"),
        "blocked_producers",
        (F.col("source") != "log").alias("holds"),
    )
    return sampled.unionByName(told, allowMissingColumns=True)


def _held(points: DataFrame, sampled: DataFrame, ranges: DataFrame) -> DataFrame:
    """The time for which each point holds, cut at minutes: `slot` is the minute, `piece_ms` its part of it."""
    inside = points.join(
        ranges, (F.col("ms") >= F.col("range_from") - SAMPLE_VALIDITY_MS) & (F.col("ms") < F.col("range_to"))
    )
    day = F.expr(f"ms div {DAY}")
    looked = (
        inside.withColumn("day", day)
        .join(
            F.broadcast(by_day(sampled).withColumnsRenamed({"broker": "its_broker", "day": "its_day"})),
            _within(),
            "left",
        )
        .drop("its_broker", "its_day")
    )
    ordered = Window.partitionBy(*_QUEUE, "range_from").orderBy("ms", "seq")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    counted = F.when(F.col("enqueued_messages").isNotNull(), F.struct("ms", "enqueued_messages", "dequeued_messages"))
    held = (
        looked.withColumn("next_ms", F.lead("ms").over(ordered))
        .withColumn("last", F.last(counted, ignorenulls=True).over(before))
        .withColumn("begin", F.greatest("ms", "range_from"))
        .withColumn(
            "end",
            F.when(
                F.col("holds") & F.col("span_to").isNotNull(),
                F.least("next_ms", F.col("ms") + SAMPLE_VALIDITY_MS, "span_to", "range_to"),
            ).otherwise(F.col("ms")),
        )
        .where("ms >= range_from OR end > begin")
    )
    joined = F.expr(f"last.ms >= ms - {SAMPLE_VALIDITY_MS} AND last.ms >= span_from")
    grown = {
        name: F.when(
            joined & (F.col("ms") >= F.col("range_from")),
            F.when(F.col(column) >= F.col(f"last.{column}"), F.col(column) - F.col(f"last.{column}")).otherwise(
                F.col(column)
            ),
        )
        for name, column in (("messages_in", "enqueued_messages"), ("messages_out", "dequeued_messages"))
    }
    held = held.withColumns(grown)
    slots = F.sequence(F.expr(f"begin div {MINUTE}"), F.expr(f"greatest(begin, end - 1) div {MINUTE}"))
    cut = held.withColumn("minute", F.explode(slots)).withColumn("slot", F.col("minute") * MINUTE)
    from_ms = F.greatest("begin", "slot")
    to_ms = F.least("end", F.col("slot") + MINUTE)
    first = F.col("slot") <= F.col("ms")
    return (
        cut.withColumn("from_ms", from_ms)
        .withColumn("piece_ms", F.greatest(F.lit(0).cast("bigint"), to_ms - F.col("from_ms")))
        .withColumns({name: F.when(first, F.col(name)) for name in grown})
    )


def _within() -> Column:
    return F.expr("broker = its_broker AND day = its_day AND ms >= span_from AND ms <= span_to")


def _of_episodes(episodes: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """Overfull time, where somebody looked, and the episodes that began."""
    queues = episodes.where("kind = 'overfull'").select(
        "broker",
        "virtualhost",
        F.lit("queue").alias("kind"),
        F.col("queue").alias("name"),
        "queue",
        F.unix_millis("start").alias("begin"),
        F.unix_millis("end").alias("end"),
    )
    return _laid_out(queues, spans, ranges, "overfull_ms", "episodes")


def _of_holds(holds: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """Time that producers were held: of each queue, and of each producer."""
    bounds = (F.unix_millis("start").alias("begin"), F.unix_millis("end").alias("end"))
    queues = holds.select(
        "broker", "virtualhost", F.lit("queue").alias("kind"), F.col("queue").alias("name"), "queue", *bounds
    )
    who = F.concat_ws(" ", F.coalesce("client", "connection", "producer"), F.coalesce("link", "channel"))
    producers = holds.select(
        "broker", "virtualhost", F.lit("producer").alias("kind"), who.alias("name"), "queue", *bounds
    )
    return _laid_out(queues.unionByName(producers), spans, ranges, "blocked_ms", "blocks")


def _laid_out(intervals: DataFrame, spans: DataFrame, ranges: DataFrame, time: str, count: str) -> DataFrame:
    """Intervals (`begin`, `end`, null: open) as their parts within spans and ranges, cut at minutes."""
    inside = intervals.where("queue IS NOT NULL").join(
        ranges, F.expr("begin < range_to AND (end IS NULL OR end >= range_from)")
    )
    days = F.expr(f"sequence(greatest(begin, range_from) div {DAY}, least(end, range_to) div {DAY})")
    parts = (
        inside.withColumn("day", F.explode(days))
        .join(F.broadcast(by_day(spans)), ["broker", "day"])
        .withColumn("from_ms", F.greatest("begin", "span_from", "range_from", F.col("day") * DAY))
        .withColumn("to_ms", F.least("end", "span_to", "range_to", (F.col("day") + 1) * DAY))
        .where("to_ms > from_ms")
        .withColumn("minute", F.explode(F.expr(f"sequence(from_ms div {MINUTE}, (to_ms - 1) div {MINUTE})")))
        .withColumn("slot", F.col("minute") * MINUTE)
    )
    length = F.least("to_ms", F.col("slot") + MINUTE) - F.greatest("from_ms", "slot")
    whose = ("kind", "name", *SLOT[1:])
    of_time = parts.select("slot", *whose, length.alias(time))
    begun = inside.where("begin >= range_from").select(
        (F.col("begin") - F.col("begin") % MINUTE).alias("slot"), *whose, F.lit(1).cast("bigint").alias(count)
    )
    return of_time.unionByName(begun, allowMissingColumns=True)
