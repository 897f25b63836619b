"""What a recorder has received and not landed yet."""

from __future__ import annotations

from console.history.record.unlanded import Unlanded
from tests.history.delta import HOUR, coverage

T = 1_773_500_400_000


def test_recorded_time_ends_with_the_last_coverage_also_after_the_clock_was_set_back() -> None:
    unlanded = Unlanded()
    for begin, end, is_recorded in ((0, 1, True), (1, 2, True), (2, 9, False)):
        unlanded.cover(coverage(T + begin * HOUR, T + end * HOUR, followed=is_recorded))
    unlanded.seal(None)
    assert unlanded.covered_until == T + 2 * HOUR, "the rest was not recorded"
    unlanded.seal(None)
    assert unlanded.covered_until == T + 2 * HOUR
    unlanded.cover(coverage(T - HOUR, T))
    unlanded.seal(None)
    assert unlanded.covered_until == T
