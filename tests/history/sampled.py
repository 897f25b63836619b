"""Convert columns of the landing folder's samples to traffic and to a row of recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from console.history.whatif.comparison import recommendation_row
from console.history.whatif.replay import Limits, Samples, Traffic, traffic

_COUNTED = ("depth_messages", "depth_bytes", "enqueued_messages", "dequeued_messages")
_LEVELS = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")


def limits_of(sample: Mapping[str, Any]) -> Limits:
    """Return the limits in a sample, a row of `landing.SAMPLES`; a missing value is no limit."""

    def level(name: str) -> float:
        value = sample[name]
        return 0.0 if value is None or np.isnan(value) else float(value)

    return Limits(*(level(f"{kind}_{unit}") for unit in ("messages", "bytes") for kind in ("stop", "resume")))


def traffic_of(samples: Mapping[str, Any], blocked_ms: Any = None) -> Traffic:
    """Convert columns of `landing.SAMPLES` of one queue, sorted by `at`: arrays, or a data frame."""
    at = np.asarray(samples["at"])
    if np.issubdtype(at.dtype, np.datetime64):
        at = at.astype("datetime64[ms]").astype(np.int64)
    state = np.asarray(samples["state"]).astype(str)
    depth, size, enqueued, dequeued = (np.asarray(samples[name], np.float64) for name in _COUNTED)
    overfull, stopped = np.char.startswith(state, "OVERFULL"), np.char.endswith(state, "STOPPED")
    blocked = None if blocked_ms is None else np.asarray(blocked_ms, np.float64)
    return traffic(Samples(at.astype(np.float64), depth, size, enqueued, dequeued, overfull, stopped, blocked))


def recommendation_of(samples: Mapping[str, Any], blocked_ms: Any = None) -> dict[str, Any]:
    """Return a row of `ADVICE` for the samples of one queue, sorted by `at`, with the limits of the last sample."""
    recorded = traffic_of(samples, blocked_ms)
    last = {name: np.asarray(samples[name], np.float64)[-1] for name in _LEVELS}
    current = limits_of(last)
    peak_messages, peak_bytes = (float(np.nanmax(np.asarray(samples[name], np.float64))) for name in _COUNTED[:2])
    return recommendation_row(recorded, current, peak_messages, peak_bytes)
