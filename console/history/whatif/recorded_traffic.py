"""Read a queue's recorded traffic for `replay.py`: from samples, or from minutes for longer ranges.

An unchanged queue has no samples, so a long time between two samples is no gap: the counters have the messages
enqueued and dequeued in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from console.history.storage.durations import DAY, SAMPLE_VALIDITY_MS
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader
from console.history.whatif.minute_traffic import (
    COLUMNS,
    FEWEST,
    KNOWN,
    Recorded,
    highest,
    limits_at_end,
    traffic_of_minutes,
)
from console.history.whatif.replay import Samples, traffic

#: Ranges up to this long are replayed from samples, longer ones from minutes.
SAMPLES_UP_TO = 2 * DAY
#: The longest range of a replay, as minutes are retained for 100 days.
LONGEST = 100 * DAY

_SAMPLES = """
SELECT epoch_ms("at") AS ms, coalesce(state, '') AS state, depth_messages, depth_bytes,
    enqueued_messages, dequeued_messages, stop_messages, resume_messages, stop_bytes, resume_bytes
FROM {samples}
WHERE broker = $broker AND virtualhost = $virtualhost AND queue = $name
    AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end
    AND enqueued_messages IS NOT NULL AND dequeued_messages IS NOT NULL AND depth_messages IS NOT NULL
ORDER BY "at"
"""
_MINUTES = """
SELECT epoch_ms("at") AS ms, [columns]
FROM {minutes}
WHERE [known] AND broker = $broker AND virtualhost = $virtualhost AND name = $name
    AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end
ORDER BY "at"
"""
_MINUTES = _MINUTES.replace("[columns]", ", ".join(COLUMNS)).replace("[known]", KNOWN)


def recorded(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    """Return the queue's traffic in [begin, end), ms; None without enough data. Raises NothingRecorded,
    HistoryBroken."""
    found = _from_samples(reader, queue, begin, end) if end - begin <= SAMPLES_UP_TO else None
    return found or _from_minutes(reader, queue, begin, end)


def _from_samples(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    got = _columns(reader, _SAMPLES, queue, begin, end)
    if len(got["ms"]) < FEWEST:
        return None
    state = got["state"].astype(str)
    samples = Samples(
        got["ms"],
        got["depth_messages"],
        np.nan_to_num(got["depth_bytes"]),
        got["enqueued_messages"],
        got["dequeued_messages"],
        np.char.startswith(state, "OVERFULL"),
        np.char.endswith(state, "STOPPED"),
    )
    return Recorded(
        "samples",
        traffic(samples, SAMPLE_VALIDITY_MS),
        limits_at_end(got),
        highest(got["depth_messages"]),
        highest(got["depth_bytes"]),
    )


def _from_minutes(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    got = _columns(reader, _MINUTES, queue, begin, end)
    return traffic_of_minutes(got)


def _columns(reader: Reader, sql: str, queue: QueueKey, begin: int, end: int) -> dict[str, Any]:
    """Return the columns by name; numbers as floats, missing values as NaN."""
    given = {"broker": queue.broker, "virtualhost": queue.virtualhost, "name": queue.name, "begin": begin, "end": end}
    table = reader.batches(sql, given, begin=begin, end=end, where={"broker": queue.broker}).read_all()
    return {
        name: table.column(name).to_numpy()
        if name == "state"
        else table.column(name).cast("float64").to_numpy(zero_copy_only=False)
        for name in table.column_names
    }
