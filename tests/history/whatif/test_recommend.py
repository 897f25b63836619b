"""Recommendations: causes, room, whole numbers, and comparison with the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.history.whatif.recommend import Room, recommend
from console.history.whatif.recording import Blocked, Consumers, Recording
from console.history.whatif.replay import Limits
from tests.history.whatif.simulation import simulate
from tests.history.whatif.test_against_simulation import IN_FORCE, LOADS, recorded

OVERLOAD = recorded(simulate(LOADS["one-off overload"], *IN_FORCE, 1000.0), "samples")
AWAY = recorded(simulate(LOADS["consumer away"], *IN_FORCE, None), "samples")
QUIET = recorded(simulate(LOADS["quiet"], *IN_FORCE, None), "samples")


def with_consumers(recording: Recording, most: float, unacknowledged: float) -> Recording:
    return replace(recording, consumers=Consumers(most, unacknowledged))


def test_queue_that_had_no_consumer_while_overfull_needs_one() -> None:
    advice = recommend(with_consumers(AWAY, 0, 0.0))
    assert (advice.kind, advice.limits) == ("no-consumer", None)
    assert "had no consumer while it was overfull" in advice.text


def test_consumers_that_do_not_acknowledge_are_the_cause() -> None:
    advice = recommend(with_consumers(AWAY, 1, 0.9))
    assert (advice.kind, advice.limits) == ("unacknowledged", None)
    assert "consumers had received 90% of the messages" in advice.text


def test_pause_of_the_consumers_is_absorbed_by_a_capacity() -> None:
    advice = recommend(with_consumers(AWAY, 1, 0.0))
    assert advice.kind == "raise-capacity"
    assert advice.limits is not None
    # 400 s without consumption beside 10 messages/s.
    assert advice.limits.stop_messages == pytest.approx(4000, rel=0.15)


def test_recommended_levels_are_whole_numbers_in_the_same_proportion() -> None:
    odd = replace(OVERLOAD, current=Limits(301, 199, 0, 0))
    limits = recommend(odd).limits
    assert limits is not None
    assert limits.stop_messages % 100 == 0
    assert limits.resume_messages == int(limits.resume_messages)
    assert limits.resume_messages / limits.stop_messages == pytest.approx(199 / 301, rel=0.01)


def test_recommendation_states_what_it_costs_and_compares_with_the_record() -> None:
    advice = recommend(OVERLOAD)
    assert "of the recorded overfull time of 28 min 46 s" in advice.text
    assert "more than recorded" in advice.text
    assert "now 300 messages" in advice.text


def test_capacity_for_which_the_broker_has_no_room_is_not_recommended() -> None:
    rooms = (Room("memory", 1e9), Room("store", 100_000.0))
    advice = recommend(OVERLOAD, rooms)
    assert (advice.kind, advice.limits) == ("no-room", None)
    assert "the broker's store has 100 kB free below its limit" in advice.text
    assert recommend(OVERLOAD, rooms[:1]).kind == "raise-capacity"


def test_blocked_producers_of_a_queue_that_was_not_overfull_are_mentioned() -> None:
    assert recommend(QUIET).text == "The queue was not overfull."
    elsewhere = recommend(replace(QUIET, blocked=Blocked(797.0, 1.0)))
    assert elsewhere.kind == "none"
    assert "Its producers were blocked for 13 min 17 s, by stops, by other queues" in elsewhere.text


def test_overfull_time_under_limits_that_were_raised_since_is_not_denied() -> None:
    advice = recommend(replace(OVERLOAD, current=Limits(1e6, 8e5), is_constant=False))
    assert advice.kind == "none"
    assert "was overfull for 28 min 46 s, under other limits" in advice.text


def test_flapping_queue_gets_a_lower_resume_level() -> None:
    run = simulate(LOADS["steady overload"], 300, 297, 60.0)
    flapping = recorded(run, "samples", (300, 297))
    # Consumers that are too slow are the more urgent cause; without them the flapping is.
    assert recommend(flapping).kind == "add-consumers"
    load = LOADS["one-off overload"]
    advice = recommend(recorded(simulate(load, 300, 297, None), "samples", (300, 297)))
    assert advice.kind == "lower-resume"
    assert advice.limits is not None
    assert advice.limits.resume_messages < 297
    without = recommend(recorded(simulate(load, 300, 297, None), "samples", (300, 297)), resumes=False)
    assert without.kind != "lower-resume", "where no resume level can be set"


def test_capacity_never_reached_in_a_week_is_reported() -> None:
    seconds = QUIET.intervals.seconds * 200
    week = replace(QUIET, intervals=replace(QUIET.intervals, seconds=seconds), current=Limits(100_000, 80_000))
    assert recommend(week).kind == "never-reached"
    assert recommend(replace(QUIET, current=Limits(100_000, 80_000))).kind == "none"  # an hour is not enough


def test_queue_without_a_limit_is_reported() -> None:
    unlimited = replace(QUIET, current=Limits(), peak_messages=3.0, peak_bytes=2048.0)
    assert recommend(unlimited).text == "No capacity is set. Highest depth: 3 messages, 2.0 kB."
