"""The simulation of recorded traffic with other limits, and the recommendations derived from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.history.whatif.comparison import ADVICE, advise, compare, smallest_capacity
from console.history.whatif.replay import Limits, Samples, Traffic, replay, traffic
from tests.history.sampled import recommendation_of, traffic_of

Floats = npt.NDArray[np.float64]


def flow(demand: list[float], service: list[float], seconds: float = 10.0, depth: float = 0.0) -> Traffic:
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
        np.zeros(n),
        np.zeros(n),
    )


rates = st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.5, 20.0, 100.0]), min_size=1, max_size=60)


@st.composite
def flows(draw: st.DrawFn) -> Traffic:
    demand = draw(rates)
    service = draw(st.lists(st.sampled_from([0.0, 2.0, 5.0, 30.0]), min_size=len(demand), max_size=len(demand)))
    return flow(demand, service, draw(st.sampled_from([1.0, 60.0])))


def stepped(recorded: Traffic, stop: float, resume: float, step: float) -> tuple[float, float, int]:
    """A reference simulation in small steps: return (blocked seconds, highest depth, episodes)."""
    depth, is_blocked, blocked, highest, episodes = float(recorded.restart[0]), False, 0.0, 0.0, 0
    for seconds, into, out in zip(recorded.seconds, recorded.demand, recorded.service, strict=True):
        for _ in range(round(float(seconds) / step)):
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
).map(lambda pairs: flow([d for d, _ in pairs], [s for _, s in pairs], 60.0))


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


@settings(max_examples=100, deadline=None)
@given(flows(), st.floats(1, 300))
def test_recommended_capacity_avoids_the_promised_share_of_blocked_time(recorded: Traffic, stop: float) -> None:
    current = Limits(stop, stop * 0.8)
    before = replay(recorded, current).blocked_seconds
    found = smallest_capacity(recorded, current)
    if found is None:
        assert replay(recorded, current.scaled(256.0)).blocked_seconds > 0.05 * before
        return
    limits, outcome = found
    assert outcome == replay(recorded, limits)
    assert outcome.blocked_seconds <= 0.05 * before


@pytest.mark.parametrize(
    ("limits", "message"),
    [((10, 20), "resume_messages 20 is above stop_messages 10"), ((0, 0, -1, 0), "stop_bytes -1")],
)
def test_inconsistent_levels_are_refused_by_name(limits: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(*limits)


# -- from samples ----------------------------------------------------------------------------------------------------


def recorded_samples(recorded: Traffic, limits: Limits) -> dict[str, Any]:
    """Return the samples, one per second, that a recorder stores for a broker with these limits."""
    at, depth, is_overfull, enqueued, dequeued = 1_700_000_000_000, float(recorded.restart[0]), False, 0.0, 0.0
    rows = [(at, depth, enqueued, dequeued, is_overfull)]
    for seconds, into, out in zip(recorded.seconds, recorded.demand, recorded.service, strict=True):
        for _ in range(round(float(seconds))):
            for _ in range(20):
                came = 0.0 if is_overfull else into / 20
                went = min(out / 20, depth + came)
                depth += came - went
                enqueued, dequeued = enqueued + came, dequeued + went
                if depth > limits.stop_messages:
                    is_overfull = True
                elif depth <= limits.resume_messages:
                    is_overfull = False
            at += 1000
            rows.append((at, depth, enqueued, dequeued, is_overfull))
    n = len(rows)
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return {
        "at": columns[0],
        "depth_messages": columns[1],
        "depth_bytes": columns[1] * 100,
        "enqueued_messages": columns[2],
        "dequeued_messages": columns[3],
        "state": np.where(columns[4], "OVERFULL", "NORMAL"),
        "stop_messages": np.full(n, limits.stop_messages),
        "resume_messages": np.full(n, limits.resume_messages),
        "stop_bytes": np.full(n, limits.stop_bytes),
        "resume_bytes": np.full(n, limits.resume_bytes),
    }


#: An hour of traffic with two periods of ten minutes in which consumers are too slow.
LAG = flow([20.0] * 360, [*[40.0] * 60, *[8.0] * 60, *[40.0] * 100, *[10.0] * 60, *[40.0] * 80])


def test_simulation_of_the_current_limits_agrees_with_the_recording() -> None:
    limits = Limits(1000, 800)
    samples = recorded_samples(LAG, limits)
    recorded = traffic_of(samples)
    (now,) = compare(recorded, limits, [])
    assert now.blocked_seconds == pytest.approx(recorded.blocked.sum(), rel=0.1)
    assert now.blocked_seconds == pytest.approx(replay(LAG, limits).blocked_seconds, rel=0.1)


def test_larger_capacity_avoids_only_part_of_the_blocked_time() -> None:
    """The recorded depth is limited by the recorded capacity: the demand of blocked producers has to be added."""
    recorded = traffic_of(recorded_samples(LAG, Limits(1000, 800)))
    now, twice, plenty = compare(recorded, Limits(1000, 800), [Limits(2000, 1600), Limits(10_000, 8000)])
    assert now.blocked_seconds > twice.blocked_seconds > 0.3 * now.blocked_seconds
    assert plenty.blocked_seconds == 0
    assert plenty.peak_messages == pytest.approx(7200, rel=0.1)


def test_stop_by_an_operator_is_neither_demand_nor_blocked_time() -> None:
    samples = recorded_samples(flow([10.0] * 60, [10.0] * 60), Limits(1000, 800))
    half = slice(200, 400)
    samples["state"] = samples["state"].astype("U16")
    samples["state"][half] = "STOPPED"
    for counter in ("enqueued_messages", "dequeued_messages"):
        samples[counter][half] = samples[counter][199]
        samples[counter][400:] += samples[counter][199] - samples[counter][400]
    recorded = traffic_of(samples)
    assert recorded.demand[205:395].max() == 0
    assert recorded.demand[405:].min() == pytest.approx(10)
    assert replay(recorded, Limits(1000, 800)).blocked_seconds == 0


def test_simulation_skips_a_gap_and_continues_from_the_depth_after_it() -> None:
    samples = recorded_samples(flow([10.0] * 60, [10.0] * 60), Limits(1000, 800))
    present = np.r_[0:100, 500:601]
    cut = {name: column[present] for name, column in samples.items()}
    cut["depth_messages"] = np.where(np.arange(len(present)) >= 100, 700.0, 0.0)
    recorded = traffic_of(cut)
    assert recorded.observed_seconds == 199
    assert recorded.restart[100] == 700
    assert replay(recorded, Limits(1000, 800)).peak_messages == pytest.approx(700, abs=20)


def test_reset_of_the_counters_is_a_gap() -> None:
    counter, none = np.array([90.0, 95, 100, 2, 7, 12]), np.zeros(6)
    recorded = traffic(Samples(np.arange(6) * 1000.0, none, none, counter, counter, none > 0, none > 0))
    assert recorded.seconds.tolist() == [1, 1, 0, 1, 1]
    assert recorded.demand.max() == 5


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_samples_give_an_empty_result(count: int) -> None:
    samples = {name: column[:count] for name, column in recorded_samples(LAG, Limits(1000, 800)).items()}
    assert replay(traffic_of(samples), Limits(10, 5)).episodes == 0


# -- recommendations --------------------------------------------------------------------------------------------------


def test_recommendation_for_an_overfull_queue_is_a_sufficient_capacity() -> None:
    row = recommendation_of(recorded_samples(LAG, Limits(1000, 800)))
    assert set(row) == set(ADVICE.names)
    assert row["kind"] == "raise-capacity"
    assert 5000 < row["recommended_stop_messages"] < 9000
    assert row["recommended_resume_messages"] == pytest.approx(0.8 * row["recommended_stop_messages"])
    assert row["recommended_blocked_seconds"] <= 0.05 * row["replayed_blocked_seconds"]
    assert row["recommended_peak_bytes"] > 500_000
    assert row["text"].startswith("Recommendation: capacity ")
    assert "Simulated, it avoids 95% of the overfull time" in row["text"]


def test_peak_use_of_a_recommendation_is_at_least_the_recorded_peak() -> None:
    recorded, limits = traffic_of(recorded_samples(LAG, Limits(1000, 800))), Limits(1000, 800)
    advice = advise(recorded, limits, peak_messages=1e6, peak_bytes=9e9)
    assert advice.outcome is not None
    assert (advice.outcome.peak_messages, advice.outcome.peak_bytes) == (1e6, 9e9)
    assert "peak use 9" in advice.text


def test_recommendation_for_slow_consumers_is_to_add_consumers() -> None:
    recorded = flow([20.0] * 4000, [10.0] * 4000)
    assert advise(recorded, Limits(100, 50), 100, 10_000).kind == "add-consumers"


def test_recommendation_for_a_flapping_queue_is_a_lower_resume_level() -> None:
    recorded = flow([20.0] * 60, [10.0] * 60)
    advice = advise(recorded, Limits(500, 495), 500, 50_000)
    assert advice.kind == "lower-resume"
    assert advice.limits is not None
    assert advice.limits.resume_messages < 495
    assert advice.outcome is not None
    assert advice.outcome.episodes <= replay(recorded, Limits(500, 495)).episodes / 3


def test_capacity_never_reached_in_a_week_is_reported() -> None:
    week = flow([10.0] * 200, [20.0] * 200, seconds=3600)
    assert advise(week, Limits(100_000, 80_000), 50, 5000).kind == "never-reached"
    assert advise(week, Limits(100, 80), 50, 5000).kind == "none"  # half full: the limit has an effect
    day = flow([10.0] * 20, [20.0] * 20, seconds=3600)
    assert advise(day, Limits(100_000, 80_000), 50, 5000).kind == "none"  # not enough data


def test_queue_without_a_limit_is_reported() -> None:
    advice = advise(flow([1.0], [1.0]), Limits(), 3, 2048)
    assert (advice.kind, advice.text) == ("no-limit", "No capacity is set. Highest depth: 3 messages, 2.0 kB.")
