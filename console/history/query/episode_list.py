"""Episodes as operators look for them: by range, queue and words, sorted, in pages, or all of them as a download."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from console.history.storage.reader import Reader
from console.history.storage.stop_scopes import covers

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("overfull", "stopped")
#: What may be sorted by, and by which column.
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
class Wanted:
    """Episodes that touch [begin, end), ms. `queue` needs its `virtualhost`; it brings the stops that cover it."""

    begin: int
    end: int
    now: int
    broker: str = ""
    virtualhost: str = ""
    queue: str = ""
    kind: str = ""
    search: str = ""
    sort: str = "-start"


_WHERE = """
FROM (
    SELECT *, coalesce(duration_ms, greatest(0, $now - epoch_ms("start"))) AS lasted FROM {episodes}
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
_SHOWN = f"""SELECT id, kind, broker, virtualhost, queue, scope, epoch_ms("start") AS "start", epoch_ms("end") AS "end",
    {_AFTER}"""
#: A download has times that people and spreadsheets read.
_SAVED = f'SELECT id, kind, broker, virtualhost, queue, scope, "start", "end", {_AFTER}'


def page(reader: Reader, wanted: Wanted, number: int, size: int) -> tuple[int, list[dict[str, Any]]]:
    """(episodes that match, those of page `number`, from 1). Raises NothingRecorded, HistoryBroken."""
    given = _given(reader, wanted)
    rows = reader.rows(
        f"{_SHOWN}, count(*) OVER () AS matching {_WHERE} {_order(wanted.sort)} LIMIT $size OFFSET $offset",
        given | {"size": size, "offset": (number - 1) * size},
        end=wanted.end,
        where=_narrow(wanted),
    )
    if rows or number == 1:
        count = rows[0]["matching"] if rows else 0
    else:
        count = reader.rows(f"SELECT count(*) AS n {_WHERE}", given, end=wanted.end)[0]["n"]
    return count, [{name: value for name, value in row.items() if name != "matching"} for row in rows]


def every(reader: Reader, wanted: Wanted) -> pa.RecordBatchReader:
    """All that match, a part at a time. Raises NothingRecorded, HistoryBroken."""
    sql = f"{_SAVED} {_WHERE} {_order(wanted.sort)}"
    return reader.batches(sql, _given(reader, wanted), end=wanted.end, where=_narrow(wanted))


def _given(reader: Reader, wanted: Wanted) -> dict[str, Any]:
    return {
        "begin": wanted.begin,
        "end": wanted.end,
        "now": wanted.now,
        "broker": wanted.broker,
        "virtualhost": wanted.virtualhost,
        "queue": wanted.queue,
        "kind": wanted.kind,
        "search": wanted.search.lower(),
        "covering": _covering(reader, wanted) if wanted.queue else [],
    }


def _covering(reader: Reader, wanted: Wanted) -> list[str]:
    """Ids of the stops that the queue was under."""
    stops = replace(wanted, virtualhost="", queue="", kind="stopped", search="")
    rows = reader.rows(f"SELECT id, scope {_WHERE}", _given(reader, stops), end=wanted.end, where=_narrow(stops))
    return [row["id"] for row in rows if covers(row["scope"] or "", wanted.virtualhost, wanted.queue)]


def _narrow(wanted: Wanted) -> dict[str, str]:
    return {"broker": wanted.broker} if wanted.broker else {}


def _order(sort: str) -> str:
    way = "DESC" if sort.startswith("-") else "ASC"
    return f'ORDER BY {SORTS[sort.removeprefix("-")]} {way} NULLS LAST, "start" DESC, id'
