"""Query the recommendations that `fleet_recommendations.py` computed, the queues with the most blocked time first.

The columns are those of `recommend.ADVICE`, the queue's key and the evaluated week. A nightly job writes the
table.
"""

from __future__ import annotations

from typing import Any

from console.history.storage.reader import NothingRecorded, Reader

TABLE = "recommendations"

_WHERE = """
FROM {recommendations}
WHERE ($broker = '' OR broker = $broker) AND ($virtualhost = '' OR virtualhost = $virtualhost)
    AND ($queue = '' OR queue = $queue) AND (kind = $kind OR ($kind = '' AND (kind <> 'none' OR $queue <> '')))
    AND ($search = '' OR contains(lower(queue), $search))
"""
_COLUMNS = """broker, virtualhost, queue, epoch_ms(begin) AS "from", epoch_ms("at") AS until,
    kind, text, observed_seconds, recorded_blocked_seconds, recorded_overfull_seconds,
    simulated_blocked_low_seconds, simulated_blocked_high_seconds, peak_messages, peak_bytes,
    stop_messages, resume_messages, stop_bytes, resume_bytes,
    recommended_stop_messages, recommended_resume_messages, recommended_stop_bytes, recommended_resume_bytes,
    recommended_blocked_low_seconds, recommended_blocked_high_seconds, recommended_peak_bytes"""

_REQUIRED = """
SELECT broker, sum(greatest(recommended_peak_bytes - peak_bytes, 0)) AS required
FROM {recommendations} WHERE kind = 'raise-capacity' GROUP BY broker ORDER BY broker
"""


def are_computed(reader: Reader) -> bool:
    """Return whether the nightly job has run. Raises HistoryBroken."""
    return reader.is_stored(TABLE)


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
    if not are_computed(reader):
        raise NothingRecorded("no recommendations have been computed yet")
    given = {"broker": broker, "virtualhost": virtualhost, "queue": queue, "kind": kind, "search": search.lower()}
    count = reader.rows(f"SELECT count(*) AS n {_WHERE}", given)[0]["n"]
    order = "ORDER BY recorded_blocked_seconds DESC NULLS LAST, broker, virtualhost, queue"
    rows = reader.rows(
        f"SELECT {_COLUMNS} {_WHERE} {order} LIMIT $size OFFSET $offset",
        given | {"size": size, "offset": (number - 1) * size},
    )
    return count, rows


def required_bytes(reader: Reader) -> dict[str, float]:
    """Return, by broker, what all its recommended capacities together need beyond the recorded peaks, bytes. Raises
    NothingRecorded, HistoryBroken."""
    rows = reader.rows(_REQUIRED, {})
    return {row["broker"]: row["required"] for row in rows}
