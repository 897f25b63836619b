"""The clock is set by an hour, forward or back: durations stay, and displayed times are the current time of day."""

from __future__ import annotations

import pytest

from brokers.admin import ManagedObject
from brokers.model import object_name
from brokers.steady_clock import SteadyClock
from console.links.state import SILENT, BrokerState

HOUR = 3_600_000
NS = 1_000_000  # in 1 ms
NOW = 1_800_000_000_000
ORDERS = object_name("Queue", virtualhost="default", name="orders")
BOTH_WAYS = pytest.mark.parametrize("by", [HOUR, -HOUR])


class Machine:
    """A machine with a settable clock and a monotonic clock, on which a broker runs, too."""

    def __init__(self) -> None:
        self.day, self.steady = NOW, 5_000
        self.state = BrokerState("local", 100, SteadyClock(lambda: self.day * NS, lambda: self.steady * NS))
        self.state.connected_now(self.state.clock.now())
        self.state.update_broker_clock(self.day)

    def set_clock(self, by: int) -> None:
        self.day += by

    def passes(self, ms: int) -> None:
        self.day += ms
        self.steady += ms

    def look(self) -> list[str]:
        """The broker responds with its time, and the console evaluates conditions."""
        self.state.answered(self.state.clock.now())
        self.state.update_broker_clock(self.day)
        self.state.update_conditions()
        return [condition.finding.kind for condition in self.state.conditions()]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def blocked(machine: Machine, consumers: int = 0) -> None:
    """A queue without consumers: a condition that is raised after four seconds and cleared after two."""
    attributes = {
        "virtualhost": "default", "name": "orders", "state": "OVERFULL", "blocked_producers": 1, "consumers": consumers,
        "producers": 1, "depth_messages": 20, "depth_bytes": 20, "effective_stop_messages": 10,
    }  # fmt: skip
    machine.state.table.put(ManagedObject(ORDERS, 1, attributes))


@pytest.mark.domain("9 clock steps")
@BOTH_WAYS
def test_condition_is_raised_after_its_minimum_duration(machine: Machine, by: int) -> None:
    blocked(machine)
    assert machine.look() == []
    machine.passes(1000)
    machine.set_clock(by)
    machine.state.update_conditions()  # before the broker has sent its time
    assert machine.state.conditions() == []
    for _ in range(2):
        machine.passes(1000)
        assert machine.look() == [], "it has not lasted for four seconds"
    machine.passes(1000)
    assert machine.look() == ["blocked-without-consumer"]
    assert machine.state.conditions()[0].since == machine.day - 4000, "by the clock as it is now"


@BOTH_WAYS
def test_active_condition_continues_and_ends_in_time(machine: Machine, by: int) -> None:
    blocked(machine)
    machine.look()
    machine.passes(5000)
    assert machine.look() == ["blocked-without-consumer"]
    machine.set_clock(by)
    machine.passes(1000)
    assert machine.look() == ["blocked-without-consumer"]
    blocked(machine, consumers=1)
    machine.passes(1000)
    assert machine.look() == ["blocked-without-consumer"], "it does not flicker"
    machine.set_clock(-by)
    machine.passes(1000)
    assert machine.look() == []


@BOTH_WAYS
def test_recent_events_and_rates_are_not_affected(machine: Machine, by: int) -> None:
    trends, conditions = machine.state.trends, machine.state.active_conditions
    count = 0
    for _ in range(10):
        machine.passes(1000)
        count += 50
        machine.state.update_broker_clock(machine.day)
        trends.take("orders", machine.day, sample(count))
    conditions.became_overfull("orders", machine.day)
    conditions.broke_flow_control("orders", machine.day, "said")
    before = trends.of("orders", machine.state.broker_now)
    machine.set_clock(by)
    assert trends.of("orders", machine.state.broker_now) == before, "the broker has not sent its time yet"
    machine.state.update_broker_clock(machine.day)
    assert trends.of("orders", machine.state.broker_now) == before
    assert (conditions._overfull["orders"][0], conditions._broken["orders"][0]) == (machine.day, (machine.day, "said"))
    machine.passes(1000)
    machine.state.update_broker_clock(machine.day)
    trends.take("orders", machine.day, sample(count + 50))
    after = trends.of("orders", machine.state.broker_now)
    assert after.messages_in == pytest.approx(50, rel=0.05)
    assert after.observed_ms == before.observed_ms + 1000


def sample(count: int) -> dict[str, int]:
    return {"enqueued_messages": count, "dequeued_messages": 0, "depth_bytes": 100 * count}


@BOTH_WAYS
def test_age_of_a_snapshot_is_the_time_since_the_broker_responded(machine: Machine, by: int) -> None:
    machine.passes(1500)
    assert machine.state.as_of == machine.day - 1500
    machine.set_clock(by)
    assert machine.state.as_of == machine.day - 1500
    assert machine.state.status.since == machine.day - 1500
    machine.state.lost("it has gone")
    machine.passes(2000)
    machine.set_clock(-by)
    assert machine.state.status.since == machine.day - 2000
    assert machine.state.as_of == machine.day - 3500


@BOTH_WAYS
def test_only_a_silent_broker_is_disconnected(machine: Machine, by: int) -> None:
    blocked(machine)
    looks: list[int] = []
    conditions = machine.state.active_conditions
    conditions.update = lambda *a, **k: iter([looks.append(1)])  # type: ignore[method-assign,func-returns-value]
    machine.set_clock(by)
    machine.state.update_conditions()
    assert len(looks) == 1
    machine.passes(SILENT + 1)
    machine.state.update_conditions()
    assert len(looks) == 1


@BOTH_WAYS
def test_time_since_a_queue_changed_is_not_affected(machine: Machine, by: int) -> None:
    machine.state.table._changed[str(ORDERS)] = machine.state.clock.now()
    machine.passes(1000)
    machine.set_clock(by)
    assert machine.state.unchanged_since(str(ORDERS)) == machine.day - 1000


def test_late_samples_are_not_a_clock_step(machine: Machine) -> None:
    blocked(machine)
    machine.look()
    machine.passes(4000)
    machine.state.update_broker_clock(machine.day - 3000)
    assert machine.look() == ["blocked-without-consumer"]
