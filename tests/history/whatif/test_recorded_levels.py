"""The recorded levels of a queue: without a resume level, the stop level is the resume level."""

from __future__ import annotations

import numpy as np
import pytest

from console.history.whatif.minute_traffic import levels_in_messages, limits_at_end
from console.history.whatif.replay import Limits

NAN = np.nan


@pytest.mark.parametrize(("resume", "expected"), [([NAN] * 3, 1000), ([0.0] * 3, 0), ([NAN, 900.0, NAN], 900)])
def test_current_limits_without_a_resume_level_resume_at_the_stop_level(resume: list[float], expected: int) -> None:
    none = np.full(3, NAN)
    got = {"stop_messages": np.full(3, 1000.0), "resume_messages": np.array(resume)}
    assert limits_at_end({**got, "stop_bytes": none, "resume_bytes": none}) == Limits(1000, expected)


def test_levels_of_each_moment_without_a_resume_level_are_the_stop_level() -> None:
    got = {
        "stop_messages": np.array([1000.0, 1000.0, 1000.0, NAN]),
        "resume_messages": np.array([NAN, 0.0, 800.0, NAN]),
        "stop_bytes": np.array([NAN, NAN, 50_000.0, NAN]),
        "resume_bytes": np.full(4, NAN),
    }
    stop, resume = levels_in_messages(got, np.full(4, 100.0))
    assert stop.tolist() == [1000, 1000, 500, np.inf]
    assert resume.tolist() == [1000, 0, 500, 0]  # without a limit it does not count
