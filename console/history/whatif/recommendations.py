"""Query the recommendations that `fleet_recommendations.py` computed, the queues with the most blocked time first.

The columns are those of `comparison.ADVICE`, the queue's key and the evaluated week. A nightly job writes the
table.
"""

from __future__ import annotations

from typing import Any

from console.history.storage.reader import NothingRecorded, Reader

TABLE = "advice"
#: Kinds of recommendations in `comparison.py`.
KINDS = ("raise-capacity", "add-consumers", "lower-resume", "never-reached", "no-limit", "none")

_WHERE = """
FROM {advice}
WHERE ($broker = '' OR broker = $broker) AND ($virtualhost = '' OR virtualhost = $virtualhost)
    AND ($queue = '' OR queue = $queue) AND (kind = $kind OR ($kind = '' AND (kind <> 'none' OR $queue <> '')))
    AND ($search = '' OR contains(lower(queue), $search))
"""
_COLUMNS = """broker, virtualhost, queue, epoch_ms(begin) AS "from", epoch_ms("at") AS until,
    kind, text, observed_seconds, recorded_blocked_seconds,
    replayed_blocked_seconds, replayed_episodes, peak_messages, peak_bytes,
    stop_messages, resume_messages, stop_bytes, resume_bytes,
    recommended_stop_messages, recommended_resume_messages, recommended_stop_bytes, recommended_resume_bytes,
    recommended_blocked_seconds, recommended_episodes, recommended_peak_bytes"""


def page(
    reader: Reader,
    number: int,
    size: int,
    *,
    broker: str = "",
    virtualhost: str = "",
    queue: str = "",
    kind: str = "",
    search: str = "",
) -> tuple[int, list[dict[str, Any]]]:
    """Return (count of matching rows, rows of page `number`, from 1). Raises NothingRecorded, HistoryBroken."""
    if not reader.has(TABLE):
        raise NothingRecorded("no recommendations have been computed yet")
    given = {"broker": broker, "virtualhost": virtualhost, "queue": queue, "kind": kind, "search": search.lower()}
    count = reader.rows(f"SELECT count(*) AS n {_WHERE}", given)[0]["n"]
    order = "ORDER BY recorded_blocked_seconds DESC NULLS LAST, broker, virtualhost, queue"
    rows = reader.rows(
        f"SELECT {_COLUMNS} {_WHERE} {order} LIMIT $size OFFSET $offset",
        given | {"size": size, "offset": (number - 1) * size},
    )
    return count, rows
