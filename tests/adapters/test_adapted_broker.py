"""A broker behind the adapters' core, as a console uses it: with a poller on a clock of its own, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from brokers.adapters.observation import Observation, Reported
from brokers.admin import (
    BrokerUnreachable,
    EffectNotConfirmed,
    EventsExpired,
    InvalidValue,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName, object_name
from tests.adapters.fake import BROKER, STOPPED, Has, Memory, queue_name
from tests.adapters.process import Process, settled


@pytest_asyncio.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    memory = Memory()
    memory.add("orders", 10)
    memory.add("bills", 5, depth=6)
    process = Process(tmp_path, memory)
    await process.clock.pass_(0)
    yield process
    await process.close()


ORDERS, BILLS = queue_name("orders"), queue_name("bills")


async def test_what_is_there_at_first_is_no_event(process: Process) -> None:
    assert process.kinds() == []
    assert (await process.broker.read(BILLS))["state"] == "OVERFULL"
    assert (await process.broker.query("Queue", sort="-depth_messages")).items[0].name == BILLS
    assert (await process.broker.read(BROKER))["queues"] == 2


async def test_what_no_stop_covers_has_none_and_is_not_unknown(process: Process) -> None:
    host = object_name("VirtualHost", name="default")
    for name in (ORDERS, BROKER, host):
        assert (await process.broker.read(name))["stops"] == []
    process.memory.add("new", 5)
    await process.clock.pass_(60)
    assert (await process.broker.read(queue_name("new")))["stops"] == []
    await process.broker.call(ORDERS, "stop-producers", {"reason": "flood", "actor": "ada"})
    await process.clock.pass_(5)
    for name in (ORDERS, BROKER, host):
        assert len((await process.broker.read(name))["stops"]) == 1
    assert (await process.broker.read(BILLS))["stops"] == []
    await process.broker.call(ORDERS, "start-producers", {"actor": "ada"})
    await process.clock.pass_(5)
    for name in (ORDERS, BILLS, BROKER, host):
        assert (await process.broker.read(name))["stops"] == []


async def test_queue_that_fills_and_drains_is_two_events_with_the_time_of_observation(process: Process) -> None:
    process.memory.depths[ORDERS] = 11
    await process.clock.pass_(5)
    process.memory.depths[ORDERS] = 10
    await process.clock.pass_(5)
    full, drained = process.events()
    assert (full.kind, full.attributes["state"], full.attributes["depth_messages"]) == (
        "queue-overfull",
        "OVERFULL",
        11,
    )
    assert full.text.startswith("[vh(/default)/qu(orders)] QUE-1003 : Overfull :")
    assert full.attributes["seen_at"] == full.at
    assert (drained.kind, drained.attributes["overfull_ms"]) == ("queue-underfull", 5000)


async def test_restart_of_the_process_finds_what_happened_meanwhile_and_repeats_nothing(process: Process) -> None:
    process.memory.depths[ORDERS] = 11
    await process.clock.pass_(5)
    before = process.kinds()
    await process.restart()
    assert process.kinds() == before == ["queue-overfull orders"]
    await process.close()
    process.memory.depths[ORDERS] = 0
    process.memory.add("new", 3, depth=4)
    process.memory.limits.pop(BILLS)
    process.memory.limits[ORDERS] = 12
    process.open()
    await process.clock.pass_(0)
    assert sorted(process.kinds()[1:]) == [
        "policy-changed orders",
        "queue-created new",
        "queue-deleted bills",
        "queue-overfull new",
        "queue-underfull orders",
    ]
    assert [event.number for event in process.events()] == list(range(1, 7))


async def test_broker_that_does_not_answer_is_unreachable_and_never_empty(process: Process) -> None:
    events, samples = process.broker.events(), process.broker.samples()
    await process.clock.pass_(1)
    await anext(samples)
    process.memory.up = False
    await process.clock.pass_(2)
    for stream in (events, samples):
        with pytest.raises(BrokerUnreachable, match="does not answer"):
            await anext(stream)
    with pytest.raises(BrokerUnreachable):
        await process.broker.query("Queue")
    process.memory.up = True
    process.memory.depths[ORDERS] = 11
    await process.clock.pass_(20)
    assert (await process.broker.read(ORDERS))["state"] == "OVERFULL"
    assert process.kinds() == ["queue-overfull orders"]


async def test_reader_that_comes_back_gets_the_events_that_it_missed(process: Process) -> None:
    for depth in (11, 0, 11):
        process.memory.depths[ORDERS] = depth
        await process.clock.pass_(5)
    stream = process.broker.events(1)
    assert [(await anext(stream)).number for _ in range(2)] == [2, 3]
    with pytest.raises(EventsExpired):
        await anext(process.broker.events(99))


async def test_slow_reader_of_samples_gets_every_queue_once_with_its_latest_depth(process: Process) -> None:
    stream = process.broker.samples()
    for depth, queue in ((3, ORDERS), (7, BILLS), (4, ORDERS)):
        process.memory.depths[queue] = depth
        await process.clock.pass_(1)
    got = dict((await anext(stream)).queues)
    assert {name["name"]: row["depth_messages"] for name, row in got.items()} == {"orders": 4, "bills": 7}
    assert got[ORDERS]["blocked_producers"] is None  # unknown, and never 0


async def test_changed_limit_is_read_back_and_its_event_has_the_actor(process: Process) -> None:
    before = await process.broker.read(ORDERS)
    after = await process.broker.update(ORDERS, {"capacity_messages": 50}, before.version, actor="ada")
    assert after["capacity_messages"] == 50
    await process.clock.pass_(10)
    (changed,) = process.events()
    assert changed.attributes["actor"] == "ada"
    assert (changed.attributes["before"], changed.attributes["after"]) == (
        {"capacity_messages": 10},
        {"capacity_messages": 50},
    )
    with pytest.raises(StaleVersion) as stale:
        await process.broker.update(ORDERS, {"capacity_messages": 60}, before.version)
    assert stale.value.current == after.version


async def test_change_of_another_client_is_an_event_and_makes_the_version_stale(process: Process) -> None:
    before = await process.broker.read(ORDERS)
    process.memory.limits[ORDERS] = 99
    with pytest.raises(StaleVersion):
        await process.broker.update(ORDERS, {"capacity_messages": 50}, before.version)
    assert process.memory.limits[ORDERS] == 99
    (changed,) = process.events()
    assert "actor" not in changed.attributes
    assert changed.attributes["seen_at"] == changed.at


async def test_stop_of_everything_is_shown_and_lifted(process: Process) -> None:
    answer = await process.broker.call(BROKER, "stop-producers", {"reason": "flood", "actor": "ada", "for_ms": 60_000})
    assert (answer["changed"], answer["queues"], answer["producers"]) == (True, 2, None)
    shown = await process.broker.read(ORDERS)
    assert shown["state"] == "STOPPED"
    assert [(stop["reason"], stop["actor"]) for stop in shown["stops"]] == [("flood", "ada")]
    assert (await process.broker.read(BILLS))["state"] == "OVERFULL_STOPPED"
    await process.clock.pass_(10)
    await process.restart()
    assert (await process.broker.read(ORDERS))["state"] == "STOPPED"
    await process.clock.pass_(60)
    assert (await process.broker.read(ORDERS))["state"] == "NORMAL"
    assert process.memory.limits == {ORDERS: 10, BILLS: 5}
    assert [kind for kind in process.kinds() if kind.startswith("producers")] == [
        "producers-stopped",
        "producers-started",
    ]
    assert (await process.broker.read(BROKER))["stops"] == []


async def test_stop_that_refuses_messages_must_be_named(tmp_path: Path) -> None:
    memory = Memory()
    memory.add("orders")
    process = Process(tmp_path, memory, has=Has(effect="reject"))
    await process.clock.pass_(0)
    with pytest.raises(EffectNotConfirmed, match="refused") as refused:
        await process.broker.call(ORDERS, "stop-producers", {})
    assert refused.value.effect == "reject"
    with pytest.raises(EffectNotConfirmed):
        await process.broker.call(ORDERS, "stop-producers", {"effect": "hold"})
    assert (await process.broker.call(ORDERS, "stop-producers", {"effect": "reject"}))["changed"]
    await process.close()


async def test_requests_that_make_no_sense_are_refused_with_a_sentence(process: Process) -> None:
    broker = process.broker
    with pytest.raises(NotFound, match="no objects of type User"):
        await broker.update(object_name("User", name="x"), {}, 1)
    with pytest.raises(NotFound, match="no operation purge"):
        await broker.call(ORDERS, "purge", {})
    with pytest.raises(NotFound):
        await broker.call(queue_name("nothing"), "stop-producers", {})
    with pytest.raises(InvalidValue, match="has no argument rate"):
        await broker.call(ORDERS, "stop-producers", {"rate": 5})
    with pytest.raises(InvalidValue, match="cannot be changed"):
        await broker.update(ORDERS, {"depth_messages": 0}, 1)
    with pytest.raises(InvalidValue, match="it would end at once"):
        await broker.call(ORDERS, "stop-producers", {"below": 50})
    with pytest.raises(NotAllowed, match="cannot be created"):
        await broker.create(object_name("VirtualHost", name="new"), {})
    with pytest.raises(NotFound, match="not a type"):
        await broker.query("User")


async def test_created_and_deleted_queues(process: Process) -> None:
    made = await process.broker.create(queue_name("new"), {"capacity_messages": 7}, actor="ada")
    assert made["capacity_messages"] == 7
    await process.broker.delete(queue_name("new"), made.version)
    await process.clock.pass_(5)
    assert process.kinds() == ["queue-created new", "queue-deleted new"]


async def test_object_that_one_page_missed_is_not_gone(tmp_path: Path) -> None:
    memory = Memory()
    memory.add("orders")
    process = Process(tmp_path, memory, has=Has(paged=True))
    await process.clock.pass_(0)
    process.adapter.hidden = {ORDERS}
    await process.clock.pass_(5)
    assert (await process.broker.query("Queue")).total == 1
    await process.clock.pass_(5)
    memory.limits.clear()
    await process.clock.pass_(5)
    assert (await process.broker.query("Queue")).total == 1
    await process.clock.pass_(5)
    assert process.kinds() == ["queue-deleted orders"]
    await process.close()


async def test_what_the_broker_reports_is_not_derived_again(process: Process) -> None:
    process.options = {"reports": {"queue-overfull", "queue-underfull"}}
    await process.restart()
    process.memory.depths[ORDERS] = 11
    exact = Reported(
        process.now() - 300, "queue-overfull", ORDERS, "Overfull", {"state": "OVERFULL"}, {"overfull": True}
    )
    process.adapter.events.put_nowait(exact)
    await process.clock.pass_(10)
    (event,) = process.events()
    assert event.at == exact.at
    assert "seen_at" not in event.attributes
    assert (await process.broker.read(ORDERS))["overfull_since"] == exact.at


async def test_poll_is_quick_for_what_changes_and_slow_for_the_rest(process: Process) -> None:
    process.adapter.reads.clear()
    await process.clock.pass_(10)
    assert process.adapter.reads.count("all") == 2
    assert 7 <= process.adapter.reads.count("changing") <= 10


async def test_a_limit_that_is_set_while_a_stop_is_made_is_not_lost_in_it(process: Process) -> None:
    adapter, reached, goes_on = process.adapter, asyncio.Event(), asyncio.Event()
    stop = adapter.stop

    async def slow(targets: Any, **more: Any) -> Any:
        reached.set()
        await goes_on.wait()
        return await stop(targets, **more)

    adapter.stop = slow  # type: ignore[method-assign]
    known = await process.broker.read(ORDERS)
    stopping = asyncio.ensure_future(process.broker.call(ORDERS, "stop-producers", {"actor": "ada"}))
    await reached.wait()
    setting = asyncio.ensure_future(
        process.broker.update(ORDERS, {"capacity_messages": 77}, known.version, actor="ben")
    )
    await settled()
    assert process.memory.limits[ORDERS] == 10
    goes_on.set()
    await stopping
    with suppress(StaleVersion):  # this broker shows its stop as a limit
        await setting
    await process.clock.pass_(60)
    assert process.memory.limits[ORDERS] == STOPPED
    await process.broker.call(ORDERS, "start-producers", {"actor": "ada"})
    assert process.memory.limits[ORDERS] == (10 if setting.exception() else 77)


async def test_a_stop_of_many_queues_by_name_walks_all_queues_and_writes_all_stops_once(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in the event loop of all brokers, which must extend their leases meanwhile."""
    names = [process.memory.add(f"q.{number}", 10) for number in range(300)]
    await process.clock.pass_(10)
    walked, written, covers, append = 0, 0, Scope.covers, process.journal.append
    contains = Scope.contains

    def counted(scope: Scope, *queue: Any) -> bool:
        nonlocal walked
        walked += 1
        return covers(scope, *queue)

    def contained(scope: Scope, other: Scope) -> bool:
        nonlocal walked
        walked += 1
        return contains(scope, other)

    def stored(*given: Any, **more: Any) -> None:
        nonlocal written
        written += 1
        append(*given, **more)

    monkeypatch.setattr(Scope, "covers", counted)
    monkeypatch.setattr(Scope, "contains", contained)
    monkeypatch.setattr(process.journal, "append", stored)
    given = {"queues": list(map(str, names)), "actor": "ada"}
    answer = await process.broker.call(BROKER, "stop-producers", given)
    assert (answer["queues"], len(answer["changed_queues"]), written) == (300, 300, 1)
    await process.clock.pass_(20)
    written = 0
    answer = await process.broker.call(BROKER, "start-producers", given)
    assert (len(answer["changed_queues"]), written) == (300, 1)
    assert walked == 0
    assert process.kinds().count("producers-stopped q.7") == process.kinds().count("producers-started q.7") == 1


