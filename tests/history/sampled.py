"""Convert columns of the landing folder's samples to what was recorded, and to a row of recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from console.history.storage.durations import SAMPLE_VALIDITY_MS
from console.history.whatif.recommend import recommendation_row
from console.history.whatif.recording import SAMPLE_COLUMNS, Recording, recording_of_samples
from console.history.whatif.replay import Limits


def limits_of(sample: Mapping[str, Any]) -> Limits:
    """Return the limits in a sample, a row of `landing.SAMPLES`; a missing value is no limit."""

    def level(name: str) -> float:
        value = sample[name]
        return 0.0 if value is None or np.isnan(value) else float(value)

    return Limits(*(level(f"{kind}_{unit}") for unit in ("messages", "bytes") for kind in ("stop", "resume")))


def recording_of(samples: Mapping[str, Any], longest_ms: float = SAMPLE_VALIDITY_MS) -> Recording | None:
    """Convert columns of `landing.SAMPLES` of one queue, sorted by `at`: arrays, or a data frame. A missing column is
    unknown."""
    at = np.asarray(samples["at"])
    if np.issubdtype(at.dtype, np.datetime64):
        at = at.astype("datetime64[ms]").astype(np.int64)
    state = list(np.asarray(samples["state"]).astype(str))
    columns = {
        name: np.asarray(samples[name], np.float64) if name in samples else np.full(len(at), np.nan)
        for name in SAMPLE_COLUMNS
    }
    return recording_of_samples({"ms": at.astype(np.float64), **columns}, state, longest_ms)


def recommendation_of(samples: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `ADVICE` for the samples of one queue, sorted by `at`, with the limits of the last sample."""
    recording = recording_of(samples)
    assert recording is not None
    return recommendation_row(recording)
