"""Segments: cut the validity of samples and events, and the intervals of episodes and blocks, at minutes. Pure.

A sample is valid until the queue's next one, for `SAMPLE_VALIDITY_MS` at most and only in recorded time (`spans.py`).
Events with a queue's depth are points like samples; those of an imported log are valid for no time, since the state
after them is unknown. Episodes and blocks are intervals, of which only recorded time counts.

`rollups.py` aggregates the segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.pipeline.spans import by_day
from console.history.storage.durations import DAY, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.layout import LEVELS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_QUEUE = ("broker", "virtualhost", "queue")
#: The key of rows of queues within `minutes`. The slot is first, since it distinguishes most rows, and numbers compare
#: faster than names. Windows, sums and joins by this key share an exchange, and the last two a sort.
SLOT = ("slot", "queue", "virtualhost", "broker", "range_from")
_STOPPED = "state IN ('STOPPED', 'OVERFULL_STOPPED')"


def segments_of_queues(samples: DataFrame, events: DataFrame, sampled: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return the segments of queues for `rollups.minutes` (`from_ms`, `known_ms`: null without a known depth), each
    within one slot. `messages_in` and `messages_out` belong to the segment that a sample starts."""
    cut = _segments(_points(samples, events), sampled, ranges)
    known = F.when(F.col("depth_messages").isNotNull() | F.col("depth_bytes").isNotNull(), F.col("segment_ms"))
    return cut.select(
        *SLOT,
        "from_ms",
        known.alias("known_ms"),
        F.when(F.expr(_STOPPED), F.col("segment_ms")).alias("stopped_ms"),
        "depth_messages",
        "depth_bytes",
        "messages_in",
        "messages_out",
        "blocked_producers",
        "producers",
        *LEVELS,
    )


def parts_of_intervals(episodes: DataFrame, blocks: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return the contributions of episodes and blocks to slots: `overfull_ms` and `episodes` of queues, `blocked_ms`
    and `blocks` of queues and of producers (`kind`, `name`); the other columns of a row are null."""
    return _of_episodes(episodes, spans, ranges).unionByName(
        _of_blocks(blocks, spans, ranges), allowMissingColumns=True
    )


def _points(samples: DataFrame, events: DataFrame) -> DataFrame:
    """Return samples and events as points. `valid`: whether a point is valid for the time after it."""
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
        F.lit(True).alias("valid"),
    )
    deleted = F.col("kind") == "queue-deleted"
    reported = events.where("queue IS NOT NULL AND (depth_messages IS NOT NULL OR depth_bytes IS NOT NULL)").select(
        *_QUEUE,
        F.unix_millis("at").alias("ms"),
        F.col("sequence").alias("seq"),
        F.when(~deleted, F.col("state")).alias("state"),
        F.when(~deleted, F.col("depth_messages")).alias("depth_messages"),
        F.when(~deleted, F.col("depth_bytes")).alias("depth_bytes"),
        "blocked_producers",
        (F.col("source") != "log").alias("valid"),
    )
    return sampled.unionByName(reported, allowMissingColumns=True)


def _segments(points: DataFrame, sampled: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return the validity of each point, cut at minutes: `slot` is the minute, `segment_ms` the part of it."""
    inside = points.join(
        ranges,
        (F.col("broker") == F.col("range_broker"))
        & (F.col("ms") >= F.col("range_from") - SAMPLE_VALIDITY_MS)
        & (F.col("ms") < F.col("range_to")),
    )
    day = F.expr(f"ms div {DAY}")
    with_spans = (
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
    extended = (
        with_spans.withColumn("next_ms", F.lead("ms").over(ordered))
        .withColumn("last", F.last(counted, ignorenulls=True).over(before))
        .withColumn("begin", F.greatest("ms", "range_from"))
        .withColumn(
            "end",
            F.when(
                F.col("valid") & F.col("span_to").isNotNull(),
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
    extended = extended.withColumns(grown)
    slots = F.sequence(F.expr(f"begin div {MINUTE}"), F.expr(f"greatest(begin, end - 1) div {MINUTE}"))
    cut = extended.withColumn("minute", F.explode(slots)).withColumn("slot", F.col("minute") * MINUTE)
    from_ms = F.greatest("begin", "slot")
    to_ms = F.least("end", F.col("slot") + MINUTE)
    first = F.col("slot") <= F.col("ms")
    return (
        cut.withColumn("from_ms", from_ms)
        .withColumn("segment_ms", F.greatest(F.lit(0).cast("bigint"), to_ms - F.col("from_ms")))
        .withColumns({name: F.when(first, F.col(name)) for name in grown})
    )


def _within() -> Column:
    return F.expr("broker = its_broker AND day = its_day AND ms >= span_from AND ms <= span_to")


def _of_episodes(episodes: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return recorded overfull time, and the number of episodes that started."""
    queues = episodes.where("kind = 'overfull'").select(
        "broker",
        "virtualhost",
        F.lit("queue").alias("kind"),
        F.col("queue").alias("name"),
        "queue",
        F.unix_millis("start").alias("begin"),
        F.unix_millis("end").alias("end"),
    )
    return _cut_intervals(queues, spans, ranges, "overfull_ms", "episodes")


def _of_blocks(blocks: DataFrame, spans: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return blocked producer time by queue and by producer."""
    bounds = (F.unix_millis("start").alias("begin"), F.unix_millis("end").alias("end"))
    queues = blocks.select(
        "broker", "virtualhost", F.lit("queue").alias("kind"), F.col("queue").alias("name"), "queue", *bounds
    )
    who = F.concat_ws(" ", F.coalesce("client", "connection", "producer"), F.coalesce("link", "channel"))
    producers = blocks.select(
        "broker", "virtualhost", F.lit("producer").alias("kind"), who.alias("name"), "queue", *bounds
    )
    return _cut_intervals(queues.unionByName(producers), spans, ranges, "blocked_ms", "blocks")


def _cut_intervals(intervals: DataFrame, spans: DataFrame, ranges: DataFrame, time: str, count: str) -> DataFrame:
    """Return the parts of intervals (`begin`, `end`, null: ongoing) within spans and ranges, cut at minutes."""
    inside = intervals.where("queue IS NOT NULL").join(
        ranges, F.expr("broker = range_broker AND begin < range_to AND (end IS NULL OR end >= range_from)")
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
