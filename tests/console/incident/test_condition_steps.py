"""Conditions of thousands of queues are detected in steps: with the same result, whatever happens in between."""

from __future__ import annotations

from brokers.admin import ManagedObject
from brokers.model import object_name
from console.conditions.active import STEP
from console.links.state import BrokerState
from tests.console.test_clock_steps import HOUR, Machine

MANY = 3 * STEP


def blocked(machine: Machine, number: int, consumers: int = 0) -> None:
    """A queue without consumers: a condition after four seconds."""
    name = object_name("Queue", virtualhost="default", name=f"q{number}")
    attributes = {
        "virtualhost": "default", "name": f"q{number}", "state": "OVERFULL", "blocked_producers": 1, "producers": 1,
        "consumers": consumers, "depth_messages": 20, "depth_bytes": 20, "effective_stop_messages": 10,
    }  # fmt: skip
    machine.state.table.put(ManagedObject(name, 1, attributes))


def found(state: BrokerState) -> set[str]:
    return {condition.finding.object.rpartition("=")[2] for condition in state.conditions()}


def pass_seconds(machine: Machine, seconds: int) -> None:
    for _ in range(seconds):
        machine.passes(1000)
        machine.look()


def every(*numbers: int) -> set[str]:
    return {f"q{number}" for number in numbers}


def test_steps_are_bounded_and_conditions_change_at_the_end() -> None:
    machine = Machine()
    for number in range(MANY):
        blocked(machine, number)
    machine.look()
    pass_seconds(machine, 3)
    machine.passes(1000)
    machine.state.answered(machine.state.clock.now())
    steps = machine.state.update_conditions_in_steps()
    seen = [found(machine.state) for _ in steps]
    assert len(seen) == 3
    assert not any(seen)
    assert found(machine.state) == every(*range(MANY))


def test_queues_of_an_update_that_is_abandoned_are_processed_by_the_next() -> None:
    machine = Machine()
    for number in range(MANY):
        blocked(machine, number)
    steps = machine.state.update_conditions_in_steps()
    next(steps)
    steps.close()  # the connection was lost
    pass_seconds(machine, 5)
    assert found(machine.state) == every(*range(MANY))


def test_queues_that_change_between_two_steps_are_processed_by_the_next_update() -> None:
    machine = Machine()
    for number in range(MANY):
        blocked(machine, number)
    machine.look()
    pass_seconds(machine, 4)
    for number in range(MANY):
        blocked(machine, number, consumers=1)
    steps = machine.state.update_conditions_in_steps()
    next(steps)
    machine.state.table.drop(object_name("Queue", virtualhost="default", name="q1"))
    blocked(machine, 2)
    for _ in steps:
        pass
    blocked(machine, MANY)
    pass_seconds(machine, 10)
    assert found(machine.state) == every(2, MANY)


def test_clock_that_is_set_between_two_steps_raises_nothing_early() -> None:
    for by in (HOUR, -HOUR):
        machine = Machine()
        for number in range(MANY):
            blocked(machine, number)
        steps = machine.state.update_conditions_in_steps()
        next(steps)
        machine.set_clock(by)
        machine.state.update_broker_clock(machine.day)
        for _ in steps:
            pass
        pass_seconds(machine, 3)
        assert found(machine.state) == set(), "none has lasted for four seconds"
        pass_seconds(machine, 3)
        assert found(machine.state) == every(*range(MANY))
