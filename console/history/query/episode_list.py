"""Queries of episodes by range, queue and text: sorted pages, or all for an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from console.history.query import catalog
from console.history.storage.reader import Reader
from console.history.storage.stop_scopes import covers

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("overfull", "stopped")
#: Sort key -> SQL expression.
SORTS = {
    "start": '"start"',
    "duration": "lasted",
    "blocked": "blocked_ms",
    "peak_messages": "peak_messages",
    "peak_bytes": "peak_bytes",
    "producers": "producers",
    "queue": "lower(coalesce(queue, scope))",
}


@dataclass(frozen=True, slots=True)
class EpisodeQuery:
    """A query of the episodes that overlap [begin, end), ms. `queue` requires its `virtualhost`, and includes the stops
    that cover it. `unreported`: brokers that do not report blocked producers: their numbers are null."""

    begin: int
    end: int
    now: int
    broker: str = ""
    virtualhost: str = ""
    queue: str = ""
    kind: str = ""
    search: str = ""
    sort: str = "-start"
    unreported: Sequence[str] = ()


_WHERE = """
FROM (
    SELECT * REPLACE (if(unknown, NULL, producers) AS producers, if(unknown, NULL, connections) AS connections,
        if(unknown, NULL, blocked_ms) AS blocked_ms),
        coalesce(duration_ms, greatest(0, coalesce(list_extract($known_until::BIGINT[],
        list_position($recorded::VARCHAR[], broker)), $now) - epoch_ms("start"))) AS lasted FROM (
        SELECT *, kind = 'overfull' AND list_contains($unreported::VARCHAR[], broker) AS unknown FROM {episodes}
    )
    WHERE epoch_ms("start") < $end AND ("end" IS NULL OR epoch_ms("end") >= $begin)
)
WHERE ($broker = '' OR broker = $broker)
    AND ($virtualhost = '' OR virtualhost = $virtualhost OR list_contains($covering::VARCHAR[], id))
    AND ($queue = '' OR queue = $queue OR list_contains($covering::VARCHAR[], id))
    AND ($kind = '' OR kind = $kind)
    AND ($search = '' OR contains(lower(concat_ws(chr(10), queue, virtualhost, scope, actor, reason, released_by,
        released_actor, released_reason)), $search))
"""

_AFTER = """duration_ms, peak_messages, peak_bytes, stop_messages, stop_bytes, producers, connections, blocked_ms,
    actor, reason, released_by, released_actor, released_reason"""
_LISTED = f"""SELECT id, kind, broker, virtualhost, queue, scope,
    epoch_ms("start") AS "start", epoch_ms("end") AS "end", {_AFTER}"""
#: An export has times as timestamps instead of ms.
_EXPORTED = f'SELECT id, kind, broker, virtualhost, queue, scope, "start", "end", {_AFTER}'


def page(reader: Reader, query: EpisodeQuery, number: int, size: int) -> tuple[int, list[dict[str, Any]]]:
    """Return (count of matching episodes, episodes of page `number`, from 1). `known_until` of an episode: its end, or
    the last recorded moment of its broker, ms. Raises NothingRecorded, HistoryBroken."""
    given = _given(reader, query)
    rows = reader.rows(
        f"{_LISTED}, count(*) OVER () AS matching {_WHERE} {_order(query.sort)} LIMIT $size OFFSET $offset",
        given | {"size": size, "offset": (number - 1) * size},
        end=query.end,
        where=_narrow(query),
    )
    if rows or number == 1:
        count = rows[0]["matching"] if rows else 0
    else:
        count = reader.rows(f"SELECT count(*) AS n {_WHERE}", given, end=query.end)[0]["n"]
    recorded = _known_until(reader, query.now) if any(row["end"] is None for row in rows) else {}
    return count, [_listed(row, recorded.get(row["broker"], query.now)) for row in rows]


def _known_until(reader: Reader, now: int) -> dict[str, int]:
    """Return until when, ms, an ongoing episode of each broker is known: its last recorded moment, at most `now`."""
    return {each["broker"]: min(now, each["last"]) for each in catalog.brokers(reader)}


def _listed(row: Mapping[str, Any], recorded: int) -> dict[str, Any]:
    """Return the row of an episode; `recorded`: the last recorded moment of its broker."""
    listed = {name: value for name, value in row.items() if name != "matching"}
    return listed | {"known_until": max(row["start"], recorded) if row["end"] is None else row["end"]}


def every(reader: Reader, query: EpisodeQuery) -> pa.RecordBatchReader:
    """Return all matching episodes in batches. Raises NothingRecorded, HistoryBroken."""
    sql = f"{_EXPORTED} {_WHERE} {_order(query.sort)}"
    return reader.batches(sql, _given(reader, query), end=query.end, where=_narrow(query))


def _given(reader: Reader, query: EpisodeQuery) -> dict[str, Any]:
    # The recorded time is read for this order only.
    known = _known_until(reader, query.now) if query.sort.removeprefix("-") == "duration" else {}
    return {
        "begin": query.begin,
        "end": query.end,
        "now": query.now,
        "recorded": list(known),
        "known_until": list(known.values()),
        "broker": query.broker,
        "virtualhost": query.virtualhost,
        "queue": query.queue,
        "kind": query.kind,
        "search": query.search.lower(),
        "unreported": list(query.unreported),
        "covering": _covering(reader, query) if query.queue else [],
    }


def _covering(reader: Reader, query: EpisodeQuery) -> list[str]:
    """Return the ids of the stops that covered the queue."""
    stops = replace(query, virtualhost="", queue="", kind="stopped", search="", sort="-start")
    rows = reader.rows(f"SELECT id, scope {_WHERE}", _given(reader, stops), end=query.end, where=_narrow(stops))
    return [row["id"] for row in rows if covers(row["scope"] or "", query.virtualhost, query.queue)]


def _narrow(query: EpisodeQuery) -> dict[str, str]:
    return {"broker": query.broker} if query.broker else {}


def _order(sort: str) -> str:
    direction = "DESC" if sort.startswith("-") else "ASC"
    return f'ORDER BY {SORTS[sort.removeprefix("-")]} {direction} NULLS LAST, "start" DESC, id'
