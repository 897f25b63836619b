"""Overfull episodes: start and end, peak depth, blocked producers, cause of the end. Pure.

An event, or a sample of all queues, is evidence of a queue's state at its time. An episode is a maximal sequence of
evidence of the overfull state. So a lost underfull event, a recorder that started late and a restart of the broker need
no special rules but one: a restart is no evidence of a state. The next evidence decides whether an ongoing episode went
on: an underfull event means that the queue was still overfull.

As in `blocks.py`, only evidence since a given time is read; episodes ongoing then are carried over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.pipeline.blocks import last_recorded
from console.history.pipeline.spans import by_day
from console.history.storage.durations import DAY
from console.history.storage.layout import MEASURES
from console.history.storage.tables import time_of_broker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_QUEUE = ("broker", "virtualhost", "queue")
_OVERFULL = "state IN ('OVERFULL', 'OVERFULL_STOPPED')"


def overfull(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """Return the episodes of kind `overfull`, without the columns that `measured` adds. Arguments as for
    `blocks.blocks`; `carried` includes episodes that a restart ended without later evidence of the state (`settled` is
    false)."""
    evidence = _evidence(events, samples, carried)
    ordered = Window.partitionBy(*_QUEUE).orderBy("ms", "seq")
    states = (
        evidence.withColumn("later", _nearest("lead", "was"))
        .withColumn("known", _nearest("lag", "on"))
        .withColumn("overfull", F.coalesce("on", F.col("known") & F.col("later"), F.lit(False)))
        .withColumn("before", F.coalesce(F.lag("overfull").over(ordered), F.lit(False)))
        .where("overfull <> before")
        .withColumn("number", F.sum(F.col("overfull").cast("int")).over(ordered))
    )
    begin, end = F.col("overfull"), ~F.col("overfull")
    runs = states.groupBy(*_QUEUE, "number").agg(
        F.first(F.when(begin, F.struct("start_ms", "ms", "stop_messages", "stop_bytes")), ignorenulls=True).alias("b"),
        F.first(F.when(end, F.struct("ms", "what", "state", "actor", "later", "on")), ignorenulls=True).alias("e"),
    )
    # One episode for one start, of which its id is made: a queue may become overfull twice within a ms.
    runs = runs.groupBy(*_QUEUE, F.col("b.start_ms").alias("start_ms")).agg(
        F.min_by("b", "number").alias("b"), F.max_by("e", "number").alias("e")
    )
    causes = _causes(events)
    found = runs.select(
        *_QUEUE,
        "start_ms",
        F.col("b.ms").alias("seen_ms"),
        F.col("b.stop_messages"),
        F.col("b.stop_bytes"),
        F.col("e.ms").alias("end_ms"),
        F.col("e.what").alias("what"),
        F.col("e.state").alias("end_state"),
        F.col("e.actor").alias("end_actor"),
        F.expr("e.ms IS NULL OR e.on IS NOT NULL OR e.later IS NOT NULL").alias("settled"),
    ).where("start_ms IS NOT NULL")
    with_causes = found.join(causes, ["broker", "end_ms"], "left")
    released, released_actor = _release()
    return with_causes.select(
        episode_id("overfull", F.col("queue")),
        F.lit("overfull").alias("kind"),
        *_QUEUE,
        F.lit(None).cast("string").alias("scope"),
        F.timestamp_millis("start_ms").alias("start"),
        F.timestamp_millis("end_ms").alias("end"),
        F.timestamp_millis("seen_ms").alias("seen"),
        (F.col("end_ms") - F.col("start_ms")).alias("duration_ms"),
        "stop_messages",
        "stop_bytes",
        F.lit(None).cast("string").alias("actor"),
        F.lit(None).cast("string").alias("reason"),
        released.alias("released_by"),
        F.coalesce(released_actor, F.when(released == "deleted", F.col("end_actor"))).alias("released_actor"),
        F.lit(None).cast("string").alias("released_reason"),
        "settled",
    )


def _nearest(function: str, column: str) -> Column:
    """Return the column's next (`lead`) or last (`lag`) known value in the queue's other evidence. Both in one order,
    so that Spark sorts once: a frame of all later rows would have to be sorted backwards to take linear time."""
    return F.expr(f"{function}({column}) IGNORE NULLS OVER (PARTITION BY {', '.join(_QUEUE)} ORDER BY ms, seq)")


def _release() -> tuple[Column, Column]:
    """Return the cause of an episode's end, and the operator who caused it by a purge or a policy change."""
    purged = F.expr("array_position(purged, struct(virtualhost, queue)) > 0")
    released = (
        F.when(F.col("what").isNull(), None)
        .when(F.col("what") != "underfull", F.col("what"))
        .when(purged, "purged")
        .when(F.col("edited_by").isNotNull(), "policy")
        .when(F.col("end_state") == "STOPPED", "stopped")
        .otherwise("drained")
    )
    released_actor = F.when(released == "purged", F.col("purged_by")).when(released == "policy", F.col("edited_by"))
    return released, released_actor


