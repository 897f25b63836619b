"""Stops and starts of producers, and the blocking of overfull queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brokers.admin import InvalidValue, NotFound
from brokers.model import TYPES, ObjectName
from tests.drivers.contract.subject import BROKER, HOST, LIMIT, Subject, events_about, eventually, last_event, queue


class Stops:
    async def test_stopping_and_starting_a_queue_is_idempotent_and_counts(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        await subject.admin.create(queue("other"), {})
        for _ in range(3):
            await subject.publish("orders", 1)
        await subject.publish("other", 1)
        declared = TYPES["Queue"].operation("stop-producers")
        assert declared is not None
        first = await subject.admin.call(queue("orders"), "stop-producers", {"reason": "a test", "actor": "anna"})
        assert set(first) == {field.name for field in declared.returns}
        assert (first["queues"], first["producers"], first["changed"]) == (1, 3, True)
        assert first["stopped"] + first["draining"] == 3
        async with asyncio.timeout(LIMIT):
            while (again := await subject.admin.call(queue("orders"), "stop-producers", {}))["draining"]:
                await subject.pass_time()
        assert (again["queues"], again["producers"], again["stopped"], again["changed"]) == (1, 3, 3, False)
        stopped = await subject.admin.read(queue("orders"))
        assert (stopped["state"], stopped["blocked_producers"]) == ("STOPPED", 3)
        (stop,) = stopped["stops"]
        assert (stop["reason"], stop["actor"]) == ("a test", "anna")
        assert stop["since"] == stopped["stopped_since"] > 0
        producers = (await subject.admin.query("Producer", where={"queue": str(queue("orders"))})).items
        assert [(p["state"], len(p["reasons"])) for p in producers] == [("BLOCKED", 1)] * 3
        assert all(p["reasons"][0].startswith("operator-stop:") and p["release"] for p in producers)
        assert (await subject.admin.read(queue("other")))["state"] == "NORMAL"
        started = await subject.admin.call(queue("orders"), "start-producers", {})
        assert (started["queues"], started["producers"], started["changed"]) == (1, 3, True)
        assert (await subject.admin.call(queue("orders"), "start-producers", {}))["changed"] is False
        after = await subject.admin.read(queue("orders"))
        assert (after["state"], after["blocked_producers"], after["stops"]) == ("NORMAL", 0, [])

    async def test_stopping_by_pattern_stops_the_queues_it_matches_only(self, subject: Subject) -> None:
        for name in ("eu.orders", "eu.orders.late", "us.orders"):
            await subject.admin.create(queue(name), {})
        answer = await subject.admin.call(BROKER, "stop-producers", {"pattern": "eu.>", "reason": "a test"})
        assert (answer["queues"], answer["changed"]) == (2, True)
        page = await subject.admin.query("Queue", where={"state": "STOPPED"})
        assert [item.name["name"] for item in page.items] == ["eu.orders", "eu.orders.late"]
        answer = await subject.admin.call(HOST, "stop-producers", {"pattern": "*.orders"})
        assert (answer["queues"], answer["changed"]) == (2, True)
        await subject.admin.call(BROKER, "start-producers", {})
        assert (await subject.admin.query("Queue", where={"state": "STOPPED"})).total == 0

    async def test_progress_of_a_stop_counts_its_queues_and_changes_nothing(self, subject: Subject) -> None:
        for name in ("eu.orders", "us.orders", "us.late"):
            await subject.admin.create(queue(name), {})
            await subject.publish(name, 1)
        await subject.publish("us.orders", 1)
        figures = TYPES["Broker"].operation("stop-progress")
        assert figures is not None

        async def progress(name: ObjectName, **given: Any) -> tuple[int, int, int]:
            answer = await subject.admin.call(name, "stop-progress", given)
            assert set(answer) == {field.name for field in figures.returns}
            return answer["queues"], answer["producers"], answer["stopped"] + answer["draining"]

        assert await progress(BROKER) == (3, 4, 0)
        await subject.admin.call(BROKER, "stop-producers", {"pattern": "us.>", "reason": "a test"})
        after = await last_event(subject)
        assert await progress(BROKER) == (3, 4, 3)
        assert await progress(BROKER, pattern="us.>") == (2, 3, 3)
        assert await progress(HOST, pattern="*.orders") == (2, 3, 2)
        assert await progress(queue("eu.orders")) == (1, 1, 0)
        named = [str(queue(name)) for name in ("us.late", "gone", "us.late")]
        assert await progress(BROKER, queues=named) == (1, 1, 1)
        async with asyncio.timeout(LIMIT):
            while (await subject.admin.call(BROKER, "stop-progress", {}))["draining"]:
                await subject.pass_time()
        assert (await subject.admin.call(BROKER, "stop-progress", {}))["stopped"] == 3
        assert await last_event(subject) == after
        assert len((await subject.admin.read(BROKER))["stops"]) == 1
        with pytest.raises(NotFound):
            await progress(queue("gone"))
        with pytest.raises(InvalidValue):
            await progress(BROKER, pattern="us*")

    async def test_progress_names_the_queues_that_a_stop_with_an_end_at_a_depth_waits_for(
        self, subject: Subject
    ) -> None:
        for name, count in (("orders", 7), ("late", 2)):
            await subject.admin.create(queue(name), {"capacity_messages": 10})
            await subject.publish(name, count)
        for name in ("unlimited", "empty"):
            await subject.admin.create(queue(name), {"capacity_messages": 10} if name == "empty" else {})
        found = await subject.admin.call(HOST, "stop-progress", {})
        assert (found["queues_above"], found["fullest"]) == (None, None)
        await subject.admin.call(HOST, "stop-producers", {"reason": "a test", "below": 10})
        found = await subject.admin.call(HOST, "stop-progress", {})
        fullest = {each["queue"]: each["percent"] for each in found["fullest"]}
        assert found["queues_above"] == 2
        assert fullest == {str(queue("orders")): 70, str(queue("late")): 20, str(queue("empty")): 0}
        assert list(fullest) == [str(queue(name)) for name in ("orders", "late", "empty")]
        assert (await subject.admin.call(BROKER, "stop-progress", {}))["fullest"] is None  # no stop of that scope

    async def test_stopping_named_queues_stops_them_one_by_one_and_counts_those_that_are_missing(
        self, subject: Subject
    ) -> None:
        for name in ("a", "b", "c"):
            await subject.admin.create(queue(name), {})
        named = {"queues": [str(queue(name)) for name in ("a", "b", "gone")], "reason": "a test"}
        answer = await subject.admin.call(BROKER, "stop-producers", named)
        assert (answer["queues"], answer["missing"], answer["changed"]) == (2, 1, True)
        assert answer["changed_queues"] == [str(queue("a")), str(queue("b"))]
        again = await subject.admin.call(BROKER, "stop-producers", named)
        assert (again["changed"], again["changed_queues"]) == (False, [])
        stops = (await subject.admin.read(BROKER))["stops"]
        assert [(stop["object"], stop["pattern"]) for stop in stops] == [
            (str(queue("a")), ""),
            (str(queue("b")), ""),
        ]
        assert (await subject.admin.call(BROKER, "start-producers", named))["changed"] is True
        assert (await subject.admin.read(BROKER))["stops"] == []
        for wrong in ([str(BROKER)], ["nonsense"], [{}]):
            with pytest.raises(InvalidValue):
                await subject.admin.call(BROKER, "stop-producers", {"queues": wrong})
        with pytest.raises(InvalidValue):
            await subject.admin.call(BROKER, "stop-producers", {"queues": [str(queue("a"))], "pattern": "a"})
        assert (await subject.admin.call(BROKER, "stop-producers", {"queues": []}))["queues"] == 0
        assert (await subject.admin.read(BROKER))["stops"] == []

    async def test_lifting_only_one_stop_leaves_those_inside_its_scope(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        await subject.admin.call(queue("orders"), "stop-producers", {"reason": "mine"})
        await subject.admin.call(BROKER, "stop-producers", {"reason": "theirs"})
        answer = await subject.admin.call(BROKER, "start-producers", {"only": True})
        assert answer["changed"] is True
        assert [stop["reason"] for stop in (await subject.admin.read(BROKER))["stops"]] == ["mine"]
        assert (await subject.admin.call(BROKER, "start-producers", {"only": True}))["changed"] is False

    async def test_a_stop_for_a_time_ends_by_itself_and_says_so(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        after = await last_event(subject)
        await subject.admin.call(
            queue("orders"), "stop-producers", {"reason": "a test", "actor": "anna", "for_ms": 60_000}
        )
        (stop,) = (await subject.admin.read(queue("orders")))["stops"]
        assert (stop["until"], stop["below"]) == (stop["since"] + 60_000, 0)
        again = await subject.admin.call(queue("orders"), "stop-producers", {"for_ms": 1, "actor": "bert"})
        assert again["changed"] is True
        ended = await eventually(subject, queue("orders"), lambda q: q["state"] == "NORMAL")
        assert ended["stops"] == []
        events = await events_about(subject, queue("orders"), after, 3)
        assert [e.kind for e in events] == ["producers-stopped", "producers-stopped", "producers-started"]
        assert events[0].attributes["until"] == stop["until"]
        assert events[2].attributes["actor"] == ""
        assert "the stop reached its end (a test)" in events[2].text

    async def test_a_stop_until_a_depth_ends_when_its_queues_are_down_to_it(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 10})
        await subject.publish("orders", 6)
        with pytest.raises(InvalidValue, match="at once"):
            await subject.admin.call(queue("orders"), "stop-producers", {"below": 60})
        with pytest.raises(InvalidValue, match="from 1 to 99"):
            await subject.admin.call(queue("orders"), "stop-producers", {"below": 100})
        await subject.admin.create(queue("other"), {})
        with pytest.raises(InvalidValue, match="capacity"):
            await subject.admin.call(queue("other"), "stop-producers", {"below": 20})
        await subject.admin.call(queue("orders"), "stop-producers", {"below": 20, "reason": "a test"})
        await subject.consume("orders", 3)
        await subject.pass_time()
        assert (await subject.admin.read(queue("orders")))["state"] == "STOPPED"
        await subject.consume("orders", 1)
        await eventually(subject, queue("orders"), lambda q: q["state"] == "NORMAL")

    async def test_staged_start_unblocks_producers_and_is_reported_with_the_stop_until_it_halts(
        self, subject: Subject
    ) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 100})
        await subject.publish("orders", 50)
        await subject.admin.call(queue("orders"), "stop-producers", {"reason": "a test"})
        stages = {"rate": 10, "step_ms": 60_000, "halt": 90}
        assert (await subject.admin.call(queue("orders"), "start-producers", stages))["changed"] is True
        staged = await subject.admin.read(queue("orders"))
        assert (staged["state"], staged["blocked_producers"]) == ("NORMAL", 0)
        (stop,) = staged["stops"]
        assert {name: stop["stage"][name] for name in stages} == stages
        for wrong in ({"halt": 5}, {"rate": 5, "halt": 101}, {"rate": 5, "step_ms": 1}):
            with pytest.raises(InvalidValue):
                await subject.admin.call(queue("orders"), "start-producers", wrong)
        await subject.admin.update(queue("orders"), {"capacity_messages": 52}, staged.version)
        stopped = await eventually(subject, queue("orders"), lambda q: q["state"] == "STOPPED")
        assert stopped["stops"][0]["stage"] is None

    async def test_a_producer_that_attaches_to_a_stopped_queue_is_blocked(self, subject: Subject) -> None:
        await subject.admin.call(BROKER, "stop-producers", {"reason": "a test"})
        await subject.admin.create(queue("orders"), {})
        assert await subject.publish("orders", 5) == 0
        stopped = await subject.admin.read(queue("orders"))
        assert (stopped["state"], stopped["blocked_producers"], stopped["depth_messages"]) == ("STOPPED", 1, 0)

    async def test_overfull_blocks_until_it_is_underfull_and_a_stop_is_independent(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 10, "flow_resume_messages": 5})
        taken = await subject.publish("orders", 50)
        assert 10 <= taken <= 11
        full = await eventually(subject, queue("orders"), lambda q: q["state"] == "OVERFULL")
        assert (full["depth_messages"], full["blocked_producers"]) == (taken, 1)
        (producer,) = (await subject.admin.query("Producer")).items
        assert (producer["state"], producer["reasons"]) == ("BLOCKED", ["queue-overfull:orders"])
        assert producer["blocked_since"] > 0
        await subject.admin.call(queue("orders"), "stop-producers", {"reason": "a test"})
        assert (await subject.admin.read(queue("orders")))["state"] == "OVERFULL_STOPPED"
        await subject.admin.call(queue("orders"), "start-producers", {})
        assert (await subject.admin.read(queue("orders")))["state"] == "OVERFULL"
        version = (await subject.admin.read(queue("orders"))).version
        await subject.admin.update(queue("orders"), {"capacity_messages": 100, "flow_resume_messages": 90}, version)
        assert (await subject.admin.read(producer.name))["state"] == "RUNNING"
        assert await subject.consume("orders", taken) == taken
