"""The pure steps in DuckDB, over the same files as Spark: the yardstick for one machine.

Rollups of queues by minute, hour and day from samples, events and coverage, and overfull episodes. Not virtual hosts,
producers and blocked time, which are few rows. What both found is compared column by column, so that a ratio is one
of equal work.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.storage.durations import SAMPLE_VALIDITY_MS
from console.history.storage.layout import table_url

_SPANS = """
CREATE TEMP TABLE spans AS
WITH marked AS (
    SELECT broker, epoch_ms("at") AS a, epoch_ms(until) AS u,
        max(epoch_ms(until)) OVER (PARTITION BY broker ORDER BY "at", until
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM {coverage} WHERE followed AND source <> 'log'
), islands AS (
    SELECT *, count(*) FILTER (before IS NULL OR a > before) OVER (PARTITION BY broker ORDER BY a, u) AS n FROM marked
)
SELECT broker, min(a) AS span_from, max(u) AS span_to FROM islands GROUP BY broker, n
"""

_MINUTES = """
CREATE TEMP TABLE pieces AS
WITH points AS (
    SELECT broker, virtualhost, queue, epoch_ms("at") AS ms, -1 AS seq, state, depth_messages, depth_bytes,
        enqueued_messages, dequeued_messages FROM {samples}
    UNION ALL
    SELECT broker, virtualhost, queue, epoch_ms("at"), sequence,
        CASE WHEN kind <> 'queue-deleted' THEN state END, CASE WHEN kind <> 'queue-deleted' THEN depth_messages END,
        CASE WHEN kind <> 'queue-deleted' THEN depth_bytes END, NULL, NULL
    FROM {events} WHERE queue IS NOT NULL AND (depth_messages IS NOT NULL OR depth_bytes IS NOT NULL)
), looked AS (
    SELECT p.*, span_from, span_to FROM points p
    ASOF LEFT JOIN spans s ON p.broker = s.broker AND p.ms >= s.span_from
), blocked_spans AS (
    SELECT *, CASE WHEN ms <= span_to
            THEN greatest(ms, least(lead(ms) OVER o, ms + $holds, span_to)) ELSE ms END AS end_ms,
        last_value(CASE WHEN enqueued_messages IS NOT NULL
            THEN {{'ms': ms, 'i': enqueued_messages, 'o': dequeued_messages}} END IGNORE NULLS)
            OVER (o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
    FROM looked WINDOW o AS (PARTITION BY broker, virtualhost, queue ORDER BY ms, seq)
), grown AS (
    SELECT *, CASE WHEN last.ms >= ms - $holds AND last.ms >= span_from AND ms <= span_to THEN
            CASE WHEN enqueued_messages >= last.i THEN enqueued_messages - last.i ELSE enqueued_messages END END AS gi,
        CASE WHEN last.ms >= ms - $holds AND last.ms >= span_from AND ms <= span_to THEN
            CASE WHEN dequeued_messages >= last.o THEN dequeued_messages - last.o ELSE dequeued_messages END END AS go,
        unnest(range(ms // 60000, greatest(ms, end_ms - 1) // 60000 + 1)) AS minute
    FROM blocked_spans
)
SELECT broker, virtualhost, queue, minute, depth_messages AS m, depth_bytes AS b,
    CASE WHEN depth_messages IS NOT NULL OR depth_bytes IS NOT NULL
        THEN greatest(0, least(end_ms, minute * 60000 + 60000) - greatest(ms, minute * 60000)) END AS w,
    CASE WHEN minute * 60000 <= ms THEN gi END AS gi, CASE WHEN minute * 60000 <= ms THEN go END AS go
FROM grown;
CREATE TEMP TABLE minutes AS
WITH ranked AS (
    SELECT *, sum(w) OVER (PARTITION BY minute, queue, virtualhost, broker) AS n,
        sum(w) OVER (PARTITION BY minute, queue, virtualhost, broker ORDER BY m ROWS UNBOUNDED PRECEDING) AS sm,
        sum(w) OVER (PARTITION BY minute, queue, virtualhost, broker ORDER BY b ROWS UNBOUNDED PRECEDING) AS sb
    FROM pieces
)
SELECT broker, virtualhost, queue AS name, minute * 60000 AS slot, coalesce(sum(w), 0) AS known_ms,
    sum(m * w) / nullif(sum(w), 0) AS messages_mean, sum(b * w) / nullif(sum(w), 0) AS bytes_mean,
    {p_messages} AS messages_p95, {p_bytes} AS bytes_p95,
    max(m) AS messages_max, max(b) AS bytes_max, sum(gi) AS messages_in, sum(go) AS messages_out
FROM ranked GROUP BY ALL
"""
_P95 = """(ceil((any_value(n) - 1) * 0.95) - (any_value(n) - 1) * 0.95)
        * min(CASE WHEN {s} > floor((n - 1) * 0.95) THEN {v} END)
    + ((any_value(n) - 1) * 0.95 - floor((any_value(n) - 1) * 0.95))
        * min(CASE WHEN {s} > ceil((n - 1) * 0.95) THEN {v} END)
    + CASE WHEN ceil((any_value(n) - 1) * 0.95) = floor((any_value(n) - 1) * 0.95)
        THEN min(CASE WHEN {s} > floor((n - 1) * 0.95) THEN {v} END) ELSE 0 END"""

_COARSER = """
CREATE TEMP TABLE {into} AS
WITH ranked AS (
    SELECT *, slot // {step} * {step} AS whole,
        sum(w) OVER (PARTITION BY broker, virtualhost, name, slot // {step}) AS n,
        sum(w) OVER (PARTITION BY broker, virtualhost, name, slot // {step}
            ORDER BY messages_mean ROWS UNBOUNDED PRECEDING) AS sm,
        sum(w) OVER (PARTITION BY broker, virtualhost, name, slot // {step}
            ORDER BY bytes_mean ROWS UNBOUNDED PRECEDING) AS sb
    FROM (SELECT *, CASE WHEN messages_mean IS NOT NULL THEN known_ms END AS w FROM minutes)
)
SELECT broker, virtualhost, name, whole AS slot, sum(known_ms) AS known_ms,
    sum(messages_mean * w) / nullif(sum(w), 0) AS messages_mean, sum(bytes_mean * w) / nullif(sum(w), 0) AS bytes_mean,
    {p_messages} AS messages_p95, {p_bytes} AS bytes_p95,
    max(messages_max) AS messages_max, max(bytes_max) AS bytes_max,
    sum(messages_in) AS messages_in, sum(messages_out) AS messages_out
FROM ranked GROUP BY broker, virtualhost, name, whole
"""

_EPISODES = """
CREATE TEMP TABLE episodes AS
WITH stated AS (
    SELECT broker, virtualhost, queue, epoch_ms("at") AS ms, sequence AS seq,
        CASE kind WHEN 'queue-overfull' THEN true WHEN 'queue-underfull' THEN false WHEN 'queue-deleted' THEN false
            WHEN 'queue-created' THEN false ELSE state IN ('OVERFULL', 'OVERFULL_STOPPED') END AS "on",
        CASE kind WHEN 'queue-underfull' THEN true WHEN 'queue-overfull' THEN false WHEN 'queue-deleted' THEN false
            WHEN 'queue-created' THEN false ELSE state IN ('OVERFULL', 'OVERFULL_STOPPED') END AS was
    FROM {events} WHERE queue IS NOT NULL AND (state IS NOT NULL
        OR kind IN ('queue-overfull', 'queue-underfull', 'queue-deleted', 'queue-created'))
    UNION ALL
    SELECT broker, virtualhost, queue, epoch_ms("at"), -1, state IN ('OVERFULL', 'OVERFULL_STOPPED'),
        state IN ('OVERFULL', 'OVERFULL_STOPPED') FROM {samples} WHERE whole AND state IS NOT NULL
), evidence AS (
    FROM stated UNION ALL
    SELECT q.broker, q.virtualhost, q.queue, epoch_ms(e."at"), e.sequence, NULL, NULL
    FROM (SELECT DISTINCT broker, virtualhost, queue FROM stated) q JOIN {events} e
    ON e.broker = q.broker AND e.kind = 'broker-ready'
), known AS (
    SELECT *, coalesce("on", first_value(was IGNORE NULLS) OVER (o ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING),
        false) AS overfull FROM evidence WINDOW o AS (PARTITION BY broker, virtualhost, queue ORDER BY ms, seq)
), changes AS (
    SELECT *, coalesce(lag(overfull) OVER o, false) AS before FROM known
    WINDOW o AS (PARTITION BY broker, virtualhost, queue ORDER BY ms, seq)
)
SELECT broker, virtualhost, queue, ms AS start_ms, end_ms FROM (
    SELECT *, lead(ms) OVER (PARTITION BY broker, virtualhost, queue ORDER BY ms, seq) AS end_ms FROM changes
    WHERE overfull <> before
) WHERE overfull
"""

_SAME = {
    "rollups": """
SELECT count(*) AS n, sum(known_ms) AS known, sum(messages_max) AS most, sum(bytes_max) AS bytes,
    sum(messages_in) AS came, sum(messages_out) AS went, sum(messages_mean) AS mean, sum(messages_p95) AS p95,
    sum(bytes_p95) AS bytes_p95
FROM {rows}""",
    "episodes": "SELECT count(*) AS n, sum(start_ms) AS starts, sum(end_ms) AS ends FROM {rows}",
}


#: What DuckDB is given, one after the other until it gets by.
MEMORIES = ("1GB", "4GB", "12GB")


@dataclass
class Yard:
    """Seconds and processor seconds with `memory`; `differences`: differences between Spark's and DuckDB's results."""

    memory: str
    seconds: dict[str, float]
    processor: dict[str, float]
    differences: list[str]


def yardstick(url: str, *, spill: str = "") -> Yard:
    """`url`: a completely processed history. Uses two threads, as Spark does."""
    import duckdb

    for memory in MEMORIES[:-1]:
        try:
            return _yardstick(url, memory, spill)
        except duckdb.OutOfMemoryException as error:
            print(f"  DuckDB with {memory}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
    return _yardstick(url, MEMORIES[-1], spill)


def _yardstick(url: str, memory: str, spill: str) -> Yard:
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 2, "memory_limit": memory, "temp_directory": spill}) as db:
        db.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
        seconds: dict[str, float] = {}
        processor: dict[str, float] = {}

        def timed(name: str, sql: str, **parameters: int) -> None:
            text = sql.format(**{table: _files(url, table) for table in ("samples", "events", "coverage")}, **_points())
            began, before = time.perf_counter(), time.process_time()
            db.execute(text, parameters or None)
            seconds[name] = time.perf_counter() - began
            processor[name] = time.process_time() - before

        db.execute(_SPANS.format(coverage=_files(url, "coverage")))
        # One statement at a time takes parameters.
        pieces, _, minutes = _MINUTES.partition(";")
        timed("pieces", pieces, holds=SAMPLE_VALIDITY_MS)
        timed("minutes", minutes)
        for into, step in (("hours", 3_600_000), ("days", 86_400_000)):
            timed(
                into,
                _COARSER.replace("{into}", into)
                .replace("{step}", str(step))
                .replace("{p_messages}", _means("messages"))
                .replace("{p_bytes}", _means("bytes")),
            )
        timed("episodes", _EPISODES)
        for book in (seconds, processor):
            book["minutes"] += book.pop("pieces")
        differences = []
        for name in ("minutes", "hours", "days"):
            condition = "kind = 'queue' AND (known_ms > 0 OR messages_max IS NOT NULL)"
            spark = f"(SELECT * FROM {_files(url, name)} WHERE {condition})"
            differences += _compared(db.sql, name, _SAME["rollups"], spark)
        spark = (
            f'(SELECT epoch_ms("start") AS start_ms, epoch_ms("end") AS end_ms FROM {_files(url, "episodes")}'
            " WHERE kind = 'overfull')"
        )
        differences += _compared(db.sql, "episodes", _SAME["episodes"], spark)
        return Yard(memory, seconds, processor, differences)


def _points() -> dict[str, str]:
    return {"p_messages": _P95.format(s="sm", v="m"), "p_bytes": _P95.format(s="sb", v="b")}


def _means(unit: str) -> str:
    return _P95.format(s=f"s{unit[0]}", v=f"{unit}_mean")


def _files(url: str, table: str) -> str:
    from deltalake import DeltaTable

    paths = DeltaTable(table_url(url, table)).file_uris()
    return (
        "read_parquet([" + ", ".join(f"'{os.path.abspath(path)}'" for path in paths) + "], hive_partitioning = false)"
    )


def _compared(ask: Callable[..., Any], name: str, sql: str, spark: str) -> list[str]:
    (theirs,) = ask(sql.format(rows=spark)).fetchall()
    found = ask(sql.format(rows=name))
    names = found.columns
    (ours,) = found.fetchall()
    return [
        f"{name}.{column}: Spark {a}, DuckDB {b}"
        for column, a, b in zip(names, theirs, ours, strict=True)
        if abs(float(a or 0) - float(b or 0)) > 1e-9 * max(1.0, abs(float(a or 0)))
    ]


if __name__ == "__main__":
    print(yardstick(sys.argv[1], spill="/tmp"))
