"""The recorded traffic of a queue, and its row of recommendations, from columns of the landing folder's samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from console.history.whatif.comparison import row_of
from console.history.whatif.replay import Limits, Samples, Traffic, traffic

_COUNTED = ("depth_messages", "depth_bytes", "enqueued_messages", "dequeued_messages")
_LEVELS = ("stop_messages", "resume_messages", "stop_bytes", "resume_bytes")


def limits_of(sample: Mapping[str, Any]) -> Limits:
    """The limits that a sample (a row of `landing.SAMPLES`) says were in force; what it does not tell is no limit."""

    def level(name: str) -> float:
        value = sample[name]
        return 0.0 if value is None or np.isnan(value) else float(value)

    return Limits(*(level(f"{kind}_{unit}") for unit in ("messages", "bytes") for kind in ("stop", "resume")))


def traffic_of(samples: Mapping[str, Any], held_ms: Any = None) -> Traffic:
    """From columns of `landing.SAMPLES` of one queue, sorted by `at`: arrays, or a data frame."""
    at = np.asarray(samples["at"])
    if np.issubdtype(at.dtype, np.datetime64):
        at = at.astype("datetime64[ms]").astype(np.int64)
    state = np.asarray(samples["state"]).astype(str)
    depth, size, enqueued, dequeued = (np.asarray(samples[name], np.float64) for name in _COUNTED)
    overfull, stopped = np.char.startswith(state, "OVERFULL"), np.char.endswith(state, "STOPPED")
    held = None if held_ms is None else np.asarray(held_ms, np.float64)
    return traffic(Samples(at.astype(np.float64), depth, size, enqueued, dequeued, overfull, stopped, held))


def advice_row(samples: Mapping[str, Any], held_ms: Any = None) -> dict[str, Any]:
    """A row of `ADVICE` for the samples of one queue, sorted by `at`; the limits are those of the last sample."""
    recorded = traffic_of(samples, held_ms)
    last = {name: np.asarray(samples[name], np.float64)[-1] for name in _LEVELS}
    current = limits_of(last)
    peak_messages, peak_bytes = (float(np.nanmax(np.asarray(samples[name], np.float64))) for name in _COUNTED[:2])
    return row_of(recorded, current, peak_messages, peak_bytes)
