"""Queries of the events in a range: events of flow control, operators' edits and actions, and broker events.

For one queue: its events, and changes of the scopes, policies and virtual hosts that apply to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokers.model import ObjectName
from brokers.model.patterns import matches
from console.history.storage.reader import Reader
from console.history.storage.stop_scopes import covers

if TYPE_CHECKING:
    import pyarrow as pa

#: Group -> kinds of events; all other kinds belong to the last group.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "flow": (
        "queue-overfull",
        "queue-underfull",
        "queue-dropped",
        "store-overfull",
        "store-underfull",
        "limit-exceeded",
        "limit-cleared",
    ),
    "producers": ("producer-blocked", "producer-released", "producer-detached", "client-warning"),
    "operators": (
        "producers-stopped",
        "producers-started",
        "policy-changed",
        "queue-purged",
        "queue-created",
        "queue-deleted",
    ),
    "broker": (),
}


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A query of the events of [begin, end), ms. `queue` requires its `virtualhost`. `kinds`, `groups`: only these;
    empty: all."""

    begin: int
    end: int
    broker: str = ""
    virtualhost: str = ""
    queue: str = ""
    kinds: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    search: str = ""


_GROUP = (
    "CASE "
    + " ".join(
        f"WHEN kind IN ({', '.join(repr(kind) for kind in kinds)}) THEN '{name}'"
        for name, kinds in GROUPS.items()
        if kinds
    )
    + " ELSE 'broker' END"
)
_ALL_GROUPS = """
FROM {events}
WHERE epoch_ms("at") >= $begin AND epoch_ms("at") < $end
    AND ($broker = '' OR broker = $broker)
    AND ($virtualhost = '' OR virtualhost IS NULL OR virtualhost = $virtualhost)
    AND ($queue = '' OR queue = $queue
        OR (queue IS NULL AND (scope IS NOT NULL OR object_type IN ('Broker', 'VirtualHost', 'Policy', 'Exchange'))
            AND NOT list_contains($excluded::VARCHAR[], concat(broker, chr(10), run, chr(10), number))))
    AND (len($kinds::VARCHAR[]) = 0 OR list_contains($kinds::VARCHAR[], kind))
    AND ($search = '' OR contains(lower(concat_ws(chr(10), text, object, client, actor, reason)), $search))
"""
_WHERE = f"{_ALL_GROUPS} AND (len($groups::VARCHAR[]) = 0 OR list_contains($groups::VARCHAR[], {_GROUP}))"

_COLUMNS = """broker, run, number, epoch_ms("at") AS "at", sequence, kind, object, object_type, virtualhost, queue,
    client, link, connection, channel, reasons, state, depth_messages, depth_bytes, blocked_producers,
    stop_messages, stop_bytes, resume_messages, resume_bytes, actor, reason, scope, pattern, queues, producers,
    "before", "after", lasted_ms, messages, text, source"""
_EXPORTED = _COLUMNS.replace('epoch_ms("at") AS "at"', '"at"').replace(
    "reasons,", "array_to_string(reasons, '; ') AS reasons,"
)


def page(reader: Reader, query: EventQuery, number: int, size: int, *, newest_first: bool = False) -> dict[str, Any]:
    """Return the `count` of matching events; `groups`: counts of all groups, including those not selected; and the
    `events` of page `number`, from 1, in order of time. Raises NothingRecorded, HistoryBroken."""
    given = _given(reader, query)
    direction = "DESC" if newest_first else "ASC"
    narrow = _narrow(query)
    every_group = {name: value for name, value in given.items() if name != "groups"}
    counted = reader.rows(
        f"SELECT {_GROUP} AS name, count(*) AS n {_ALL_GROUPS} GROUP BY ALL",
        every_group,
        begin=query.begin,
        end=query.end,
        where=narrow,
    )
    groups = dict.fromkeys(GROUPS, 0) | {row["name"]: row["n"] for row in counted}
    order = f'ORDER BY "at" {direction}, broker, sequence {direction}, number'
    rows = reader.rows(
        f"SELECT {_COLUMNS} {_WHERE} {order} LIMIT $size OFFSET $offset",
        given | {"size": size, "offset": (number - 1) * size},
        begin=query.begin,
        end=query.end,
        where=narrow,
    )
    count = sum(n for name, n in groups.items() if not query.groups or name in query.groups)
    return {"count": count, "groups": groups, "events": rows}


def every(reader: Reader, query: EventQuery) -> pa.RecordBatchReader:
    """Return all matching events in order, in batches. Raises NothingRecorded, HistoryBroken."""
    sql = f'SELECT {_EXPORTED} {_WHERE} ORDER BY "at", broker, sequence, number'
    return reader.batches(sql, _given(reader, query), begin=query.begin, end=query.end, where=_narrow(query))


def _given(reader: Reader, query: EventQuery) -> dict[str, Any]:
    return {
        "begin": query.begin,
        "end": query.end,
        "broker": query.broker,
        "virtualhost": query.virtualhost,
        "queue": query.queue,
        "kinds": list(query.kinds),
        "groups": list(query.groups),
        "search": query.search.lower(),
        "excluded": _excluded(reader, query) if query.queue else [],
    }


_WIDE = """
SELECT broker, run, number, kind, object, object_type, scope FROM {events}
WHERE epoch_ms("at") >= $begin AND epoch_ms("at") < $end AND ($broker = '' OR broker = $broker) AND queue IS NULL
    AND (scope IS NOT NULL OR object_type = 'Policy')
"""


def _excluded(reader: Reader, query: EventQuery) -> list[str]:
    """Return stops, starts and policy changes that do not apply to the queue, as keys of the condition above."""
    given = {"begin": query.begin, "end": query.end, "broker": query.broker}
    rows = reader.rows(_WIDE, given, begin=query.begin, end=query.end, where=_narrow(query))
    excluded = [row for row in rows if not _applies(row, query.virtualhost, query.queue)]
    return [f"{row['broker']}\n{row['run']}\n{row['number']}" for row in excluded]


def _applies(row: Mapping[str, Any], virtualhost: str, queue: str) -> bool:
    if row["scope"]:
        # The bindings of an exchange are not recorded, so its stops are always included.
        return row["scope"].startswith("exchange ") or covers(row["scope"], virtualhost, queue)
    try:
        keys = dict(ObjectName.parse(row["object"] or "").keys)
    except ValueError:
        return True
    return keys.get("virtualhost", virtualhost) == virtualhost and matches(str(keys.get("pattern", "")), queue)


def _narrow(query: EventQuery) -> dict[str, str]:
    return {"broker": query.broker} if query.broker else {}
