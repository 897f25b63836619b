"""Operators' stops as episodes: from the stop of a scope to the start that lifted it, with user and reason. Pure.

A start lifts the stops of its own scope and of all scopes that it contains (DOMAIN.md section 3). Pairs with an equal
scope, which are most, are found by a join of equal texts; a start of a virtual host or a broker is compared with every
stop of its broker. `storage/stop_scopes.py` has the same rules for a single pair; a test compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.pipeline.episodes import episode_id

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def stopped(events: DataFrame, carried: DataFrame) -> DataFrame:
    """Return the episodes of kind `stopped`. Arguments as for `blocks.blocks`; a restart lifts no stop."""
    begins, starts = _begins(events, carried), _starts(events)
    pairs = _pairs(begins, starts)
    ends = starts.join(pairs, ["broker", "started"]).drop("started").unionByName(_deletions(events))
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
    """Return (broker, started, scope): a start of `started` lifts the stop of `scope`."""
    stopped = begins.select("broker", "scope").distinct()
    started = starts.select("broker", "started").distinct()
    equal = stopped.withColumn("started", F.col("scope")).join(started, ["broker", "started"], "left_semi")
    wide = _parsed(started, "started", "o_").where("o_kind IN ('broker', 'virtualhost')")
    inner = _parsed(stopped, "scope", "i_").where("i_kind IS NOT NULL").withColumnRenamed("broker", "i_broker")
    contained = wide.join(inner, (F.col("broker") == F.col("i_broker")) & _contains())
    columns = ("broker", "started", "scope")
    return equal.select(*columns).unionByName(contained.select(*columns)).distinct()


def _parsed(scopes: DataFrame, column: str, prefix: str) -> DataFrame:
    """Add the parts of a scope with names that begin with `prefix`: `kind` (null: the text is no scope), `host` (""
    for a broker), `words` and `open` of the pattern or queue's name (`brokers/model/patterns.fixed_words`)."""
    text = F.col(column)
    kind, rest = F.substring_index(text, " ", 1), F.regexp_replace(text, "^[^ ]* ?", "")
    quoted = F.regexp_extract(rest, r'^"(?:[^"\\]|\\.)*"', 0)
    bare = F.regexp_extract(rest, '^[^ /"][^ /]*', 0)
    raw = F.when(quoted != "", quoted).otherwise(bare)
    host = F.when(quoted != "", F.element_at(F.from_json(F.concat(F.lit("["), quoted, F.lit("]")), "array<string>"), 1))
    tail = F.expr(f"substring({prefix}rest, length({prefix}raw) + 1)")
    rows = scopes.withColumns(
        {f"{prefix}rest": rest, f"{prefix}raw": raw, f"{prefix}given": kind, f"{prefix}named": host.otherwise(bare)}
    ).withColumn(f"{prefix}tail", tail)
    kind = F.col(f"{prefix}given")
    is_broker = kind == "broker"
    names = F.regexp_replace(F.col(f"{prefix}tail"), "^/", "")
    valid = is_broker | (
        kind.isin("virtualhost", "exchange", "queue")
        & F.col(f"{prefix}named").isNotNull()
        & (F.col(f"{prefix}raw") != "")
        & ((kind == "virtualhost") | (names != ""))
    )
    pattern = (
        F.when(is_broker, F.col(f"{prefix}rest"))
        .when(kind == "virtualhost", F.regexp_replace(F.col(f"{prefix}tail"), "^ ", ""))
        .otherwise(names)
    )
    words = F.split(F.when(pattern == "", ">").otherwise(pattern), r"\.", -1)
    is_open = kind.isin("broker", "virtualhost") & F.element_at(words, -1).isin(">", "#")
    return rows.select(
        "broker",
        column,
        F.when(valid, kind).alias(f"{prefix}kind"),
        F.when(is_broker, "").otherwise(F.col(f"{prefix}named")).alias(f"{prefix}host"),
        F.when(is_open, F.slice(words, 1, F.size(words) - 1)).otherwise(words).alias(f"{prefix}words"),
        is_open.alias(f"{prefix}open"),
    )


def _contains() -> Column:
    """Return whether the scope with the prefix `o_`, of a virtual host or a broker, contains that with `i_`."""
    host = F.expr("o_host = '' OR (i_kind <> 'broker' AND o_host = i_host)")
    # An exchange has no pattern: only a start of everything contains it, as `pattern_contains` has it.
    inner = F.expr("CASE WHEN i_kind = 'exchange' THEN CAST(array() AS array<string>) ELSE i_words END")
    inner_open = F.expr("i_open OR i_kind = 'exchange'")
    rows = F.struct(inner.alias("words"), inner_open.alias("open"))
    words = F.when(F.col("o_open"), F.slice(rows["words"], 1, F.size("o_words"))).otherwise(rows["words"])
    fits = F.forall(
        F.arrays_zip(F.col("o_words").alias("w"), words.alias("n")), lambda x: (x["w"] == "*") | (x["w"] == x["n"])
    )
    every = F.col("o_open") & (F.size("o_words") == 1) & (F.element_at("o_words", 1) == "*") & rows["open"]
    same = (F.col("o_open") | ~rows["open"]) & (F.size("o_words") == F.size(words)) & F.coalesce(fits, F.lit(False))
    return host & F.coalesce(every | same, F.lit(False))


def _word(column: str) -> Column:
    """Return a virtual host's name as the broker writes it in a scope."""
    quoted = F.to_json(F.array(column))
    bare = F.substring(quoted, F.lit(2), F.length(quoted) - 2)
    return F.when(F.col(column).rlike('[ /"]'), bare).otherwise(F.col(column))
