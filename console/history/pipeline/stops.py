"""Operators' stops as episodes: from the stop of a scope to the start that lifted it, with user and reason. Pure.

A start lifts the stops of its own scope and of all scopes that it contains (DOMAIN.md section 3). Scopes are few, so
the pairs are computed in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.pipeline.episodes import episode_id
from console.history.storage.stop_scopes import Scope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def stopped(events: DataFrame, carried: DataFrame) -> DataFrame:
    """Return the episodes of kind `stopped`. Arguments as for `blocks.blocks`; a restart lifts no stop."""
    begins, starts = _begins(events, carried), _starts(events)
    pairs = _pairs(begins, starts)
    ends = starts.join(F.broadcast(pairs), "started").drop("started").unionByName(_deletions(events))
    later = F.expr("end_ms > ms OR (end_ms = ms AND end_seq > seq)")
    ended = (
        begins.join(ends, ["broker", "scope"], "left")
        .groupBy("broker", "scope", "ms", "seq", "actor", "reason", "producers")
        .agg(F.min(F.when(later, F.struct("end_ms", "end_seq", "what", "end_actor", "end_reason"))).alias("e"))
        # Repeated stops of a stopped scope cause no event, but after a gap one may be recorded twice.
        .groupBy("broker", "scope", "e")
        .agg(F.min(F.struct("ms", "seq", "actor", "reason", "producers")).alias("b"))
    )
    return ended.select(
        "broker", "scope", "e", "b", F.col("b.ms").alias("start_ms"), F.lit("").alias("virtualhost")
    ).select(
        episode_id("stopped", F.col("scope")),
        F.lit("stopped").alias("kind"),
        "broker",
        F.lit(None).cast("string").alias("virtualhost"),
        F.lit(None).cast("string").alias("queue"),
        "scope",
        F.timestamp_millis("start_ms").alias("start"),
        F.timestamp_millis("e.end_ms").alias("end"),
        F.timestamp_millis("start_ms").alias("seen"),
        (F.col("e.end_ms") - F.col("start_ms")).alias("duration_ms"),
        F.lit(None).cast("bigint").alias("stop_messages"),
        F.lit(None).cast("bigint").alias("stop_bytes"),
        F.col("b.producers").alias("producers"),
        F.col("b.actor").alias("actor"),
        F.col("b.reason").alias("reason"),
        F.col("e.what").alias("released_by"),
        F.col("e.end_actor").alias("released_actor"),
        F.col("e.end_reason").alias("released_reason"),
        F.lit(True).alias("settled"),
    )


def _begins(events: DataFrame, carried: DataFrame) -> DataFrame:
    """Return (broker, scope, ms, seq, actor, reason, producers): new stops, and those ongoing before."""
    stops = events.where("kind = 'producers-stopped' AND scope IS NOT NULL").select(
        "broker",
        "scope",
        F.unix_millis("at").alias("ms"),
        F.col("sequence").alias("seq"),
        "actor",
        "reason",
        "producers",
    )
    ongoing = carried.select(
        "broker",
        "scope",
        F.unix_millis("start").alias("ms"),
        F.lit(-1).cast("bigint").alias("seq"),
        "actor",
        "reason",
        "producers",
    )
    return stops.unionByName(ongoing)


def _starts(events: DataFrame) -> DataFrame:
    """Return (broker, started, end_ms, end_seq, what, end_actor, end_reason): operators' starts; `started` is a
    scope."""
    return events.where("kind = 'producers-started' AND scope IS NOT NULL").select(
        "broker",
        F.col("scope").alias("started"),
        F.unix_millis("at").alias("end_ms"),
        F.col("sequence").alias("end_seq"),
        F.lit("started").alias("what"),
        F.col("actor").alias("end_actor"),
        F.col("reason").alias("end_reason"),
    )


def _deletions(events: DataFrame) -> DataFrame:
    """Return the ends of stops by deletion of their queue, with `scope` and the columns of `_starts`."""
    return events.where("kind = 'queue-deleted'").select(
        "broker",
        F.concat(F.lit("queue "), _word("virtualhost"), F.lit("/"), F.col("queue")).alias("scope"),
        F.unix_millis("at").alias("end_ms"),
        F.col("sequence").alias("end_seq"),
        F.lit("deleted").alias("what"),
        F.col("actor").alias("end_actor"),
        F.lit(None).cast("string").alias("end_reason"),
    )


def _pairs(begins: DataFrame, starts: DataFrame) -> DataFrame:
    """Return (started, scope): a start of `started` lifts the stop of `scope`."""
    stopped_scopes = [row.scope for row in begins.select("scope").distinct().collect()]
    started_scopes = [row.started for row in starts.select("started").distinct().collect()] if stopped_scopes else []
    pairs = []
    for started in started_scopes:
        for scope in stopped_scopes:
            outer, inner = Scope.parse(started), Scope.parse(scope)
            if started == scope or (outer and inner and outer.contains(inner)):
                pairs.append((started, scope))
    spark = begins.sparkSession
    if not pairs:
        return spark.sql("SELECT '' AS started, '' AS scope WHERE false")
    return spark.createDataFrame(pairs, "started string, scope string")


def _word(column: str) -> Column:
    """Return a virtual host's name as the broker writes it in a scope."""
    quoted = F.to_json(F.array(column))
    bare = F.substring(quoted, F.lit(2), F.length(quoted) - 2)
    return F.when(F.col(column).rlike('[ /"]'), bare).otherwise(F.col(column))
