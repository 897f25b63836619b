"""A broker is read often, and less often when it is slow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.adapters.pace import CHANGING, RETRY_MOST, Pace, all_pace, changing_pace

DURATIONS = st.lists(st.floats(0, 60), min_size=1, max_size=50)


@pytest.mark.parametrize("kind", [changing_pace, all_pace])
@given(durations=DURATIONS)
def test_slow_broker_gets_time_to_itself_and_is_still_read(kind: Callable[[], Pace], durations: list[float]) -> None:
    pace, now = kind(), 0.0
    for duration in durations:
        began, now = now, now + duration
        pace.answered(began, now)
        rest = pace.due - now
        assert pace.due - began >= pace.least - 1e-9
        assert min(pace.most, pace.pause * duration) - 1e-9 <= rest <= pace.most + 1e-9
        now = pace.due


def test_pace_recovers_after_slow_answers() -> None:
    pace = changing_pace()
    pace.answered(0, 1.5)
    assert pace.due == 3
    for _ in range(20):
        began = pace.due
        pace.answered(began, began + 0.01)
    assert pace.due - began == pytest.approx(CHANGING)


def test_failed_reads_are_repeated_more_and_more_seldom() -> None:
    pace, waits = Pace(1, 10), []
    for _ in range(40):
        pace.failed(100.0)
        waits.append(pace.due - 100)
    assert waits[:5] == [1, 2, 4, 8, 15]
    assert set(waits[4:]) == {RETRY_MOST}
    pace.answered(200, 200.1)
    pace.failed(300)
    assert pace.due == 301