def known_until(episodes: DataFrame, recorded: DataFrame) -> DataFrame:
    """End episodes that a restart ended with the last recorded moment before it: until then the queue was overfull, and
    what it was afterwards is unknown. `recorded`: as `spans.spans`."""
    found = last_recorded(episodes, F.col("released_by") == "restart", "seen", recorded)
    return found.withColumn("duration_ms", F.unix_millis("end") - F.unix_millis("start"))


def measured_from(episodes: DataFrame, before: DataFrame, since: Mapping[str, int]) -> DataFrame:
    """Add `points_from`: the time, ms, from which on depths have to be read to find the peak, and `known_messages` and
    `known_bytes`, the peaks until then. An episode that was stored with the same start, and has only become longer, was
    measured up to its stored end; one that was ongoing, up to `since` (by broker, ms) at least."""
    old = before.select(
        "id",
        F.col("end").alias("old_end"),
        F.col("peak_messages").alias("known_messages"),
        F.col("peak_bytes").alias("known_bytes"),
        F.lit(True).alias("stored"),
    )
    longer = F.expr("stored AND (old_end IS NULL OR end IS NULL OR end >= old_end)") & (
        F.col("end").isNull() | (F.unix_millis("end") >= F.col("since_ms"))
    )
    start, measured_to = F.unix_millis("start"), F.unix_millis("old_end")
    return (
        episodes.join(old, "id", "left")
        .withColumn("since_ms", time_of_broker(since))
        .withColumn("longer", F.coalesce(longer, F.lit(False)))
        .withColumns(
            {
                "points_from": F.when(F.col("longer"), F.greatest(start, F.least("since_ms", measured_to))).otherwise(
                    start
                ),
                **{name: F.when(F.col("longer"), F.col(name)) for name in ("known_messages", "known_bytes")},
            }
        )
        .drop("old_end", "stored", "since_ms", "longer")
    )