@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
async def test_after_the_clock_was_set_what_lasts_goes_on_and_times_are_those_of_the_clock(
    process: Process, step: int
) -> None:
    begins = process.now()
    process.memory.depths[ORDERS] = 11
    await process.clock.pass_(10)
    given = {"actor": "ada", "for_ms": 60_000}
    await process.broker.call(BILLS, "stop-producers", given)
    process.set_clock(step)
    queue, bills = await process.broker.read(ORDERS), await process.broker.read(BILLS)
    assert begins + step < queue["overfull_since"] <= begins + step + 10_000
    assert (bills["stopped_since"], bills["stops"][0]["until"]) == (process.now(), process.now() + 60_000)
    await process.restart()
    await process.clock.pass_(40)
    assert process.memory.limits[BILLS] == STOPPED
    await process.clock.pass_(30)
    assert process.memory.limits[BILLS] == 5
    process.memory.depths[ORDERS] = 0
    await process.clock.pass_(10)
    (over,) = [event for event in process.events() if event.kind == "queue-underfull" and event.object == ORDERS]
    assert 70_000 <= over.attributes["overfull_ms"] <= 85_000
    assert abs(over.at - process.now()) <= 10_000
    assert "broker-ready" not in process.kinds()


async def test_totals_of_virtual_hosts_walk_the_queues_once(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {object_name("VirtualHost", name=f"host {n}"): {"name": f"host {n}"} for n in range(50)}
    names = [queue_name(f"q.{n}", f"host {n % 50}") for n in range(500)]
    queues = {name: {**dict(name.keys), "depth_messages": 2} for name in names}
    process.observed.apply(Observation(process.now(), {**hosts, **queues}))
    read, lookup = 0, ObjectName.__getitem__

    def counted(name: ObjectName, key: str) -> str:
        nonlocal read
        read += 1
        return lookup(name, key)

    monkeypatch.setattr(ObjectName, "__getitem__", counted)
    process.observed._sum_up(process.now())
    assert read < 2 * (len(hosts) + len(queues))
    assert process.observed.inventory.objects[next(iter(hosts))]["depth_messages"] == 20
