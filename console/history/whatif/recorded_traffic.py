"""Read a queue's recorded traffic for `replay.py`: from samples, or from minutes for longer ranges.

An unchanged queue has no samples, so a long time between two samples is no gap: the counters have the messages
enqueued and dequeued in it.
"""

from __future__ import annotations

import math
from typing import Any

from console.history.storage.durations import DAY, MINUTE, SAMPLE_VALIDITY_MS
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import NothingRecorded, Reader
from console.history.whatif.minute_traffic import COLUMNS, KNOWN
from console.history.whatif.recording import (
    SAMPLE_COLUMNS,
    Blocked,
    Consumers,
    Recording,
    blocked_of_minutes,
    recording_of_minutes,
    recording_of_samples,
)

#: Ranges up to this long are replayed from samples, longer ones from minutes.
SAMPLES_UP_TO = 2 * DAY
#: Of a range replayed from minutes, the consumers are those in the samples of its end, as long as this.
CONSUMERS_OF = DAY
#: The longest range of a replay, as minutes are retained for 100 days.
LONGEST = 100 * DAY

_SAMPLES = """
SELECT epoch_ms("at") AS ms, coalesce(state, '') AS state, [columns]
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
_CONSUMERS = """
SELECT epoch_ms(max("at")) AS ms, max(consumers) AS most,
    avg(coalesce(unacknowledged_messages, 0) / depth_messages) AS share
FROM {samples}
WHERE broker = $broker AND virtualhost = $virtualhost AND queue = $name
    AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end
    AND state LIKE 'OVERFULL%' AND depth_messages > 0 AND consumers IS NOT NULL
"""
_SAMPLES = _SAMPLES.replace("[columns]", ", ".join(SAMPLE_COLUMNS))
_MINUTES = _MINUTES.replace("[columns]", ", ".join(COLUMNS)).replace("[known]", KNOWN)


def recorded(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recording | None:
    """Return what was recorded of the queue in [begin, end), ms; None without enough data. Raises NothingRecorded,
    HistoryBroken."""
    found = _from_samples(reader, queue, begin, end) if end - begin <= SAMPLES_UP_TO else None
    return found or _from_minutes(reader, queue, begin, end)


def _from_samples(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recording | None:
    got = _columns(reader, _SAMPLES, queue, begin, end)
    return recording_of_samples(got, list(got["state"]), SAMPLE_VALIDITY_MS, _blocked(reader, queue, begin, end))


def _blocked(reader: Reader, queue: QueueKey, begin: int, end: int) -> Blocked | None:
    """Return the blocked producer time as in the other pages: that of the minutes."""
    try:
        return blocked_of_minutes(_columns(reader, _MINUTES, queue, begin - begin % MINUTE, end))
    except NothingRecorded:
        return None


def _from_minutes(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recording | None:
    return recording_of_minutes(
        _columns(reader, _MINUTES, queue, begin, end), _consumers(reader, queue, max(begin, end - CONSUMERS_OF), end)
    )


def _consumers(reader: Reader, queue: QueueKey, begin: int, end: int) -> Consumers | None:
    try:
        got = _columns(reader, _CONSUMERS, queue, begin, end)
    except NothingRecorded:
        return None
    if not len(got["most"]) or math.isnan(got["most"][0]):
        return None
    return Consumers(float(got["most"][0]), float(got["share"][0]))


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