def measured(
    episodes: DataFrame, points: DataFrame, blocks: DataFrame, horizons: Mapping[str, int], recorded: DataFrame
) -> DataFrame:
    """Add to `episodes`, with the columns of `measured_from`, their peak depths, blocked producers, the connections of
    these, and blocked producer time, of which only recorded time counts. `points`: (broker, virtualhost, queue, at,
    depth_messages, depth_bytes) from samples and events, of which all later ones belong to an ongoing episode;
    `horizons`: by broker, the time up to which ongoing episodes and blocks count, ms; `recorded`: as `spans.spans`."""
    bounds = episodes.withColumn("horizon_ms", time_of_broker(horizons)).select(
        "id",
        *_QUEUE,
        "points_from",
        F.unix_millis("start").alias("start_ms"),
        F.unix_millis("end").alias("points_to"),
        F.coalesce(F.unix_millis("end"), F.greatest("horizon_ms", F.unix_millis("start"))).alias("end_ms"),
    )
    bounds = bounds.where("queue IS NOT NULL")
    at = F.unix_millis("at")
    depths = (
        points.join(bounds, list(_QUEUE))
        .where((at >= F.col("points_from")) & F.coalesce(at <= F.col("points_to"), F.lit(True)))
        .groupBy("id")
        .agg(F.max("depth_messages").alias("peak_messages"), F.max("depth_bytes").alias("peak_bytes"))
    )
    spans = by_day(recorded).withColumnsRenamed({"broker": "its_broker", "day": "its_day"})
    during_span = F.expr(
        "broker = its_broker AND day = its_day AND from_ms < to_ms AND from_ms < span_to AND to_ms > span_from"
    )
    recorded_ms = F.least("to_ms", "span_to") - F.greatest("from_ms", "span_from")
    blocked_from, blocked_to = F.unix_millis("start"), F.coalesce(F.unix_millis("end"), F.col("end_ms"))
    connection = F.coalesce("connection", "client", "producer")
    during = blocks.join(bounds, list(_QUEUE)).where(
        (blocked_from <= F.col("end_ms")) & (blocked_to >= F.col("start_ms"))
    )
    days = F.expr(f"sequence(from_ms div {DAY}, to_ms div {DAY})")
    counted = (
        during.select(
            "id",
            "broker",
            "producer",
            connection.alias("connection"),
            F.greatest(blocked_from, "start_ms").alias("from_ms"),
            F.least(blocked_to, "end_ms").alias("to_ms"),
        )
        .withColumn("day", F.explode(days))
        .withColumns(
            {
                "from_ms": F.greatest("from_ms", F.col("day") * DAY),
                "to_ms": F.least("to_ms", (F.col("day") + 1) * DAY),
            }
        )
        .join(F.broadcast(spans), during_span, "left")
        .groupBy("id")
        .agg(
            F.countDistinct("producer").alias("producers"),
            F.countDistinct("connection").alias("connections"),
            F.sum(F.when(F.col("span_to").isNotNull(), recorded_ms)).alias("blocked_ms"),
        )
    )
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("producers", "connections", "blocked_ms")}
    peaks = {f"peak_{unit}": F.greatest(f"peak_{unit}", f"known_{unit}") for unit in ("messages", "bytes")}
    found = episodes.join(depths, "id", "left").join(counted, "id", "left")
    return found.withColumns({**counts, **peaks}).drop("points_from", "known_messages", "known_bytes")


def never_less(episodes: DataFrame, before: DataFrame, complete_from: Mapping[str, int]) -> DataFrame:
    """Retain what is known of episodes that began before `complete_from` (by broker, ms): retention has deleted rows
    that they were measured from. Each measured value is at least that of the stored episodes that it overlaps."""
    old = before.select(
        *(F.col(name).alias(f"old_{name}") for name in (*_QUEUE, "start", "end")),
        *(F.col(name).alias(f"old_{name}") for name in MEASURES),
    )
    same = F.lit(True)
    for name in _QUEUE:
        same = same & F.col(name).eqNullSafe(F.col(f"old_{name}"))
    overlap = F.expr("(end IS NULL OR old_start <= end) AND (old_end IS NULL OR old_end >= start)")
    known = (
        episodes.where(F.unix_millis("start") < time_of_broker(complete_from))
        .join(old, same & overlap)
        .groupBy("id")
        .agg(*(F.max(f"old_{name}").alias(f"old_{name}") for name in MEASURES))
    )
    greater = {name: F.greatest(name, f"old_{name}") for name in MEASURES}
    return episodes.join(known, "id", "left").withColumns(greater).drop(*(f"old_{name}" for name in MEASURES))


