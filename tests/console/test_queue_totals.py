"""Totals and orders of queues that are updated by changes, against sums and sorts over all rows."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

import pytest

from brokers.admin import ManagedObject
from brokers.model import ObjectName, object_name
from console.links.queue_order import QueueOrders
from console.links.queue_table import QueueTable
from console.links.queue_totals import SUMMED, QueueTotals
from console.live.overview import queue_key, severity_key

STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED", None)
EMPTY = dict.fromkeys(
    [f"effective_{level}_{unit}" for level in ("capacity", "stop", "resume") for unit in ("messages", "bytes")]
)


class Changes:
    """Random changes of a table."""

    def __init__(self, seed: int, queues: int) -> None:
        self.dice = random.Random(seed)
        self.table = QueueTable()
        self.names = [
            object_name("Queue", virtualhost=self.dice.choice(["a", "b", "c"]), name=f"q{n}") for n in range(queues)
        ]

    def values(self) -> dict[str, Any]:
        dice, state = self.dice, self.dice.choice(STATES)
        numbers = {name: dice.choice([None, 0, 1, dice.randrange(1 << 40)]) for name in SUMMED}
        since = {name: dice.choice([None, dice.randrange(5)]) for name in ("overfull_since", "stopped_since")}
        return {"state": state, **numbers, **since, "effective_stop_messages": dice.choice([None, 10])}

    def make(self, number: int) -> None:
        for _ in range(number):
            name, act = self.dice.choice(self.names), self.dice.random()
            if act < 0.3:
                self.table.put(ManagedObject(name, 1, {**EMPTY, **dict(name.keys), **self.values()}))
            elif act < 0.85:
                self.table.merge(name, self.values())
            elif act < 0.97:
                self.table.drop(name)
            else:
                self.drop_host(name)

    def drop_host(self, name: ObjectName) -> None:
        for other in self.names:
            if other["virtualhost"] == name["virtualhost"]:
                self.table.drop(other)


def summed(rows: list[Any]) -> dict[str, Any]:
    """The oracle: totals of all rows, from nothing."""
    states = Counter(row["state"] for row in rows)
    found: dict[str, Any] = {"queues": len(rows)}
    found["overfull_queues"] = states["OVERFULL"] + states["OVERFULL_STOPPED"]
    found["stopped_queues"] = states["STOPPED"] + states["OVERFULL_STOPPED"]
    for name in SUMMED:
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = sum(known) if known or not rows else None
    return found


@pytest.mark.parametrize("seed", range(20))
def test_totals_and_orders_equal_those_of_all_rows_after_any_changes(seed: int) -> None:
    changes = Changes(seed, queues=[1, 5, 60][seed % 3])
    orders = QueueOrders(changes.table, lambda: 0, Lock())
    keys = [severity_key, queue_key("-depth_messages"), queue_key("name"), queue_key("-state,virtualhost")]
    for _ in range(60):
        changes.make(changes.dice.choice([0, 1, 3, 40]))
        rows = changes.table.rows()
        for host in ("a", "b", "c"):
            here = [row for row in rows if row["virtualhost"] == host]
            totals = changes.table.totals.get(host, QueueTotals())
            assert totals.values == summed(here)
            unknown = [name for name in SUMMED if any(row[name] is None for row in here)]
            stateless = any(row["state"] is None for row in here)
            assert totals.partial == ["overfull_queues", "stopped_queues"] * stateless + unknown
        assert set(changes.table.totals) == {row["virtualhost"] for row in rows}, "a host without queues is gone"
        everything = QueueTotals()
        for totals in changes.table.totals.values():
            everything.include(totals)
        assert everything.values == summed(rows)
        for key in changes.dice.sample(keys, 2):  # an order catches up with several rounds at once
            names = [row["object"] for row in sorted(rows, key=key)]
            assert [name for _, name in orders.placed(key)] == names


def test_order_that_was_not_used_for_some_time_ends_and_records_no_changes() -> None:
    now, changes = [0], Changes(1, 10)
    orders = QueueOrders(changes.table, lambda: now[0], Lock(), most=2, unused=1000)
    by_name = queue_key("name")
    orders.placed(severity_key)
    orders.placed(by_name)
    now[0] = 900
    orders.placed(by_name)
    now[0] = 1500
    orders.end_unused()
    assert len(orders) == len(changes.table._recorded) == 1
    for sort in ("-name", "state", "-state"):
        orders.placed(queue_key(sort))
    assert len(orders) == len(changes.table._recorded) == 2, "at most two, however many sorts are used"


def test_writer_of_the_table_does_not_wait_for_keys() -> None:
    lock, changes = Lock(), Changes(2, 40)
    computed = []

    def key(row: Any) -> tuple[Any, ...]:
        assert lock.acquire(blocking=False), "the table is locked while keys are computed"
        lock.release()
        computed.append(row)
        return severity_key(row)

    orders = QueueOrders(changes.table, lambda: 0, lock)
    for _ in range(20):
        changes.make(5)
        rows = changes.table.rows()
        assert [name for _, name in orders.placed(key)] == [row["object"] for row in sorted(rows, key=severity_key)]
    assert computed


def test_orders_catch_up_with_a_writer_of_another_thread() -> None:
    lock, changes = Lock(), Changes(3, 60)
    orders = QueueOrders(changes.table, lambda: 0, lock)
    keys = [severity_key, queue_key("-depth_messages")]
    begun, ended = Event(), Event()

    def write() -> None:
        for _ in range(300):
            with lock:
                changes.make(3)
            begun.set()
        ended.set()

    def read() -> None:
        while not ended.is_set():
            for key in keys:
                placed = orders.placed(key)
                assert [each for each, _ in placed] == sorted(each for each, _ in placed)
            orders.end_unused()

    with ThreadPoolExecutor(3) as threads:
        working = [threads.submit(write), threads.submit(read), threads.submit(read)]
        assert begun.wait(60)
        for each in working:
            each.result()
    for key in keys:
        names = [row["object"] for row in sorted(changes.table.rows(), key=key)]
        assert [name for _, name in orders.placed(key)] == names


def test_equal_sorts_share_an_order() -> None:
    assert queue_key("-depth_messages") is queue_key("-depth_messages")
