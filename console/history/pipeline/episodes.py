"""Episodes: from when to when a queue was overfull, how bad it was, and what ended it. Pure.

What is known of a queue's state at a moment is evidence: an event says it, and so does a sample of all queues. An
episode is a longest run of evidence that says overfull. So a lost underfull, a recorder that came late and a broker
that restarted need no rules of their own, but one: a restart says nothing itself. What comes after it tells: an
underfull means that the queue had still been overfull.

As in `holds.py`, only evidence since a moment is looked at; what was not over by then is carried in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_QUEUE = ("broker", "virtualhost", "queue")
_OVERFULL = "state IN ('OVERFULL', 'OVERFULL_STOPPED')"


def overfull(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """Episodes of kind `overfull`, without what `measured` adds. Arguments as for `holds.holds`; carried in besides:
    episodes that a restart ended, and nothing since has told the queue's state (`settled` is false)."""
    evidence = _evidence(events, samples, carried)
    ordered = Window.partitionBy(*_QUEUE).orderBy("ms", "seq")
    # Backwards: Spark works out a frame that grows in linear time, and one that shrinks in quadratic time.
    backwards = Window.partitionBy(*_QUEUE).orderBy(F.desc("ms"), F.desc("seq"))
    following = backwards.rowsBetween(Window.unboundedPreceding, -1)
    states = (
        evidence.withColumn("later", F.last("was", ignorenulls=True).over(following))
        .withColumn("overfull", F.coalesce("on", "later", F.lit(False)))
        .withColumn("before", F.coalesce(F.lag("overfull").over(ordered), F.lit(False)))
        .where("overfull <> before")
        .withColumn("number", F.sum(F.col("overfull").cast("int")).over(ordered))
    )
    begin, end = F.col("overfull"), ~F.col("overfull")
    runs = states.groupBy(*_QUEUE, "number").agg(
        F.first(F.when(begin, F.struct("start_ms", "ms", "stop_messages", "stop_bytes")), ignorenulls=True).alias("b"),
        F.first(F.when(end, F.struct("ms", "what", "state", "actor", "later")), ignorenulls=True).alias("e"),
    )
    because = _because(events)
    found = runs.select(
        *_QUEUE,
        F.col("b.start_ms").alias("start_ms"),
        F.col("b.ms").alias("seen_ms"),
        F.col("b.stop_messages"),
        F.col("b.stop_bytes"),
        F.col("e.ms").alias("end_ms"),
        F.col("e.what").alias("what"),
        F.col("e.state").alias("end_state"),
        F.col("e.actor").alias("end_actor"),
        F.expr("NOT (e.what <=> 'restart' AND e.later IS NULL)").alias("settled"),
    ).where("start_ms IS NOT NULL")
    told = found.join(because, ["broker", "end_ms"], "left")
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
    return told.select(
        _identity("overfull", F.col("queue")),
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


def measured(episodes: DataFrame, points: DataFrame, holds: DataFrame, horizons: DataFrame) -> DataFrame:
    """`episodes` with their peak depths, the producers and connections that were held in them, and the time that those
    lost. `points`: (broker, virtualhost, queue, at, depth_messages, depth_bytes) from samples and events; `horizons`:
    (broker, horizon_ms), up to where an open episode or hold is counted."""
    bounds = episodes.join(F.broadcast(horizons), "broker", "left").select(
        "id",
        *_QUEUE,
        F.unix_millis("start").alias("start_ms"),
        F.coalesce(F.unix_millis("end"), F.greatest("horizon_ms", F.unix_millis("start"))).alias("end_ms"),
    )
    bounds = bounds.where("queue IS NOT NULL")
    at = F.unix_millis("at")
    depths = (
        points.join(bounds, list(_QUEUE))
        .where((at >= F.col("start_ms")) & (at <= F.col("end_ms")))
        .groupBy("id")
        .agg(F.max("depth_messages").alias("peak_messages"), F.max("depth_bytes").alias("peak_bytes"))
    )
    held_from, held_to = F.unix_millis("start"), F.coalesce(F.unix_millis("end"), F.col("end_ms"))
    connection = F.coalesce("connection", "client", "producer")
    held = (
        holds.join(bounds, list(_QUEUE))
        .where((held_from <= F.col("end_ms")) & (held_to >= F.col("start_ms")))
        .groupBy("id")
        .agg(
            F.countDistinct("producer").alias("producers"),
            F.countDistinct(connection).alias("connections"),
            F.sum(F.least(held_to, F.col("end_ms")) - F.greatest(held_from, F.col("start_ms"))).alias("blocked_ms"),
        )
    )
    counts = {name: F.coalesce(name, F.lit(0)) for name in ("producers", "connections", "blocked_ms")}
    return episodes.join(depths, "id", "left").join(held, "id", "left").withColumns(counts)


def _evidence(events: DataFrame, samples: DataFrame, carried: DataFrame) -> DataFrame:
    """(queue, ms, seq, on, was, what, state, actor, start_ms, stop_messages, stop_bytes). `on`: whether the queue is
    overfull from here on, null for a restart; `was`: whether it had been until here, null if that cannot be told."""
    told = _told_by_events(events).unionByName(_shown_by_samples(samples)).unionByName(_carried_over(carried))
    # A restart is evidence of every queue that there is other evidence of; others had no episode to end.
    queues = told.select(*_QUEUE).distinct()
    ready = events.where("kind = 'broker-ready'").select(
        "broker", F.unix_millis("at").alias("ms"), F.col("sequence").alias("ready_seq")
    )
    restarts = queues.join(F.broadcast(ready), "broker").select(
        *_QUEUE, "ms", *(value.alias(name) for name, value in {**_restart(), "seq": F.col("ready_seq")}.items())
    )
    unsettled = carried.where("NOT settled").select(
        *_QUEUE, F.unix_millis("end").alias("ms"), *(value.alias(name) for name, value in _restart().items())
    )
    return told.unionByName(restarts).unionByName(unsettled)


def _told_by_events(events: DataFrame) -> DataFrame:
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


def _shown_by_samples(samples: DataFrame) -> DataFrame:
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
    """Episodes of an earlier run that were open at its end."""
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
    """The columns of a restart's evidence but its queue and time: nothing is known of the queue."""
    nothing = F.lit(None)
    return {
        "seq": F.lit(-1).cast("bigint"),
        "on": nothing.cast("boolean"),
        "was": nothing.cast("boolean"),
        "what": F.lit("restart"),
        "state": nothing.cast("string"),
        "actor": nothing.cast("string"),
        "start_ms": nothing.cast("bigint"),
        "stop_messages": nothing.cast("bigint"),
        "stop_bytes": nothing.cast("bigint"),
    }


def _because(events: DataFrame) -> DataFrame:
    """(broker, end_ms, edited_by, purged, purged_by): edits of policies and purges, by their moment. What a change does
    to a queue has the very time of the change."""
    changes = events.where("kind IN ('policy-changed', 'queue-purged')")
    edited, purge = F.col("kind") == "policy-changed", F.col("kind") == "queue-purged"
    return changes.groupBy("broker", F.unix_millis("at").alias("end_ms")).agg(
        F.min(F.when(edited, F.coalesce("actor", F.lit("")))).alias("edited_by"),
        F.collect_set(F.when(purge, F.struct("virtualhost", "queue"))).alias("purged"),
        F.min(F.when(purge, F.coalesce("actor", F.lit("")))).alias("purged_by"),
    )


def _identity(kind: str, subject: Column) -> Column:
    """The same episode has the same id however often it is worked out; it is part of a page's address."""
    parts = F.concat_ws("\x1f", F.lit(kind), "broker", F.coalesce("virtualhost", F.lit("")), subject, "start_ms")
    return F.substring(F.sha2(parts, 256), 1, 16).alias("id")


identity = _identity
