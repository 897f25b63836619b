"""What happened in a range, in order: events of flow control, operators' edits and actions, and the broker's own.

About one queue: what happened to it, and what was done to scopes, policies and virtual hosts that it lies in.
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

#: Kinds of events as people look for them; what is in none of them is of the last.
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
class Wanted:
    """Events of [begin, end), ms. `queue` needs its `virtualhost`. `kinds` and `groups`: only these, if any."""

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
            AND NOT list_contains($beside::VARCHAR[], concat(broker, chr(10), run, chr(10), number))))
    AND (len($kinds::VARCHAR[]) = 0 OR list_contains($kinds::VARCHAR[], kind))
    AND ($search = '' OR contains(lower(concat_ws(chr(10), text, object, client, actor, reason)), $search))
"""
_WHERE = f"{_ALL_GROUPS} AND (len($groups::VARCHAR[]) = 0 OR list_contains($groups::VARCHAR[], {_GROUP}))"

_COLUMNS = """broker, run, number, epoch_ms("at") AS "at", sequence, kind, object, object_type, virtualhost, queue,
    client, link, connection, channel, reasons, state, depth_messages, depth_bytes, blocked_producers,
    stop_messages, stop_bytes, resume_messages, resume_bytes, actor, reason, scope, pattern, queues, producers,
    "before", "after", lasted_ms, messages, text, source"""
_SAVED = _COLUMNS.replace('epoch_ms("at") AS "at"', '"at"').replace(
    "reasons,", "array_to_string(reasons, '; ') AS reasons,"
)


def page(reader: Reader, wanted: Wanted, number: int, size: int, *, newest_first: bool = False) -> dict[str, Any]:
    """`count` of those that match; `groups`: how many there are of each, wanted or not; and the `events` of page
    `number`, from 1, in the order in which they happened. Raises NothingRecorded, HistoryBroken."""
    given = _given(reader, wanted)
    way = "DESC" if newest_first else "ASC"
    narrow = _narrow(wanted)
    every_group = {name: value for name, value in given.items() if name != "groups"}
    counted = reader.rows(
        f"SELECT {_GROUP} AS name, count(*) AS n {_ALL_GROUPS} GROUP BY ALL",
        every_group,
        begin=wanted.begin,
        end=wanted.end,
        where=narrow,
    )
    groups = dict.fromkeys(GROUPS, 0) | {row["name"]: row["n"] for row in counted}
    rows = reader.rows(
        f'SELECT {_COLUMNS} {_WHERE} ORDER BY "at" {way}, broker, sequence {way}, number LIMIT $size OFFSET $offset',
        given | {"size": size, "offset": (number - 1) * size},
        begin=wanted.begin,
        end=wanted.end,
        where=narrow,
    )
    count = sum(n for name, n in groups.items() if not wanted.groups or name in wanted.groups)
    return {"count": count, "groups": groups, "events": rows}


def every(reader: Reader, wanted: Wanted) -> pa.RecordBatchReader:
    """All that match, in order, a part at a time. Raises NothingRecorded, HistoryBroken."""
    sql = f'SELECT {_SAVED} {_WHERE} ORDER BY "at", broker, sequence, number'
    return reader.batches(sql, _given(reader, wanted), begin=wanted.begin, end=wanted.end, where=_narrow(wanted))


def _given(reader: Reader, wanted: Wanted) -> dict[str, Any]:
    return {
        "begin": wanted.begin,
        "end": wanted.end,
        "broker": wanted.broker,
        "virtualhost": wanted.virtualhost,
        "queue": wanted.queue,
        "kinds": list(wanted.kinds),
        "groups": list(wanted.groups),
        "search": wanted.search.lower(),
        "beside": _beside(reader, wanted) if wanted.queue else [],
    }


_WIDE = """
SELECT broker, run, number, kind, object, object_type, scope FROM {events}
WHERE epoch_ms("at") >= $begin AND epoch_ms("at") < $end AND ($broker = '' OR broker = $broker) AND queue IS NULL
    AND (scope IS NOT NULL OR object_type = 'Policy')
"""


def _beside(reader: Reader, wanted: Wanted) -> list[str]:
    """Stops, starts and policies that do not reach the queue, named as in the condition above."""
    given = {"begin": wanted.begin, "end": wanted.end, "broker": wanted.broker}
    rows = reader.rows(_WIDE, given, begin=wanted.begin, end=wanted.end, where=_narrow(wanted))
    beside = [row for row in rows if not _reaches(row, wanted.virtualhost, wanted.queue)]
    return [f"{row['broker']}\n{row['run']}\n{row['number']}" for row in beside]


def _reaches(row: Mapping[str, Any], virtualhost: str, queue: str) -> bool:
    if row["scope"]:
        # An exchange's queues are not known: better shown than missed.
        return row["scope"].startswith("exchange ") or covers(row["scope"], virtualhost, queue)
    try:
        keys = dict(ObjectName.parse(row["object"] or "").keys)
    except ValueError:
        return True
    return keys.get("virtualhost", virtualhost) == virtualhost and matches(str(keys.get("pattern", "")), queue)


def _narrow(wanted: Wanted) -> dict[str, str]:
    return {"broker": wanted.broker} if wanted.broker else {}