def _evidence(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """Return (queue, ms, seq, on, was, what, state, actor, start_ms, stop_messages, stop_bytes) of queues that were
    overfull at least once. `on`: whether the queue is overfull from then on, null for a restart; `was`: whether it was
    before, null if unknown."""
    evidence = _from_events(events).unionByName(_from_samples(samples)).unionByName(_carried_over(carried))
    # Most queues are never overfull, and most evidence is theirs: it would be moved and sorted for nothing.
    queues = evidence.where("on").select(*(F.col(name).alias(f"its_{name}") for name in _QUEUE)).distinct()
    its = F.lit(True)
    for name in _QUEUE:
        its = its & F.col(name).eqNullSafe(F.col(f"its_{name}"))
    evidence = evidence.join(F.broadcast(queues), its, "left_semi")
    # A restart concerns every queue with an episode.
    ready = events.where("kind = 'broker-ready'").select(
        "broker", F.unix_millis("at").alias("ms"), F.col("sequence").alias("ready_seq")
    )
    restarts = queues.join(F.broadcast(ready), F.col("its_broker") == F.col("broker")).select(
        *(F.col(f"its_{name}").alias(name) for name in _QUEUE),
        "ms",
        *(value.alias(name) for name, value in {**_restart(), "seq": F.col("ready_seq")}.items()),
    )
    unsettled = carried.where("NOT settled").select(
        *_QUEUE, F.unix_millis("end").alias("ms"), *(value.alias(name) for name, value in _restart().items())
    )
    return evidence.unionByName(restarts).unionByName(unsettled)


def _from_events(events: DataFrame) -> DataFrame:
    kind = F.col("kind")
    on = (
        F.when(kind == "queue-overfull", True)
        .when(kind.isin("queue-underfull", "queue-deleted", "queue-created"), False)
        .otherwise(F.expr(_OVERFULL))
    )
    was = F.when(kind == "queue-underfull", True).when(kind == "queue-overfull", False).otherwise(on)
    what = (
        F.when(kind == "queue-underfull", "underfull")
        .when(kind == "queue-deleted", "deleted")
        .when(kind == "queue-created", "restart")
        .otherwise("seen")
    )
    return events.where(
        "queue IS NOT NULL AND (state IS NOT NULL OR kind IN ('queue-overfull', 'queue-underfull', 'queue-deleted',"
        " 'queue-created'))"
    ).select(
        *_QUEUE,
        F.unix_millis("at").alias("ms"),
        F.col("sequence").alias("seq"),
        on.alias("on"),
        was.alias("was"),
        what.alias("what"),
        "state",
        "actor",
        F.unix_millis("at").alias("start_ms"),
        "stop_messages",
        "stop_bytes",
    )


def _from_samples(samples: DataFrame) -> DataFrame:
    return samples.where("whole AND state IS NOT NULL").select(
        *_QUEUE,
        F.unix_millis("at").alias("ms"),
        F.lit(-1).cast("bigint").alias("seq"),
        F.expr(_OVERFULL).alias("on"),
        F.expr(_OVERFULL).alias("was"),
        F.lit("seen").alias("what"),
        "state",
        F.lit(None).cast("string").alias("actor"),
        F.coalesce(F.unix_millis("overfull_since"), F.unix_millis("at")).alias("start_ms"),
        "stop_messages",
        "stop_bytes",
    )


def _carried_over(carried: DataFrame) -> DataFrame:
    """Return the evidence of episodes that an earlier run left ongoing."""
    return carried.select(
        *_QUEUE,
        F.unix_millis("seen").alias("ms"),
        F.lit(-2).cast("bigint").alias("seq"),
        F.lit(True).alias("on"),
        F.lit(None).cast("boolean").alias("was"),
        F.lit("carried").alias("what"),
        F.lit("OVERFULL").alias("state"),
        F.lit(None).cast("string").alias("actor"),
        F.unix_millis("start").alias("start_ms"),
        "stop_messages",
        "stop_bytes",
    )


def _restart() -> dict[str, Column]:
    """Return the columns of a restart, without queue and time: the queue's state is unknown."""
    null = F.lit(None)
    return {
        "seq": F.lit(-1).cast("bigint"),
        "on": null.cast("boolean"),
        "was": null.cast("boolean"),
        "what": F.lit("restart"),
        "state": null.cast("string"),
        "actor": null.cast("string"),
        "start_ms": null.cast("bigint"),
        "stop_messages": null.cast("bigint"),
        "stop_bytes": null.cast("bigint"),
    }


def _causes(events: DataFrame) -> DataFrame:
    """Return (broker, end_ms, edited_by, purged, purged_by): policy changes and purges by time. The effect of a change
    on a queue has exactly the time of the change."""
    changes = events.where("kind IN ('policy-changed', 'queue-purged')")
    edited, purge = F.col("kind") == "policy-changed", F.col("kind") == "queue-purged"
    return changes.groupBy("broker", F.unix_millis("at").alias("end_ms")).agg(
        F.min(F.when(edited, F.coalesce("actor", F.lit("")))).alias("edited_by"),
        F.collect_set(F.when(purge, F.struct("virtualhost", "queue"))).alias("purged"),
        F.min(F.when(purge, F.coalesce("actor", F.lit("")))).alias("purged_by"),
    )


def episode_id(kind: str, subject: Column) -> Column:
    """Return the id of an episode, which does not change when it is recomputed, since it is part of addresses."""
    parts = F.concat_ws("\x1f", F.lit(kind), "broker", F.coalesce("virtualhost", F.lit("")), subject, "start_ms")
    return F.substring(F.sha2(parts, 256), 1, 16).alias("id")
