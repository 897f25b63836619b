"""Stops of many queues of Broker-J are undone together: one queue that fails delays and hinders no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokers.adapters import broker_j_stops
from brokers.adapters.adapter import Faults, StopTarget
from brokers.adapters.broker_j_limits import BLOCKS, REJECTS, RING, UNLIMITED, QueueLimits, restored, stopped
from brokers.adapters.broker_j_stops import undo
from brokers.adapters.http import HttpError
from brokers.admin import NotFound, TryAgain
from brokers.model import ObjectName
from tests.adapters.fake import queue_name

BLOCKING = QueueLimits(BLOCKS, 50, UNLIMITED)
DROPPING = QueueLimits(RING, 50, UNLIMITED)


class BrokerJ:
    """Its queues as names -> limits. `stuck`: queues that do not release their producers. `faults`: queues whose change
    fails."""

    def __init__(self, **before: QueueLimits) -> None:
        self.targets = [
            StopTarget(name, frozenset([queue_name(name)]), each.as_json()) for name, each in before.items()
        ]
        self.limits = {name: stopped(each) for name, each in before.items()}
        self.stuck: set[str] = set()
        self.faults: dict[str, Exception] = {}
        self.looks = 0

    async def change(self, name: ObjectName, attributes: Mapping[str, Any]) -> None:
        if fault := self.faults.get(name["name"]):
            raise fault
        self.limits[name["name"]] = QueueLimits.of({**self.limits[name["name"]].as_json(), **attributes})

    async def blocking(self) -> set[ObjectName]:
        self.looks += 1
        return {queue_name(n) for n, each in self.limits.items() if n in self.stuck or each.messages == 0}

    async def start(self, seconds: float = 0.0) -> Faults:
        now = {queue_name(name): each for name, each in self.limits.items()}
        return await undo(self.targets, now, change=self.change, blocking=self.blocking, seconds=seconds)


@pytest.mark.parametrize("status", [403, 409, 500])
async def test_a_queue_that_is_refused_hinders_no_other(status: int) -> None:
    broker = BrokerJ(a=DROPPING, b=DROPPING, c=BLOCKING)
    broker.faults["a"] = HttpError(f"answered {status}", status, "")
    assert {id_: str(error) for id_, error in (await broker.start()).items()} == {"a": f"answered {status}"}
    assert broker.limits == {"a": stopped(DROPPING), "b": DROPPING, "c": BLOCKING}


async def test_a_queue_that_does_not_release_its_producers_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_j_stops, "_LOOK", 0.0)
    broker = BrokerJ(a=DROPPING, b=DROPPING, c=DROPPING)
    broker.stuck = {"a", "c"}
    faults = await broker.start(seconds=-1.0)
    assert list(faults) == ["a", "c"]
    assert all(isinstance(error, TryAgain) for error in faults.values())
    assert broker.looks == 1  # one for all
    lifted = QueueLimits(BLOCKS, UNLIMITED, UNLIMITED)  # blocked producers need the policy that blocks until then
    assert broker.limits == {"a": lifted, "b": DROPPING, "c": lifted}
    broker.stuck = set()
    assert await broker.start(seconds=-1.0) == {}
    assert broker.limits == {"a": DROPPING, "b": DROPPING, "c": DROPPING}


async def test_queues_that_are_gone_or_have_limits_of_another_client_are_left_alone() -> None:
    broker = BrokerJ(a=DROPPING, b=DROPPING, c=BLOCKING)
    broker.limits["b"] = QueueLimits(RING, 7, UNLIMITED)
    broker.faults["a"] = NotFound("deleted meanwhile")
    del broker.limits["c"]
    assert await broker.start() == {}
    assert broker.limits["b"] == QueueLimits(RING, 7, UNLIMITED)


@pytest.mark.parametrize("before", [BLOCKING, DROPPING, QueueLimits(REJECTS, 50, 900)])
def test_what_another_client_changes_during_a_stop_is_restored_and_the_steps_of_a_stop_are_not(
    before: QueueLimits,
) -> None:
    stop = stopped(before)
    for step in (stop, replace(before, policy=BLOCKS), QueueLimits(BLOCKS, UNLIMITED, UNLIMITED), before):
        assert restored(step, before) == before
    theirs = QueueLimits(REJECTS, 1_000, 70)
    assert restored(theirs, before) == theirs
    assert restored(replace(stop, bytes=70), before) == replace(before, bytes=70)
    assert restored(replace(stop, policy=REJECTS), before) == replace(before, policy=REJECTS)  # 0 is the stop's


async def test_a_start_leaves_what_another_client_has_changed_and_removes_what_is_of_the_stop() -> None:
    broker = BrokerJ(a=BLOCKING, b=DROPPING)
    broker.limits["a"] = replace(broker.limits["a"], bytes=70)
    broker.limits["b"] = replace(broker.limits["b"], policy=REJECTS)
    assert await broker.start() == {}
    assert broker.limits == {"a": replace(BLOCKING, bytes=70), "b": replace(DROPPING, policy=REJECTS)}
