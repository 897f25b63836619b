"""Simulated limits against an oracle that knows what producers wanted to send (`simulation.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from console.history.whatif.comparison import CAVEAT, simulation_of
from console.history.whatif.recommend import recommend
from console.history.whatif.recording import Recording, recording_of_minutes
from console.history.whatif.replay import Limits
from tests.history.sampled import recording_of
from tests.history.whatif import simulation
from tests.history.whatif.simulation import Load, Run, simulate

LOADS = simulation.loads()
#: What producers do with messages that they could not send: drop them, or send them later at this rate.
SENDS = [None, 60.0, 1000.0]
IN_FORCE = (300, 200)
OTHERS = [(300, 200), (150, 100), (600, 400), (1200, 800), (3000, 2000), (300, 50), (300, 280)]


def recorded(run: Run, source: str, levels: tuple[int, int] = IN_FORCE) -> Recording:
    found: Recording | None
    if source == "samples":
        columns = simulation.samples(run, *levels)
        state = np.where(columns.pop("overfull"), "OVERFULL", "NORMAL")
        zeros = np.zeros(len(state))
        found = recording_of(
            {**columns, "at": columns["ms"], "state": state, "stop_bytes": zeros, "resume_bytes": zeros}
        )
    else:
        columns = simulation.minutes(run, *levels)
        found = recording_of_minutes({**columns, "blocked_ms": columns["overfull_ms"]})
    assert found is not None
    return found


def agrees(truth: float, low: float, high: float) -> bool:
    """Within 20 % of the oracle, or a range that contains it; a few seconds of an hour are the resolution."""
    return low - 0.2 * truth - 5 <= truth <= high + 0.2 * truth + 5


@pytest.mark.parametrize("source", ["samples", "minutes"])
@pytest.mark.parametrize("name", LOADS)
def test_overfull_time_under_other_limits_agrees_with_the_oracle(name: str, source: str) -> None:
    wrong = []
    for send in SENDS:
        made = simulation_of(recorded(simulate(LOADS[name], *IN_FORCE, send), source))
        for levels in OTHERS:
            truth = simulate(LOADS[name], *levels, send).blocked_seconds
            found = made.of(Limits(*levels))
            low, high = found.low.blocked_seconds, found.high.blocked_seconds
            if not agrees(truth, low, high):
                wrong.append(f"sent later at {send}, {levels}: {truth:.0f} s is not in {low:.0f} to {high:.0f} s")
    assert not wrong


def cases(*chosen: tuple[str, float | None]) -> list[tuple[str, float | None, str]]:
    return [(*one, source) for one in chosen for source in ("samples", "minutes")]


@pytest.mark.parametrize(
    ("name", "send", "source"),
    cases(
        *((name, send) for name in ("steady overload", "slow consumer", "no consumer") for send in SENDS),
        ("one-off overload", 1000.0),
        ("quiet", None),
    ),
)
def test_range_is_narrow_where_the_record_decides(name: str, send: float | None, source: str) -> None:
    made = simulation_of(recorded(simulate(LOADS[name], *IN_FORCE, send), source))
    for levels in OTHERS:
        found = made.of(Limits(*levels))
        low, high = found.low.blocked_seconds, found.high.blocked_seconds
        assert high - low <= 0.25 * high + 5, f"{levels}: {low:.0f} to {high:.0f} s"


@pytest.mark.parametrize("name", ["stalls", "consumer away", "bursts", "high bursts"])
def test_samples_of_messages_that_were_sent_later_give_a_narrow_range(name: str) -> None:
    """They arrive at once after a block, which excludes that they were dropped."""
    made = simulation_of(recorded(simulate(LOADS[name], *IN_FORCE, 1000.0), "samples"))
    for levels in OTHERS:
        found = made.of(Limits(*levels))
        low, high = found.low.blocked_seconds, found.high.blocked_seconds
        assert high - low <= 0.25 * high + 120, f"{levels}: {low:.0f} to {high:.0f} s"


@pytest.mark.parametrize("source", ["samples", "minutes"])
@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("name", LOADS)
def test_recommended_capacity_avoids_in_the_oracle_what_it_claims(name: str, send: float | None, source: str) -> None:
    run = simulate(LOADS[name], *IN_FORCE, send)
    advice = recommend(recorded(run, source))
    if advice.limits is None or advice.simulated is None:
        return
    truth = simulate(LOADS[name], advice.limits.stop_messages, advice.limits.resume_messages, send).blocked_seconds
    assert truth <= advice.simulated.high.blocked_seconds + 0.02 * run.blocked_seconds
    assert advice.limits.stop_messages == round(advice.limits.stop_messages)


@pytest.mark.parametrize("source", ["samples", "minutes"])
@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("steady overload", "add-consumers"), ("slow consumer", "add-consumers"), ("no consumer", "no-consumer")],
)
def test_more_capacity_is_not_recommended_where_it_is_no_remedy(
    name: str, kind: str, send: float | None, source: str
) -> None:
    advice = recommend(recorded(simulate(LOADS[name], *IN_FORCE, send), source))
    assert (advice.kind, advice.limits) == (kind, None)
    assert "no capacity is enough" in advice.text


def test_queue_that_was_overfull_in_the_whole_range_gets_no_capacity_of_a_few_messages_more() -> None:
    """It was overfull before the range and remained so: no rate of the time before a block is known."""
    run = simulate(LOADS["steady overload"], *IN_FORCE, 1000.0)
    late = Run(*(values[6000:] for values in (run.depth, run.came, run.went, run.blocked, run.overfull)))
    advice = recommend(recorded(late, "samples"))
    assert (advice.kind, advice.limits) == ("add-consumers", None)


def test_one_off_overload_gets_the_capacity_that_its_producers_needed() -> None:
    for send in SENDS:
        run = simulate(LOADS["one-off overload"], *IN_FORCE, send)
        advice = recommend(recorded(run, "samples"))
        assert advice.kind == "raise-capacity"
        assert advice.limits is not None
        truth = simulate(LOADS["one-off overload"], advice.limits.stop_messages, advice.limits.resume_messages, send)
        assert truth.blocked_seconds <= 0.05 * run.blocked_seconds


def test_larger_service_than_demand_in_the_end_is_no_cause() -> None:
    load = LOADS["one-off overload"]
    doubled = Load(load.arrivals, load.services * 2)
    assert recommend(recorded(simulate(doubled, *IN_FORCE, 1000.0), "samples")).kind == "none"


def test_caveat_states_the_demand_model() -> None:
    for words in ("drop", "send all of it later", "range", "best half minute", "not a forecast"):
        assert words in CAVEAT
