"""The simulation of traffic with limits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.history.whatif.replay import Limits, Traffic, replay

Floats = npt.NDArray[np.float64]


def flow(
    demand: list[float], service: list[float], seconds: float = 10.0, depth: float = 0.0, send_rate: float = 0.0
) -> Traffic:
    """Return intervals of equal length, with messages of 100 bytes."""
    n = len(demand)
    restart = np.full(n, -1.0)
    restart[0] = depth
    return Traffic(
        np.full(n, seconds),
        np.array(demand, float),
        np.array(service, float),
        np.full(n, 100.0),
        restart,
        send_rate,
    )


rates = st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.5, 20.0, 100.0]), min_size=1, max_size=60)


@st.composite
def flows(draw: st.DrawFn) -> Traffic:
    demand = draw(rates)
    service = draw(st.lists(st.sampled_from([0.0, 2.0, 5.0, 30.0]), min_size=len(demand), max_size=len(demand)))
    return flow(demand, service, draw(st.sampled_from([1.0, 60.0])), 0.0, draw(st.sampled_from([0.0, 40.0, 1e6])))


def stepped(recorded: Traffic, stop: float, resume: float, step: float) -> tuple[float, float, int]:
    """A reference simulation in small steps: return (blocked seconds, highest depth, episodes)."""
    depth, is_blocked, blocked, highest, episodes = float(recorded.restart[0]), False, 0.0, 0.0, 0
    unsent = 0.0
    for seconds, fresh, out in zip(recorded.seconds, recorded.demand, recorded.service, strict=True):
        for _ in range(round(float(seconds) / step)):
            unsent += fresh * step if recorded.send_rate else 0.0
            into = min(unsent / step, max(fresh, recorded.send_rate)) if recorded.send_rate else fresh
            unsent -= 0.0 if is_blocked or not recorded.send_rate else into * step
            depth = max(depth + ((0.0 if is_blocked else into) - out) * step, 0.0)
            highest = max(highest, depth)
            blocked += step * is_blocked
            if not is_blocked and depth >= stop:
                is_blocked = True
                episodes += 1
            elif is_blocked and depth <= resume:
                is_blocked = False
    return blocked, highest, episodes


def test_full_queue_blocks_its_producers_until_its_resume_level() -> None:
    # An excess of 10/s for 100 s: overfull at 500 after 50 s, underfull at 400 after 10 s, overfull after 10 s.
    outcome = replay(flow([20.0] * 10, [10.0] * 10), Limits(500, 400))
    assert outcome.episodes == 3
    assert outcome.blocked_seconds == pytest.approx(30)
    assert outcome.longest_seconds == pytest.approx(10)
    assert (outcome.peak_messages, outcome.peak_bytes) == (500, 50_000)


def test_limits_in_bytes_apply_at_the_size_of_the_messages() -> None:
    recorded = flow([20.0] * 10, [10.0] * 10)
    in_bytes = replay(recorded, Limits(0, 0, 50_000, 40_000))
    assert in_bytes == replay(recorded, Limits(500, 400))
    assert replay(recorded, Limits(10_000, 8_000, 50_000, 40_000)) == in_bytes  # the stricter one


def test_producers_of_a_queue_without_consumers_stay_blocked() -> None:
    outcome = replay(flow([10.0] * 10, [0.0] * 10), Limits(200, 100))
    assert (outcome.episodes, outcome.blocked_seconds, outcome.longest_seconds) == (1, 80.0, 80.0)


def test_all_episodes_within_a_long_interval_are_counted() -> None:
    one = replay(flow([20.0], [10.0], seconds=36_000), Limits(500, 400))
    many = replay(flow([20.0] * 36_000, [10.0] * 36_000, seconds=1), Limits(500, 400))
    assert one.episodes == pytest.approx(many.episodes, abs=1)
    assert one.blocked_seconds == pytest.approx(many.blocked_seconds, abs=11)
    assert one.episodes > 1700


def test_without_limits_no_producer_is_blocked() -> None:
    outcome = replay(flow([20.0] * 10, [0.0] * 10), Limits())
    assert (outcome.episodes, outcome.blocked_seconds, outcome.peak_messages) == (0, 0.0, 2000.0)


#: Values that cross no level exactly at the end of an interval, where a step may fall on either side; and no interval
#: without consumers, where that would change the result by a minute.
odd_flows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.117, 7.713, 21.37, 99.131]), st.sampled_from([2.377, 5.119, 31.73])),
    min_size=1,
    max_size=20,
).flatmap(
    lambda pairs: st.sampled_from([0.0, 0.0, 131.7]).map(
        lambda send: flow([d for d, _ in pairs], [s for _, s in pairs], 60.0, 0.0, send)
    )
)


@settings(max_examples=40, deadline=None)
@given(odd_flows, st.sampled_from([5.31, 50.77, 333.13]), st.sampled_from([0.0, 0.51, 0.83]))
def test_simulation_agrees_with_the_reference_in_small_steps(recorded: Traffic, stop: float, share: float) -> None:
    exact = replay(recorded, Limits(stop, stop * share))
    blocked, highest, episodes = stepped(recorded, stop, stop * share, 0.005)
    total = recorded.observed_seconds
    # The reference may be one step late at each crossing, which adds up.
    tolerance = 0.02 * total + 0.01 * (episodes + exact.episodes) + 0.05
    assert exact.blocked_seconds == pytest.approx(blocked, abs=tolerance)
    assert exact.peak_messages == pytest.approx(highest, abs=1.0)


@settings(max_examples=300, deadline=None)
@given(flows(), st.floats(1, 500), st.floats(1, 20))
def test_with_equal_levels_a_larger_capacity_never_blocks_longer(recorded: Traffic, stop: float, times: float) -> None:
    small, large = replay(recorded, Limits(stop, stop)), replay(recorded, Limits(stop * times, stop * times))
    assert large.blocked_seconds <= small.blocked_seconds * (1 + 1e-9) + 1e-6
    assert large.peak_messages >= small.peak_messages - 1e-6


@settings(max_examples=200, deadline=None)
@given(flows(), st.floats(1, 2000), st.floats(0, 1))
def test_blocked_time_fits_the_range_and_depth_stays_within_the_capacity(
    recorded: Traffic, stop: float, share: float
) -> None:
    outcome = replay(recorded, Limits(stop, stop * share))
    assert 0 <= outcome.blocked_seconds <= recorded.observed_seconds + 1e-6
    assert outcome.longest_seconds <= outcome.blocked_seconds + 1e-6
    assert outcome.peak_messages <= stop + 1e-6
    assert (outcome.episodes == 0) == (outcome.longest_seconds == 0 == outcome.blocked_seconds) or outcome.episodes > 0


@settings(max_examples=200, deadline=None)
@given(flows(), st.floats(0.1, 1))
def test_capacity_that_is_never_reached_changes_nothing(recorded: Traffic, share: float) -> None:
    free = replay(recorded, Limits())
    roomy = free.peak_messages + 1
    assert replay(recorded, Limits(roomy, roomy * share)) == free


@pytest.mark.parametrize(
    ("limits", "message"),
    [((10, 20), "resume_messages 20 is above stop_messages 10"), ((0, 0, -1, 0), "stop_bytes -1")],
)
def test_inconsistent_levels_are_refused_by_name(limits: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(*limits)


def test_what_was_not_sent_is_sent_later_at_the_given_rate() -> None:
    # 20/s for 100 s beside consumers of 10/s: 500 fill the queue in 50 s, then the 500 left arrive in refills from 400.
    overload = flow([20.0] * 10 + [0.0] * 20, [10.0] * 30, send_rate=110.0)
    outcome = replay(overload, Limits(500, 400))
    # All 2,000 are sent when 1,500 are taken, after 150 s: ten times it drains to 400 in 10 s and is refilled in 1 s.
    assert outcome.blocked_seconds == pytest.approx(100, abs=6)
    assert outcome.episodes == 10
    assert replay(overload, Limits(2000, 1600)).blocked_seconds == 0
    dropped = replay(flow([20.0] * 10 + [0.0] * 20, [10.0] * 30), Limits(500, 400))
    assert dropped.blocked_seconds == pytest.approx(30)
    assert outcome.blocked_seconds > dropped.blocked_seconds


def test_with_equal_levels_unsent_messages_arrive_as_consumers_take_others() -> None:
    overload = flow([20.0] * 10 + [0.0] * 20, [10.0] * 30, send_rate=1e6)
    assert replay(overload, Limits(500, 500)).blocked_seconds == pytest.approx(100, abs=1)


@settings(max_examples=200, deadline=None)
@given(flows(), st.floats(1, 500), st.floats(0, 1))
def test_every_simulation_ends(recorded: Traffic, stop: float, share: float) -> None:
    outcome = replay(recorded, Limits(stop, stop * share, stop * 70, stop * 70 * share))
    assert 0 <= outcome.blocked_seconds <= recorded.observed_seconds * (1 + 1e-9)
