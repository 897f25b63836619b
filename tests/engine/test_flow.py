"""The flow table: every state with every input, and what a depth says about limits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.flow.table import TABLE, Change, Input, State, measure, overfull_reason, step, stop_reason
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.model import QUEUE_STATES

EVERY = list(product(State, Input))

#: The naive model: what an input makes of the two bits (overfull, stopped).
BITS = {
    Input.ABOVE_STOP: lambda overfull, stopped: (True, stopped),
    Input.AT_RESUME: lambda overfull, stopped: (False, stopped),
    Input.STOP: lambda overfull, stopped: (overfull, True),
    Input.START: lambda overfull, stopped: (overfull, False),
}


def bits(state: State) -> tuple[bool, bool]:
    return state.overfull, state.stopped


def test_states_are_the_four_combinations_of_two_independent_bits():
    assert {bits(s) for s in State} == set(product((False, True), repeat=2))
    assert tuple(s.value for s in State) == QUEUE_STATES


@pytest.mark.parametrize(("state", "seen"), EVERY)
def test_any_input_in_any_state_sets_its_own_bit_and_leaves_the_other(state, seen):
    after, _ = step(state, seen)
    assert bits(after) == BITS[seen](*bits(state))


@pytest.mark.parametrize(("state", "seen"), EVERY)
def test_input_given_twice_changes_nothing_the_second_time(state, seen):
    once, _ = step(state, seen)
    assert step(once, seen) == (once, None)


@pytest.mark.parametrize(("state", "seen"), EVERY)
def test_change_is_returned_exactly_when_a_bit_changed(state, seen):
    after, change = step(state, seen)
    expected = {
        None: (0, 0),
        Change.OVERFULL_BEGAN: (1, 0),
        Change.OVERFULL_ENDED: (-1, 0),
        Change.STOP_BEGAN: (0, 1),
        Change.STOP_ENDED: (0, -1),
    }[change]
    assert (after.overfull - state.overfull, after.stopped - state.stopped) == expected


def test_table_has_every_transition_and_no_idle_entry():
    moving = {(s, i) for s, i in EVERY if BITS[i](*bits(s)) != bits(s)}
    assert set(TABLE) == moving
    assert len(TABLE) == 8


@given(st.lists(st.sampled_from(Input)))
def test_no_sequence_of_inputs_loses_a_change(inputs):
    state, overfull, stopped = State.NORMAL, False, False
    for seen in inputs:
        state, change = step(state, seen)
        if change in (Change.OVERFULL_BEGAN, Change.OVERFULL_ENDED):
            assert overfull is (change is Change.OVERFULL_ENDED)
            overfull = not overfull
        elif change is not None:
            assert stopped is (change is Change.STOP_ENDED)
            stopped = not stopped
        assert bits(state) == (overfull, stopped)


levels = st.one_of(st.integers(0, 50), st.just(UNLIMITED))


@st.composite
def limits(draw):
    stops = draw(levels), draw(levels)
    resumes = [s if s == UNLIMITED else draw(st.integers(0, s)) for s in stops]
    return Limits(stop_bytes=stops[0], resume_bytes=resumes[0], stop_messages=stops[1], resume_messages=resumes[1])


@pytest.mark.domain("1 flow_stop_threshold")
@given(limits(), st.integers(0, 60), st.integers(0, 60))
def test_depth_is_above_stop_on_either_count_and_at_resume_on_both(limits, size, messages):
    above = size > limits.stop_bytes or messages > limits.stop_messages
    resume = size <= limits.resume_bytes and messages <= limits.resume_messages
    assert not (above and resume)
    expected = Input.ABOVE_STOP if above else Input.AT_RESUME if resume else None
    assert measure(limits, size, messages) is expected


@pytest.mark.domain("2 overfull")
def test_depth_exactly_at_the_stop_level_is_not_overfull():
    at = Limits(stop_bytes=1000, resume_bytes=800, stop_messages=10, resume_messages=8)
    assert measure(at, 1000, 10) is None
    assert measure(at, 1001, 10) is Input.ABOVE_STOP
    assert measure(at, 1000, 11) is Input.ABOVE_STOP


@pytest.mark.domain("1 flow_resume_threshold")
def test_depth_at_one_resume_level_only_is_not_underfull():
    at = Limits(stop_bytes=1000, resume_bytes=800, stop_messages=10, resume_messages=8)
    assert measure(at, 800, 9) is None
    assert measure(at, 801, 8) is None
    assert measure(at, 800, 8) is Input.AT_RESUME


def test_reasons_name_the_queue_and_the_scope():
    assert overfull_reason("orders") == "queue-overfull:orders"
    assert stop_reason("virtualhost default orders.*") == "operator-stop:virtualhost default orders.*"
