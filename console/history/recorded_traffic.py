"""The recorded traffic of a queue, as the replay of `whatif.py` wants it: from samples, or from minutes for more days.

Samples come only when a queue changes, so a long time between two of them is no gap: the counters say what came and
went in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from console.history.reader import Reader
from console.history.series import DAY, HOLDS_MS, MINUTE, QueueKey
from console.history.whatif_replay import Floats, Limits, Samples, Traffic, traffic

#: Ranges up to this long are replayed from samples, longer ones from minutes.
SAMPLES_UP_TO = 2 * DAY
#: The longest range that is replayed at all: minutes are kept for 100 days.
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
SELECT epoch_ms("at") AS ms, messages_mean, bytes_mean, messages_max, bytes_max, messages_in, messages_out, overfull_ms,
    coalesce(stopped_ms, 0) AS stopped_ms, stop_messages, resume_messages, stop_bytes, resume_bytes
FROM {minutes}
WHERE kind = 'queue' AND broker = $broker AND virtualhost = $virtualhost AND name = $name
    AND epoch_ms("at") >= $begin AND epoch_ms("at") < $end AND known_ms > 0 AND messages_mean IS NOT NULL
ORDER BY "at"
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """`source`: samples or minutes; `current`: the limits in force at the end; peaks as they were."""

    source: str
    traffic: Traffic
    current: Limits
    peak_messages: float
    peak_bytes: float


def recorded(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    """None if too little is known. Raises NothingRecorded, HistoryBroken."""
    found = _from_samples(reader, queue, begin, end) if end - begin <= SAMPLES_UP_TO else None
    return found or _from_minutes(reader, queue, begin, end)


def _from_samples(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    got = _columns(reader, _SAMPLES, queue, begin, end)
    if len(got["ms"]) < 3:
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
        traffic(samples, HOLDS_MS),
        _limits(got),
        _most(got["depth_messages"]),
        _most(got["depth_bytes"]),
    )


def _from_minutes(reader: Reader, queue: QueueKey, begin: int, end: int) -> Recorded | None:
    got = _columns(reader, _MINUTES, queue, begin, end)
    if len(got["ms"]) < 3:
        return None
    came, went = (np.nan_to_num(got[f"messages_{way}"]) for way in ("in", "out"))
    samples = Samples(
        got["ms"],
        got["messages_mean"],
        np.nan_to_num(got["bytes_mean"]),
        np.concatenate([[0.0], np.cumsum(came)[:-1]]),  # what had come by the minute's beginning
        np.concatenate([[0.0], np.cumsum(went)[:-1]]),
        got["overfull_ms"] > 0,
        got["stopped_ms"] > MINUTE / 2,
        held_ms=np.minimum(got["overfull_ms"][:-1], MINUTE),
    )
    return Recorded(
        "minutes",
        traffic(samples, 1.5 * MINUTE),
        _limits(got),
        _most(got["messages_max"]),
        _most(got["bytes_max"]),
    )


def _columns(reader: Reader, sql: str, queue: QueueKey, begin: int, end: int) -> dict[str, Any]:
    """By name; numbers as floats, unknown ones NaN."""
    given = {"broker": queue.broker, "virtualhost": queue.virtualhost, "name": queue.name, "begin": begin, "end": end}
    table = reader.batches(sql, given, begin=begin, end=end, where={"broker": queue.broker}).read_all()
    return {
        name: table.column(name).to_numpy()
        if name == "state"
        else table.column(name).cast("float64").to_numpy(zero_copy_only=False)
        for name in table.column_names
    }


def _limits(got: dict[str, Any]) -> Limits:
    """Of the last row that tells any; what it does not tell is no limit."""

    def last(name: str) -> float:
        known = got[name][~np.isnan(got[name])]
        return float(known[-1]) if len(known) else 0.0

    stops = {unit: last(f"stop_{unit}") for unit in ("messages", "bytes")}
    resumes = {unit: min(last(f"resume_{unit}"), stops[unit]) for unit in stops}
    return Limits(stops["messages"], resumes["messages"], stops["bytes"], resumes["bytes"])


def _most(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
