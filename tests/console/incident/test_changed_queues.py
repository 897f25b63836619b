"""Of the queues that change, conditions look only at those that may have findings: with the same result as for all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from brokers.admin import ManagedObject
from brokers.model import object_name
from console.conditions import active
from console.conditions.active import ActiveConditions
from console.conditions.detectors import broker_findings
from tests.console.test_clock_steps import HOUR, Machine

START = 1_700_000_000_000
NAMES = [object_name("Queue", virtualhost=host, name=f"q{n}") for n in range(8) for host in "ab"]


class Site:
    """A broker with random traffic, and beside its conditions those of all queues that have changed (`every`)."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.machine = Machine()
        self.state = self.machine.state
        self.changed = self.state.table.record_changes()
        self.every = ActiveConditions()
        self.counters = {name: [0, 0] for name in NAMES}
        self.at = START
        for name in NAMES:
            self.put(name)

    def values(self, name: Any) -> dict[str, Any]:
        dice, counters = self.dice, self.counters[name]
        for place in range(2):
            counters[place] += dice.choice([0, 0, 1, 5, 40])
        depth = dice.choice([0, 3, 60, 95, 101, 130, 2000])
        state = dice.choice(["NORMAL", "NORMAL", "NORMAL", "OVERFULL", "STOPPED", None])
        return {
            "state": state,
            "depth_messages": depth,
            "depth_bytes": 10 * depth,
            "enqueued_messages": counters[0],
            "dequeued_messages": counters[1],
            "blocked_producers": dice.choice([0, 0, 2]) if state != "OVERFULL" else 2,
            "producers": 2,
            "consumers": dice.choice([0, 1]),
            "unacknowledged_messages": dice.choice([0, 2]),
            "effective_capacity_messages": 100,
            "effective_stop_messages": dice.choice([0, 100, 100]),
            "effective_resume_messages": 80,
        }

    def put(self, name: Any) -> None:
        self.state.table.put(ManagedObject(name, 1, {**dict(name.keys), **self.values(name)}))

    def sample(self, seconds: float) -> None:
        self.at += int(1000 * seconds)
        self.machine.passes(int(1000 * seconds))
        self.state.update_broker_clock(self.at)
        found = tuple((name, self.values(name)) for name in self.dice.sample(NAMES, self.dice.randrange(len(NAMES))))
        for name, values in found:
            self.state.trends.take(str(name), self.at, values)
        self.state.table.merge_all(found)

    def event(self) -> None:
        name, act = self.dice.choice(NAMES), self.dice.random()
        if act < 0.4:
            for conditions in (self.state.active_conditions, self.every):
                conditions.became_overfull(str(name), self.at)
            self.state.table.merge(name, {"state": "OVERFULL"})
        elif act < 0.5:
            for conditions in (self.state.active_conditions, self.every):
                conditions.broke_flow_control(str(name), self.at, "sent without credit")
        elif act < 0.7:
            self.state.table.drop(name)
            self.state.trends.drop(str(name))
        else:
            self.put(name)

    def set_clock(self, by: int) -> None:
        self.at += by
        self.state.update_broker_clock(self.at)
        self.every.shift(by)

    def look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state.answered(self.state.clock.now())
        self.state.put_broker({"memory_limit_bytes": 100, "memory_used_bytes": self.dice.choice([10, 90])})
        self.state.update_conditions()
        rows = {name: self.state.table.row(name) for name in self.changed | self.every.watched}
        gone = set(self.changed)
        self.changed.clear()
        with monkeypatch.context() as without:
            without.setattr(active, "is_ordinary", lambda row, growth: False)
            now = self.state.broker_now
            for _ in self.every.update(
                [row for row in rows.values() if row is not None],
                lambda queue: self.state.trends.of(queue, now),
                now,
                gone=[name for name in gone if rows[name] is None],
                others=list(broker_findings(self.state.broker or {})),
            ):
                pass


@pytest.mark.parametrize("seed", range(40))
def test_conditions_equal_those_of_all_queues_that_have_changed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    site, seen = Site(seed), set()
    for _ in range(120):
        site.sample(site.dice.choice([0.2, 1, 1, 1, 1, 4]))
        for _ in range(site.dice.choice([0, 0, 1, 3])):
            site.event()
        if site.dice.random() < 0.02:
            site.set_clock(site.dice.choice([HOUR, -HOUR]))
        if site.dice.random() < 0.8:  # several samples may come between two updates
            site.look(monkeypatch)
            assert site.state.active_conditions.conditions == site.every.conditions
            seen |= {condition.finding.kind for condition in site.every.conditions}
    assert {"near-limit", "outside-flow-control", "blocked-without-consumer"} <= seen


def test_ordinary_queues_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all queues that change are ordinary: conditions cost nothing for them."""
    machine = Machine()
    normal = {"state": "NORMAL", "depth_messages": 3, "depth_bytes": 30, "effective_stop_messages": 100}
    for name in NAMES:
        machine.state.table.put(ManagedObject(name, 1, {**dict(name.keys), **normal}))
    looked_at: list[str] = []
    rates = machine.state.trends.of
    monkeypatch.setattr(machine.state.trends, "of", lambda queue, now: looked_at.append(queue) or rates(queue, now))
    machine.state.table.merge_all([(name, {"depth_messages": 4}) for name in NAMES])
    machine.look()
    assert looked_at == []
    machine.state.table.merge_all([(name, {"depth_messages": 5}) for name in NAMES[1:]])
    machine.state.table.merge(NAMES[0], {"state": "OVERFULL"})
    machine.look()
    assert looked_at == [str(NAMES[0])]
