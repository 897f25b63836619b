"""The replay of recorded traffic under other limits, and the advice that follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.history.whatif.comparison import ADVICE, advise, compare, smallest_capacity
from console.history.whatif.replay import Limits, Samples, Traffic, replay, traffic
from tests.history.sampled import advice_row, traffic_of

Floats = npt.NDArray[np.float64]


def flow(demand: list[float], service: list[float], seconds: float = 10.0, depth: float = 0.0) -> Traffic:
    """Even intervals of messages of 100 bytes."""
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
    """The same, in small steps and nothing exact: (blocked seconds, deepest, episodes)."""
    depth, held, blocked, deepest, episodes = float(recorded.restart[0]), False, 0.0, 0.0, 0
    for seconds, into, out in zip(recorded.seconds, recorded.demand, recorded.service, strict=True):
        for _ in range(round(float(seconds) / step)):
            depth = max(depth + ((0.0 if held else into) - out) * step, 0.0)
            deepest = max(deepest, depth)
            blocked += step * held
            if not held and depth >= stop:
                held = True
                episodes += 1
            elif held and depth <= resume:
                held = False
    return blocked, deepest, episodes


def test_a_queue_that_fills_is_held_until_it_is_down_to_its_resume_level() -> None:
    # 10/s too many for 100 s: full with 500 after 50 s, then down to 400 at 10/s in 10 s, and up again in 10 s.
    outcome = replay(flow([20.0] * 10, [10.0] * 10), Limits(500, 400))
    assert outcome.episodes == 3
    assert outcome.blocked_seconds == pytest.approx(30)
    assert outcome.longest_seconds == pytest.approx(10)
    assert (outcome.peak_messages, outcome.peak_bytes) == (500, 50_000)


def test_limits_in_bytes_hold_at_the_size_that_messages_have() -> None:
    recorded = flow([20.0] * 10, [10.0] * 10)
    in_bytes = replay(recorded, Limits(0, 0, 50_000, 40_000))
    assert in_bytes == replay(recorded, Limits(500, 400))
    assert replay(recorded, Limits(10_000, 8_000, 50_000, 40_000)) == in_bytes  # the stricter one


def test_consumers_that_have_gone_hold_producers_to_the_end() -> None:
    outcome = replay(flow([10.0] * 10, [0.0] * 10), Limits(200, 100))
    assert (outcome.episodes, outcome.blocked_seconds, outcome.longest_seconds) == (1, 80.0, 80.0)


def test_turns_within_a_long_interval_are_all_counted() -> None:
    one = replay(flow([20.0], [10.0], seconds=36_000), Limits(500, 400))
    many = replay(flow([20.0] * 36_000, [10.0] * 36_000, seconds=1), Limits(500, 400))
    assert one.episodes == pytest.approx(many.episodes, abs=1)
    assert one.blocked_seconds == pytest.approx(many.blocked_seconds, abs=11)
    assert one.episodes > 1700


def test_without_limits_nobody_is_held() -> None:
    outcome = replay(flow([20.0] * 10, [0.0] * 10), Limits())
    assert (outcome.episodes, outcome.blocked_seconds, outcome.peak_messages) == (0, 0.0, 2000.0)


#: Nothing happens at the very end of an interval, where a step may fall on either side, and there is no interval
#: without consumers, which would make a whole minute of that.
odd_flows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.117, 7.713, 21.37, 99.131]), st.sampled_from([2.377, 5.119, 31.73])),
    min_size=1,
    max_size=20,
).map(lambda pairs: flow([d for d, _ in pairs], [s for _, s in pairs], 60.0))


@settings(max_examples=40, deadline=None)
@given(odd_flows, st.sampled_from([5.31, 50.77, 333.13]), st.sampled_from([0.0, 0.51, 0.83]))
def test_the_replay_agrees_with_small_steps(recorded: Traffic, stop: float, share: float) -> None:
    exact = replay(recorded, Limits(stop, stop * share))
    blocked, deepest, episodes = stepped(recorded, stop, stop * share, 0.005)
    total = recorded.observed_seconds
    # A step may come too late at each crossing, and be carried over to the next.
    tolerance = 0.02 * total + 0.01 * (episodes + exact.episodes) + 0.05
    assert exact.blocked_seconds == pytest.approx(blocked, abs=tolerance)
    assert exact.peak_messages == pytest.approx(deepest, abs=1.0)


@settings(max_examples=300, deadline=None)
@given(flows(), st.floats(1, 500), st.floats(1, 20))
def test_with_both_levels_alike_a_larger_capacity_never_holds_longer(
    recorded: Traffic, stop: float, times: float
) -> None:
    small, large = replay(recorded, Limits(stop, stop)), replay(recorded, Limits(stop * times, stop * times))
    assert large.blocked_seconds <= small.blocked_seconds * (1 + 1e-9) + 1e-6
    assert large.peak_messages >= small.peak_messages - 1e-6


@settings(max_examples=200, deadline=None)
@given(flows(), st.floats(1, 2000), st.floats(0, 1))
def test_nobody_is_held_longer_than_there_is_time_and_nothing_overshoots(
    recorded: Traffic, stop: float, share: float
) -> None:
    outcome = replay(recorded, Limits(stop, stop * share))
    assert 0 <= outcome.blocked_seconds <= recorded.observed_seconds + 1e-6
    assert outcome.longest_seconds <= outcome.blocked_seconds + 1e-6
    assert outcome.peak_messages <= stop + 1e-6
    assert (outcome.episodes == 0) == (outcome.longest_seconds == 0 == outcome.blocked_seconds) or outcome.episodes > 0


@settings(max_examples=200, deadline=None)
@given(flows(), st.floats(0.1, 1))
def test_a_capacity_that_is_never_reached_changes_nothing(recorded: Traffic, share: float) -> None:
    free = replay(recorded, Limits())
    roomy = free.peak_messages + 1
    assert replay(recorded, Limits(roomy, roomy * share)) == free


@settings(max_examples=100, deadline=None)
@given(flows(), st.floats(1, 300))
def test_the_recommended_capacity_keeps_what_it_promises_and_no_smaller_one_that_was_tried_does(
    recorded: Traffic, stop: float
) -> None:
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
    ("limits", "said"),
    [((10, 20), "resume_messages 20 is above stop_messages 10"), ((0, 0, -1, 0), "stop_bytes -1")],
)
def test_levels_that_contradict_each_other_are_refused_by_name(limits: tuple[float, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Limits(*limits)


# -- from samples ----------------------------------------------------------------------------------------------------


def recorded_samples(recorded: Traffic, limits: Limits) -> dict[str, Any]:
    """What a recorder would have stored, a sample a second, of a broker with these limits."""
    at, depth, held, enqueued, dequeued = 1_700_000_000_000, float(recorded.restart[0]), False, 0.0, 0.0
    rows = [(at, depth, enqueued, dequeued, held)]
    for seconds, into, out in zip(recorded.seconds, recorded.demand, recorded.service, strict=True):
        for _ in range(round(float(seconds))):
            for _ in range(20):
                came = 0.0 if held else into / 20
                went = min(out / 20, depth + came)
                depth += came - went
                enqueued, dequeued = enqueued + came, dequeued + went
                if depth > limits.stop_messages:
                    held = True
                elif depth <= limits.resume_messages:
                    held = False
            at += 1000
            rows.append((at, depth, enqueued, dequeued, held))
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


#: Ten minutes in which consumers lag, twice, in an hour of traffic that they can well take.
LAG = flow([20.0] * 360, [*[40.0] * 60, *[8.0] * 60, *[40.0] * 100, *[10.0] * 60, *[40.0] * 80])


def test_the_replay_of_the_limits_in_force_comes_to_what_happened() -> None:
    limits = Limits(1000, 800)
    samples = recorded_samples(LAG, limits)
    recorded = traffic_of(samples)
    (now,) = compare(recorded, limits, [])
    assert now.blocked_seconds == pytest.approx(recorded.held.sum(), rel=0.1)
    assert now.blocked_seconds == pytest.approx(replay(LAG, limits).blocked_seconds, rel=0.1)


def test_a_larger_candidate_is_not_taken_to_have_avoided_everything() -> None:
    """The recorded depth never went above the recorded capacity; what was held back must be reckoned in."""
    recorded = traffic_of(recorded_samples(LAG, Limits(1000, 800)))
    now, twice, plenty = compare(recorded, Limits(1000, 800), [Limits(2000, 1600), Limits(10_000, 8000)])
    assert now.blocked_seconds > twice.blocked_seconds > 0.3 * now.blocked_seconds
    assert plenty.blocked_seconds == 0
    assert plenty.peak_messages == pytest.approx(7200, rel=0.1)


def test_what_an_operator_stopped_is_no_demand_and_no_blocked_time() -> None:
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


def test_a_gap_is_left_out_and_the_replay_goes_on_from_the_depth_behind_it() -> None:
    samples = recorded_samples(flow([10.0] * 60, [10.0] * 60), Limits(1000, 800))
    kept = np.r_[0:100, 500:601]
    cut = {name: column[kept] for name, column in samples.items()}
    cut["depth_messages"] = np.where(np.arange(len(kept)) >= 100, 700.0, 0.0)
    recorded = traffic_of(cut)
    assert recorded.observed_seconds == 199
    assert recorded.restart[100] == 700
    assert replay(recorded, Limits(1000, 800)).peak_messages == pytest.approx(700, abs=20)


def test_counters_that_begin_anew_are_a_gap() -> None:
    counter, none = np.array([90.0, 95, 100, 2, 7, 12]), np.zeros(6)
    recorded = traffic(Samples(np.arange(6) * 1000.0, none, none, counter, counter, none > 0, none > 0))
    assert recorded.seconds.tolist() == [1, 1, 0, 1, 1]
    assert recorded.demand.max() == 5


@pytest.mark.parametrize("count", [0, 1, 2])
def test_hardly_any_samples_say_nothing_and_do_no_harm(count: int) -> None:
    samples = {name: column[:count] for name, column in recorded_samples(LAG, Limits(1000, 800)).items()}
    assert replay(traffic_of(samples), Limits(10, 5)).episodes == 0


# -- advice ----------------------------------------------------------------------------------------------------------


def test_a_queue_that_was_full_is_advised_the_capacity_that_would_have_done() -> None:
    row = advice_row(recorded_samples(LAG, Limits(1000, 800)))
    assert set(row) == set(ADVICE.names)
    assert row["kind"] == "raise-capacity"
    assert 5000 < row["recommended_stop_messages"] < 9000
    assert row["recommended_resume_messages"] == pytest.approx(0.8 * row["recommended_stop_messages"])
    assert row["recommended_blocked_seconds"] <= 0.05 * row["replayed_blocked_seconds"]
    assert row["recommended_peak_bytes"] > 500_000
    assert row["text"].startswith("Recommendation: capacity ")
    assert "Simulated, it avoids 95% of the time for which the queue was overfull" in row["text"]


def test_peak_use_of_a_recommendation_is_no_less_than_what_was_recorded_under_a_smaller_capacity() -> None:
    recorded, limits = traffic_of(recorded_samples(LAG, Limits(1000, 800))), Limits(1000, 800)
    told = advise(recorded, limits, peak_messages=1e6, peak_bytes=9e9)
    assert told.would is not None
    assert (told.would.peak_messages, told.would.peak_bytes) == (1e6, 9e9)
    assert "peak use 9" in told.text


def test_consumers_that_never_take_enough_are_said_to_be_too_few() -> None:
    recorded = flow([20.0] * 4000, [10.0] * 4000)
    assert advise(recorded, Limits(100, 50), 100, 10_000).kind == "add-consumers"


def test_a_resume_level_too_near_to_capacity_is_said_to_flap() -> None:
    recorded = flow([20.0] * 60, [10.0] * 60)
    advice = advise(recorded, Limits(500, 495), 500, 50_000)
    assert advice.kind == "lower-resume"
    assert advice.limits is not None
    assert advice.limits.resume_messages < 495
    assert advice.would is not None
    assert advice.would.episodes <= replay(recorded, Limits(500, 495)).episodes / 3


def test_a_capacity_that_was_never_reached_is_said_to_protect_nothing() -> None:
    week = flow([10.0] * 200, [20.0] * 200, seconds=3600)
    assert advise(week, Limits(100_000, 80_000), 50, 5000).kind == "never-reached"
    assert advise(week, Limits(100, 80), 50, 5000).kind == "none"  # half full: that is what it is for
    day = flow([10.0] * 20, [20.0] * 20, seconds=3600)
    assert advise(day, Limits(100_000, 80_000), 50, 5000).kind == "none"  # too early to say


def test_a_queue_without_a_limit_is_said_to_have_none() -> None:
    advice = advise(flow([1.0], [1.0]), Limits(), 3, 2048)
    assert (advice.kind, advice.text) == ("no-limit", "It has no capacity. Its deepest was 3 messages, 2.0 kB.")
