"""When a broker was started follows from uptimes that are late, and of a cluster from those of its oldest node."""

from __future__ import annotations

import pytest

from brokers.adapters.uptime import Uptime

FIRST = 1_000_000  # ms since the epoch, of the first answer
HOUR = 3_600_000


def started(*answers: tuple[int, int]) -> tuple[int, int]:
    """Return when the broker was started, and how often it was found to be. `answers`: ms since the first one, and the
    uptime that it says."""
    uptime, found = Uptime(), 0
    for at, up in answers:
        found = uptime.started(up, FIRST + at)
    return found - FIRST, uptime.restarts


def test_late_answers_and_late_statistics_are_no_start() -> None:
    assert started((0, 60_000), (12_000, 60_000)) == (-60_000, 0)  # the same uptime, 12 s later
    assert started((0, 60_000), (14_000, 74_500)) == (-60_500, 0)
    assert started((0, 60_000), (20_000, 61_000), (25_000, 85_000)) == (-60_000, 0)  # an answer that took 19 s
    assert started((0, 3_000), (6_000, 3_000), (11_000, 8_000)) == (-3_000, 0)  # it has just been started


@pytest.mark.parametrize(
    "last",
    [
        (5_000, 2_000),  # within one round
        (90_000, 60_000),
        (6 * HOUR, 5 * HOUR),  # it has been up for longer now than before
    ],
)
def test_a_start_since_the_last_answer_is_found(last: tuple[int, int]) -> None:
    at, up = last
    assert started((0, HOUR), last) == (at - up, 1)


def test_a_rolling_upgrade_of_a_cluster_is_no_start_of_it() -> None:
    """Three nodes that were started an hour after each other are started again, the oldest first."""
    nodes = [0, HOUR, 2 * HOUR]
    answers = []
    for second in range(0, 600, 5):
        at = 3 * HOUR + 1_000 * second
        if second % 150 == 0 and second:
            nodes[second // 150 - 1] = at
        answers.append((at, at - min(nodes)))
    assert started(*answers)[1] == 0
    restarted_at = answers[-1][0] + 60_000
    assert started(*answers, (restarted_at + 10_000, 10_000)) == (restarted_at, 1)  # all of them at once


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_clock_that_is_set_is_no_start(step: int) -> None:
    uptime = Uptime()
    uptime.started(60_000, FIRST)
    uptime.clock_set(step)
    assert uptime.started(65_000, FIRST + step + 5_000) == FIRST + step - 60_000
    assert uptime.restarts == 0
