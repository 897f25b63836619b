"""Convert a queue's minutes to the traffic that `replay.py` simulates. Pure.

The page of one queue and the recommendations for all queues use this module, so their figures agree. The blocked time
of a minute is the part of the queue's episodes in it (`pipeline/rollups.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from console.history.storage.durations import MINUTE
from console.history.whatif.replay import Floats, Limits, Samples, Traffic, traffic

#: Columns of the table `minutes` that it reads, besides `ms`, the time of each minute.
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
#: SQL condition of the minutes that it reads.
KNOWN = "kind = 'queue' AND known_ms > 0 AND messages_mean IS NOT NULL"
#: Fewer samples or minutes are not enough data.
FEWEST = 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded traffic. `source`: samples or minutes; `current`: the effective limits at the end; `peak_*`: highest
    recorded depth."""

    source: str
    traffic: Traffic
    current: Limits
    peak_messages: float
    peak_bytes: float


def traffic_of_minutes(got: Mapping[str, Floats]) -> Recorded | None:
    """Convert `ms` and COLUMNS of one queue, in order, NaN for missing values. Return None without enough data."""
    if len(got["ms"]) < FEWEST:
        return None
    came, went = (np.nan_to_num(got[f"messages_{way}"]) for way in ("in", "out"))
    samples = Samples(
        got["ms"],
        got["messages_mean"],
        np.nan_to_num(got["bytes_mean"]),
        np.concatenate([[0.0], np.cumsum(came)[:-1]]),  # total at the start of the minute
        np.concatenate([[0.0], np.cumsum(went)[:-1]]),
        got["overfull_ms"] > 0,
        np.nan_to_num(got["stopped_ms"]) > MINUTE / 2,
        blocked_ms=np.minimum(got["overfull_ms"][:-1], MINUTE),
    )
    return Recorded(
        "minutes",
        traffic(samples, 1.5 * MINUTE),
        limits_at_end(got),
        highest(got["messages_max"]),
        highest(got["bytes_max"]),
    )


def limits_at_end(got: Mapping[str, Floats]) -> Limits:
    """Return the last known value of each limit; a limit without one is 0, no limit."""

    def last(name: str) -> float:
        known = got[name][~np.isnan(got[name])]
        return float(known[-1]) if len(known) else 0.0

    stops = {unit: last(f"stop_{unit}") for unit in ("messages", "bytes")}
    resumes = {unit: min(last(f"resume_{unit}"), stops[unit]) for unit in stops}
    return Limits(stops["messages"], resumes["messages"], stops["bytes"], resumes["bytes"])


def highest(values: Floats) -> float:
    """Return the highest value that is not NaN; 0 if there is none."""
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
