"""A queue's recorded traffic from its minutes, as `replay.py` takes it. Pure.

One page about one queue and the advice for the whole fleet come to the same figures, since both come this way. The time
that producers were held in a minute is that of the queue's episodes, cut at minutes (`pipeline/rollups.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from console.history.storage.durations import MINUTE
from console.history.whatif.replay import Floats, Limits, Samples, Traffic, traffic

#: Columns of the table `minutes` that it takes besides `ms`, the moment of each.
COLUMNS = (
    "messages_mean",
    "bytes_mean",
    "messages_max",
    "bytes_max",
    "messages_in",
    "messages_out",
    "overfull_ms",
    "stopped_ms",
    "stop_messages",
    "resume_messages",
    "stop_bytes",
    "resume_bytes",
)
#: Which minutes it takes, as SQL.
KNOWN = "kind = 'queue' AND known_ms > 0 AND messages_mean IS NOT NULL"
#: So many tell nothing.
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """`source`: samples or minutes; `current`: the limits in force at the end; peaks as they were."""

    source: str
    traffic: Traffic
    current: Limits
    peak_messages: float
    peak_bytes: float


def of_minutes(got: Mapping[str, Floats]) -> Recorded | None:
    """`got`: `ms` and COLUMNS of one queue, in order, NaN where a value is not known. None: too little is known."""
    if len(got["ms"]) < FEWEST:
        return None
    came, went = (np.nan_to_num(got[f"messages_{way}"]) for way in ("in", "out"))
    samples = Samples(
        got["ms"],
        got["messages_mean"],
        np.nan_to_num(got["bytes_mean"]),
        np.concatenate([[0.0], np.cumsum(came)[:-1]]),  # what had come by the minute's beginning
        np.concatenate([[0.0], np.cumsum(went)[:-1]]),
        got["overfull_ms"] > 0,
        np.nan_to_num(got["stopped_ms"]) > MINUTE / 2,
        held_ms=np.minimum(got["overfull_ms"][:-1], MINUTE),
    )
    return Recorded(
        "minutes",
        traffic(samples, 1.5 * MINUTE),
        limits_at_end(got),
        most(got["messages_max"]),
        most(got["bytes_max"]),
    )


def limits_at_end(got: Mapping[str, Floats]) -> Limits:
    """Of the last row that tells any; what it does not tell is no limit."""

    def last(name: str) -> float:
        known = got[name][~np.isnan(got[name])]
        return float(known[-1]) if len(known) else 0.0

    stops = {unit: last(f"stop_{unit}") for unit in ("messages", "bytes")}
    resumes = {unit: min(last(f"resume_{unit}"), stops[unit]) for unit in stops}
    return Limits(stops["messages"], resumes["messages"], stops["bytes"], resumes["bytes"])


def most(values: Floats) -> float:
    """The greatest known; 0 if none is."""
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
