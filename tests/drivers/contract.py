"""What every implementation of `brokers.admin.BrokerAdmin` must do, as its docstrings say.

`Contract` is the suite. An implementation runs it with a test class that inherits from it and a fixture `subject`, a
`Subject`: the broker with a virtual host `default`, seen through its admin interface, and what a test does to it that
the interface does not offer. Its tests leave nothing behind that a broker would have to be cleaned of.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from brokers.admin import (
    SAMPLED,
    AdminError,
    AlreadyExists,
    BrokerAdmin,
    BrokerUnreachable,
    Event,
    EventsExpired,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.model import NOTIFICATIONS, TYPES, ObjectName, object_name

T = TypeVar("T")

#: Seconds after which something that should come is said not to come.
LIMIT = 15.0

BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="default")


def queue(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


def policy(pattern: str) -> ObjectName:
    return object_name("Policy", virtualhost="default", pattern=pattern)


def exchange(name: str) -> ObjectName:
    return object_name("Exchange", virtualhost="default", name=name)


def user(name: str) -> ObjectName:
    return object_name("User", name=name)


class Subject(ABC):
    """A broker under test."""

    admin: BrokerAdmin

    @abstractmethod
    async def publish(self, name: str, count: int, size: int = 100) -> int:
        """Have a new client publish up to `count` messages of `size` bytes, while flow control allows; what
        it holds back is given up. It stays attached. Returns how many were taken."""

    @abstractmethod
    async def consume(self, name: str, count: int) -> int:
        """Have a client take and acknowledge up to `count` messages; returns how many there were."""

    @abstractmethod
    async def pass_time(self) -> None:
        """Let a moment pass (tens of ms), in which the broker's timers run."""

    @abstractmethod
    async def sample(self) -> None:
        """Have the samples sent that are due."""

    @abstractmethod
    async def expire_events(self) -> None:
        """Make the broker give up its oldest events, the first one included."""

    @abstractmethod
    async def lose_connection(self) -> None:
        """Break the admin's connection."""


async def soon(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(LIMIT):
        return await awaitable


async def following(subject: Subject, stream: AsyncIterator[T]) -> asyncio.Task[T]:
    """Wait for the stream's next item, in a task; the broker has the subscription when this returns."""
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await subject.admin.read(BROKER)
    return task


async def take(stream: AsyncIterator[T], count: int) -> list[T]:
    return [await soon(anext(stream)) for _ in range(count)]


async def eventually(subject: Subject, name: ObjectName, condition: Callable[[ManagedObject], object]) -> ManagedObject:
    async with asyncio.timeout(LIMIT):
        while not condition(found := await subject.admin.read(name)):
            await subject.pass_time()
    return found


async def last_event(subject: Subject) -> int:
    return int((await subject.admin.read(BROKER))["last_event"])


async def events_about(subject: Subject, name: ObjectName, after: int, count: int) -> list[Event]:
    found: list[Event] = []
    stream = subject.admin.events(after)
    while len(found) < count:
        event = await soon(anext(stream))
        if event.object == name:
            found.append(event)
    return found


class Contract:
    # Types and reading

    async def test_types_are_declared_ones_and_every_object_has_their_attributes(self, subject: Subject) -> None:
        types = await subject.admin.types()
        assert (
            {"Broker", "VirtualHost", "Queue", "Policy", "Exchange", "Connection", "Producer", "Consumer"}
            <= set(types)
            <= set(TYPES)
        )
        await subject.admin.create(queue("orders"), {})
        await subject.publish("orders", 1)
        await subject.admin.create(policy("orders"), {"capacity_messages": 5})
        await subject.admin.create(exchange("stocks"), {"exchange_type": "topic"})
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders", "key": "a.#"})
        for name in ("Broker", "VirtualHost", "Queue", "Policy", "Exchange", "Connection", "Producer"):
            page = await subject.admin.query(name)
            assert page.items, name
            for item in page.items:
                assert set(item.attributes) == {a.name for a in types[name].attributes}, name
                assert item.version == item["version"]
                read = await subject.admin.read(item.name)
                assert (read.name, set(read.attributes)) == (item.name, set(item.attributes))

    async def test_values_read_are_of_their_declared_kinds(self, subject: Subject) -> None:
        types = await subject.admin.types()
        await subject.admin.create(queue("orders"), {"capacity_messages": 5, "flow_stop_messages": "80%"})
        await subject.publish("orders", 10)
        await subject.admin.create(policy(">"), {"flow_stop_bytes": "80%", "priority": 3})
        await subject.admin.create(exchange("stocks"), {"exchange_type": "fanout"})
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders"})
        await subject.admin.call(BROKER, "stop-producers", {"reason": "a test"})
        for name, declared in types.items():
            for item in (await subject.admin.query(name)).items:
                for attribute in declared.attributes:
                    value = item[attribute.name]
                    if attribute.secret:
                        assert value is None
                        continue
                    assert attribute.check(value) == value, (name, attribute.name, value)
                    assert type(value) in (str, int, float, bool, list, dict, type(None)), (attribute.name, value)

    @pytest.mark.parametrize(
        "name",
        [
            queue("missing"),
            object_name("Queue", virtualhost="missing", name="orders"),
            object_name("VirtualHost", name="missing"),
            policy("missing.>"),
            exchange("missing"),
            object_name("Connection", virtualhost="default", id=999_999),
            object_name("Producer", virtualhost="default", id="no number"),
            object_name("Consumer", virtualhost="missing", id=1),
        ],
        ids=str,
    )
    async def test_an_object_that_is_not_there_is_not_found(self, subject: Subject, name: ObjectName) -> None:
        for request in (
            subject.admin.read(name),
            subject.admin.call(name, "stop-producers", {}),
            subject.admin.delete(name),
        ):
            with pytest.raises(NotFound):
                await request

    async def test_names_with_signs_in_them_are_themselves(self, subject: Subject) -> None:
        for text in ('a,b="c"\\', "dots.and/slashes", "ümläut €", "type=Queue"):
            created = await subject.admin.create(queue(text), {})
            assert created.name == queue(text)
            assert (await subject.admin.read(queue(text)))["name"] == text
            page = await subject.admin.query("Queue", where={"name": text})
            assert [item.name for item in page.items] == [queue(text)]

    # Queries

    async def test_a_query_selects_by_attribute_values(self, subject: Subject) -> None:
        for name in ("a", "b", "c"):
            await subject.admin.create(queue(name), {"capacity_messages": 10 if name == "a" else 20})
        await subject.admin.call(queue("c"), "stop-producers", {})

        async def names(**where: Any) -> list[str]:
            page = await subject.admin.query("Queue", where=where)
            assert page.total == len(page.items)
            return [item.name["name"] for item in page.items]

        assert await names(capacity_messages=20) == ["b", "c"]
        assert await names(capacity_messages=[10, 20]) == ["a", "b", "c"]
        assert await names(capacity_messages=20, state="NORMAL") == ["b"]
        assert await names(state=["STOPPED", "OVERFULL"]) == ["c"]
        assert await names(capacity_bytes=None) == ["a", "b", "c"]
        assert await names(state=[]) == []
        assert await names(name="d") == []

    async def test_a_query_searches_names_whatever_their_case(self, subject: Subject) -> None:
        for name in ("Orders.EU", "orders.us", "invoices"):
            await subject.admin.create(queue(name), {})
        page = await subject.admin.query("Queue", search="oRDERs")
        assert [item.name["name"] for item in page.items] == ["Orders.EU", "orders.us"]
        assert (await subject.admin.query("Queue", search="nothing has this")).total == 0

    async def test_a_query_sorts_by_attributes_then_by_name(self, subject: Subject) -> None:
        for name, messages, size in (("d", 2, 10), ("b", 1, 10), ("c", 2, 10), ("a", 1, 30)):
            await subject.admin.create(queue(name), {"capacity_messages": messages, "capacity_bytes": size})

        async def names(sort: str) -> str:
            return "".join(item.name["name"] for item in (await subject.admin.query("Queue", sort=sort)).items)

        assert await names("") == "abcd"
        assert await names("name") == "abcd"
        assert await names("-name") == "dcba"
        assert await names("capacity_messages") == "abcd"
        assert await names("-capacity_messages") == "cdab"
        assert await names("capacity_messages,-capacity_bytes") == "abcd"
        assert await names("capacity_messages,capacity_bytes") == "bacd"
        assert await names("-capacity_bytes,-name") == "adcb"

    async def test_a_query_gives_pages_of_all_that_matched(self, subject: Subject) -> None:
        names = [f"page-{n:03}" for n in range(230)]
        await asyncio.gather(*(subject.admin.create(queue(name), {}) for name in names))
        await subject.admin.create(queue("another"), {})
        seen: list[str] = []
        for offset in range(0, 300, 50):
            page = await subject.admin.query("Queue", search="page-", offset=offset, count=50)
            assert (page.total, page.offset) == (230, offset)
            assert len(page.items) == max(0, min(50, 230 - offset))
            seen.extend(item.name["name"] for item in page.items)
        assert seen == names
        page = await subject.admin.query("Queue", search="page-", count=1000)
        assert len(page.items) == page.total == 230

    async def test_a_query_that_cannot_be_is_refused_with_the_name_of_what_is_wrong(self, subject: Subject) -> None:
        with pytest.raises(InvalidValue, match="colour"):
            await subject.admin.query("Queue", where={"colour": "red"})
        with pytest.raises(InvalidValue, match="colour"):
            await subject.admin.query("Queue", sort="-colour")
        with pytest.raises(InvalidValue, match="-1"):
            await subject.admin.query("Queue", offset=-1)
        with pytest.raises(NotFound, match="Teapot"):
            await subject.admin.query("Teapot")

    # Creating, changing, deleting

    async def test_a_created_object_is_there_with_what_was_given(self, subject: Subject) -> None:
        created = await subject.admin.create(queue("orders"), {"capacity_bytes": 1000, "flow_stop_bytes": "80%"})
        assert created.name == queue("orders")
        assert (created["name"], created["virtualhost"], created["state"]) == ("orders", "default", "NORMAL")
        assert (created["capacity_bytes"], created["flow_stop_bytes"]) == (1000, "80%")
        assert (created["effective_capacity_bytes"], created["effective_stop_bytes"]) == (1000, 800)
        assert created["capacity_messages"] is None
        assert await subject.admin.read(queue("orders")) == created

    async def test_an_object_is_not_created_twice(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_bytes": 1000})
        with pytest.raises(AlreadyExists, match="orders"):
            await subject.admin.create(queue("orders"), {"capacity_bytes": 5})
        assert (await subject.admin.read(queue("orders")))["capacity_bytes"] == 1000

    async def test_a_queue_in_a_virtual_host_that_is_not_there_is_not_found(self, subject: Subject) -> None:
        with pytest.raises(NotFound, match="missing"):
            await subject.admin.create(object_name("Queue", virtualhost="missing", name="orders"), {})

    async def test_virtual_hosts_are_created_changed_and_deleted(self, subject: Subject) -> None:
        name = object_name("VirtualHost", name="test")
        created = await subject.admin.create(name, {"create_on_attach": True, "capacity_messages": 7})
        assert (created["create_on_attach"], created["anonymous"], created["capacity_messages"]) == (True, False, 7)
        inside = object_name("Queue", virtualhost="test", name="orders")
        assert (await subject.admin.create(inside, {}))["effective_capacity_messages"] == 7
        await subject.admin.update(name, {"capacity_messages": 8}, created.version)
        assert (await subject.admin.read(inside))["effective_capacity_messages"] == 8
        await subject.admin.delete(name)
        for gone in (name, inside):
            with pytest.raises(NotFound):
                await subject.admin.read(gone)

    async def test_an_update_changes_what_it_names_and_the_version(self, subject: Subject) -> None:
        created = await subject.admin.create(queue("orders"), {"capacity_bytes": 1000, "capacity_messages": 5})
        changed = await subject.admin.update(
            queue("orders"), {"capacity_bytes": 2000, "capacity_messages": None}, created.version
        )
        assert (changed["capacity_bytes"], changed["capacity_messages"]) == (2000, None)
        assert changed.version > created.version
        assert await subject.admin.read(queue("orders")) == changed

    async def test_a_stale_update_or_delete_is_refused_and_names_the_current_version(self, subject: Subject) -> None:
        created = await subject.admin.create(queue("orders"), {"capacity_bytes": 1000})
        changed = await subject.admin.update(queue("orders"), {"capacity_bytes": 2000}, created.version)
        for stale in (
            subject.admin.update(queue("orders"), {"capacity_bytes": 3000}, created.version),
            subject.admin.delete(queue("orders"), created.version),
        ):
            with pytest.raises(StaleVersion) as caught:
                await stale
            assert caught.value.current == changed.version
            assert str(changed.version) in str(caught.value)
        assert (await subject.admin.read(queue("orders")))["capacity_bytes"] == 2000
        await subject.admin.delete(queue("orders"), changed.version)
        with pytest.raises(NotFound):
            await subject.admin.read(queue("orders"))

    async def test_a_delete_without_a_version_deletes_whatever_is_there(self, subject: Subject) -> None:
        created = await subject.admin.create(queue("orders"), {})
        await subject.admin.update(queue("orders"), {"capacity_bytes": 1}, created.version)
        assert await subject.admin.delete(queue("orders")) is None
        with pytest.raises(NotFound):
            await subject.admin.delete(queue("orders"))

    @pytest.mark.parametrize(
        ("attributes", "field", "values"),
        [
            ({"capacity_bytes": -1}, "capacity_bytes", ["-1"]),
            ({"capacity_bytes": "many"}, "capacity_bytes", ["'many'"]),
            ({"capacity_bytes": True}, "capacity_bytes", ["True"]),
            ({"capacity_bytes": 1 << 63}, "capacity_bytes", [str(1 << 63)]),
            ({"flow_stop_bytes": "101%"}, "flow_stop_bytes", ["'101%'"]),
            ({"colour": "red"}, "colour", []),
            ({"depth_bytes": 5}, "depth_bytes", []),
            (
                {"capacity_bytes": 1000, "flow_stop_bytes": 800, "flow_resume_bytes": 900},
                "flow_resume_bytes",
                ["800", "900"],
            ),
            (
                {"capacity_messages": 1000, "flow_stop_messages": "80%", "flow_resume_messages": "90%"},
                "flow_resume_messages",
                ["80", "90"],
            ),
            ({"capacity_bytes": 1000, "flow_stop_bytes": 1234}, "flow_stop_bytes", ["1000", "1234"]),
        ],
        ids=str,
    )
    async def test_an_invalid_value_names_the_field_and_the_values_and_changes_nothing(
        self, subject: Subject, attributes: dict[str, Any], field: str, values: list[str]
    ) -> None:
        before = await subject.admin.create(queue("orders"), {"capacity_messages": 5})
        for refused in (
            subject.admin.update(queue("orders"), {"producer_window_messages": 3, **attributes}, before.version),
            subject.admin.create(queue("new"), attributes),
        ):
            with pytest.raises(InvalidValue) as caught:
                await refused
            assert field in caught.value.errors
            sentence = caught.value.errors[field]
            assert field in sentence
            for value in values:
                assert value in sentence.replace(",", ""), sentence
            assert sentence in str(caught.value)
        assert await subject.admin.read(queue("orders")) == before
        with pytest.raises(NotFound):
            await subject.admin.read(queue("new"))

    async def test_several_invalid_values_are_all_named(self, subject: Subject) -> None:
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(queue("orders"), {"capacity_bytes": -1, "capacity_messages": "x"})
        assert set(caught.value.errors) == {"capacity_bytes", "capacity_messages"}

    async def test_what_cannot_be_created_changed_or_deleted_is_refused(self, subject: Subject) -> None:
        host = await subject.admin.read(HOST)
        for refused in (
            subject.admin.create(object_name("Connection", virtualhost="default", id=1), {}),
            subject.admin.update(HOST, {"name": "other"}, host.version),
            subject.admin.delete(BROKER),
        ):
            with pytest.raises((NotAllowed, InvalidValue)):
                await refused

    # Operations

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

    async def test_explain_gives_each_field_with_its_origin(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_bytes": 1000})
        host = await subject.admin.read(HOST)
        await subject.admin.update(HOST, {"capacity_messages": 50, "capacity_bytes": 7}, host.version)
        broker = await subject.admin.read(BROKER)
        await subject.admin.update(BROKER, {"producer_window_messages": 9, "capacity_messages": 8}, broker.version)
        fields = (await subject.admin.call(queue("orders"), "explain", {}))["fields"]
        assert fields["capacity_bytes"] == {"value": 1000, "origin": "own"}
        assert fields["capacity_messages"] == {"value": 50, "origin": "virtualhost"}
        assert fields["producer_window_messages"] == {"value": 9, "origin": "broker"}
        assert fields["flow_stop_bytes"] == {"value": "100%", "origin": "built-in"}
        await subject.admin.update(
            BROKER,
            {"producer_window_messages": None, "capacity_messages": None},
            (await subject.admin.read(BROKER)).version,
        )

    async def test_preview_reports_the_impact_of_a_change_and_changes_nothing(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 100})
        await subject.publish("orders", 10)
        await eventually(subject, queue("orders"), lambda q: q["depth_messages"] == 10)
        before = await subject.admin.read(queue("orders"))
        change = {"object": str(queue("orders")), "attributes": {"capacity_messages": 5}, "version": before.version}
        impact = await subject.admin.call(BROKER, "preview-change", {"changes": [change], "largest": 1})
        assert (impact["queues"], impact["changed"], impact["overfull"], impact["held"]) == (1, 1, 1, 1)
        assert impact["versions"] == {str(queue("orders")): before.version}
        assert impact["largest"][0]["after"]["state"] == "OVERFULL"
        now = await subject.admin.read(queue("orders"))
        assert (now["state"], now["capacity_messages"], now.version) == ("NORMAL", 100, before.version)
        with pytest.raises(StaleVersion):
            await subject.admin.call(BROKER, "preview-change", {"changes": [{**change, "version": 99}]})
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.call(
                BROKER, "preview-change", {"changes": [{**change, "attributes": {"capacity_messages": "x"}}]}
            )
        assert set(caught.value.errors) == {"capacity_messages"}

    # Policies and exchanges

    async def test_a_policy_holds_for_the_queues_it_matches_best_from_its_creation_to_its_end(
        self, subject: Subject
    ) -> None:
        for name in ("orders.eu", "orders.us", "invoices"):
            await subject.admin.create(queue(name), {})
        made = await subject.admin.create(policy("orders.>"), {"capacity_messages": 10, "priority": 2})
        assert (made["virtualhost"], made["pattern"], made["priority"], made["queues"]) == ("default", "orders.>", 2, 2)
        assert (made["capacity_messages"], made["capacity_bytes"]) == (10, None)
        taken = await subject.publish("orders.eu", 50)
        assert 10 <= taken <= 11
        full = await eventually(subject, queue("orders.eu"), lambda q: q["state"] == "OVERFULL")
        assert full["policy"] == "orders.>"
        fields = (await subject.admin.call(queue("orders.eu"), "explain", {}))["fields"]
        assert fields["capacity_messages"] == {"value": 10, "origin": "pattern orders.>"}
        assert (await subject.admin.read(queue("invoices")))["policy"] is None

        changed = await subject.admin.update(policy("orders.>"), {"capacity_messages": 100}, made.version)
        assert (changed["capacity_messages"], changed["priority"]) == (100, 2)
        assert changed.version > made.version
        assert (await subject.admin.read(queue("orders.eu")))["state"] == "NORMAL"
        with pytest.raises(StaleVersion):
            await subject.admin.update(policy("orders.>"), {"capacity_messages": 1}, made.version)

        better = await subject.admin.create(policy("orders.eu"), {"capacity_messages": 3})
        assert better["queues"] == 1
        assert (await subject.admin.read(policy("orders.>")))["queues"] == 1
        assert (await subject.admin.read(queue("orders.eu")))["state"] == "OVERFULL"
        await subject.admin.delete(policy("orders.eu"), better.version)
        await subject.admin.delete(policy("orders.>"))
        free = await subject.admin.read(queue("orders.eu"))
        assert (free["state"], free["policy"], free["effective_capacity_messages"]) == ("NORMAL", None, 0)
        assert (await subject.admin.query("Policy")).total == 0

    async def test_a_policy_that_contradicts_a_queue_is_refused_for_all_of_them(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders.a"), {})
        await subject.admin.create(queue("orders.b"), {"capacity_messages": 50})
        before = [await subject.admin.read(queue(name)) for name in ("orders.a", "orders.b")]
        wrong = {"capacity_messages": 100, "flow_stop_messages": 90}
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(policy("orders.*"), wrong)
        sentence = caught.value.errors["flow_stop_messages"]
        for named in ("default/orders.b", "pattern orders.*", "90", "50"):
            assert named in sentence
        with pytest.raises(NotFound):
            await subject.admin.read(policy("orders.*"))
        made = await subject.admin.create(policy("orders.*"), {"capacity_messages": 100})
        with pytest.raises(InvalidValue, match=r"orders\.b"):
            await subject.admin.update(policy("orders.*"), wrong, made.version)
        assert await subject.admin.read(policy("orders.*")) == made
        await subject.admin.delete(policy("orders.*"))
        assert [await subject.admin.read(queue(name)) for name in ("orders.a", "orders.b")] == before

    @pytest.mark.parametrize(
        ("name", "attributes", "field"),
        [
            (policy(""), {}, "pattern"),
            (policy("a.>.b"), {}, "pattern"),
            (object_name("Policy", virtualhost="", pattern="a.>"), {}, "virtualhost"),
            (policy("a.>"), {"priority": -1}, "priority"),
            (policy("a.>"), {"queues": 1}, "queues"),
            (exchange("a/b"), {"exchange_type": "topic"}, "name"),
            (exchange("a"), {"exchange_type": "headers"}, "exchange_type"),
            (exchange("a"), {}, "exchange_type"),
            (exchange("a"), {"exchange_type": "topic", "capacity_bytes": "much"}, "capacity_bytes"),
        ],
        ids=str,
    )
    async def test_a_policy_or_exchange_that_cannot_be_is_refused_with_the_field(
        self, subject: Subject, name: ObjectName, attributes: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(name, attributes)
        assert list(caught.value.errors) == [field]
        assert (await subject.admin.query(name.type)).total == 0

    async def test_a_queue_bound_to_an_exchange_inherits_its_policy(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        made = await subject.admin.create(exchange("stocks"), {"exchange_type": "topic", "capacity_messages": 10})
        assert (made["exchange_type"], made["capacity_messages"], made["bindings"]) == ("topic", 10, [])
        binding = {"queue": "orders", "key": "eu.#"}
        assert await subject.admin.call(exchange("stocks"), "bind", binding) == {"changed": True}
        assert await subject.admin.call(exchange("stocks"), "bind", binding) == {"changed": False}
        bound = await subject.admin.read(queue("orders"))
        assert bound["bindings"] == [{"exchange": "stocks", "key": "eu.#"}]
        assert bound["effective_capacity_messages"] == 10
        fields = (await subject.admin.call(queue("orders"), "explain", {}))["fields"]
        assert fields["capacity_messages"] == {"value": 10, "origin": "exchange stocks"}
        changed = await subject.admin.update(exchange("stocks"), {"capacity_messages": 20}, made.version)
        assert (changed["bindings"], changed["queues"]) == ([{"queue": "orders", "key": "eu.#"}], 1)
        assert (await subject.admin.read(queue("orders")))["effective_capacity_messages"] == 20
        answer = await subject.admin.call(exchange("stocks"), "stop-producers", {"reason": "a test"})
        assert (answer["queues"], answer["changed"]) == (1, True)
        assert (await subject.admin.read(queue("orders")))["state"] == "STOPPED"
        assert [s["reason"] for s in (await subject.admin.read(exchange("stocks")))["stops"]] == ["a test"]
        assert (await subject.admin.call(exchange("stocks"), "start-producers", {}))["changed"] is True
        assert (await subject.admin.read(queue("orders")))["state"] == "NORMAL"
        assert await subject.admin.call(exchange("stocks"), "unbind", binding) == {"changed": True}
        assert await subject.admin.call(exchange("stocks"), "unbind", binding) == {"changed": False}
        assert (await subject.admin.read(queue("orders")))["effective_capacity_messages"] == 0
        for wrong, named in (({"queue": "missing"}, "missing"), ({"queue": "orders", "key": "a*"}, "a\\*")):
            with pytest.raises((NotFound, InvalidValue), match=named):
                await subject.admin.call(exchange("stocks"), "bind", wrong)
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders"})
        await subject.admin.delete(queue("orders"))
        assert (await subject.admin.read(exchange("stocks")))["bindings"] == []
        await subject.admin.delete(exchange("stocks"))
        with pytest.raises(NotFound):
            await subject.admin.read(exchange("stocks"))

    async def test_changes_of_policies_and_exchanges_are_reported_as_events(self, subject: Subject) -> None:
        after = await last_event(subject)
        await subject.admin.create(queue("orders"), {})
        made = await subject.admin.create(policy("*"), {"capacity_messages": 10})
        await subject.admin.update(policy("*"), {"capacity_messages": 20}, made.version, actor="anna")
        await subject.admin.delete(policy("*"), actor="bert")
        await subject.admin.create(exchange("stocks"), {"exchange_type": "direct"})
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders", "key": "eu", "actor": "anna"})
        await subject.admin.delete(exchange("stocks"))
        events = await events_about(subject, policy("*"), after, 3)
        assert [(e.kind, e.attributes["change"]) for e in events] == [
            ("policy-changed", change) for change in ("created", "changed", "deleted")
        ]
        assert (events[1].attributes["before"], events[1].attributes["after"]) == (
            {"capacity_messages": 10},
            {"capacity_messages": 20},
        )
        assert [e.attributes["actor"] for e in events] == ["console", "anna", "bert"]
        events = await events_about(subject, exchange("stocks"), after, 4)
        kinds = ["exchange-created", "binding-created", "binding-deleted", "exchange-deleted"]
        assert [e.kind for e in events] == kinds
        assert [e.attributes["actor"] for e in events] == ["console", "anna", "console", "console"]
        assert all(NOTIFICATIONS[e.kind].code in e.text for e in events)

    # Users

    async def test_a_user_is_created_changed_and_deleted_and_its_password_never_shown(self, subject: Subject) -> None:
        after = await last_event(subject)
        given = {"password": "unmistakable", "grants": ["default:consume,publish"], "administrator": False}
        made = await subject.admin.create(user("anna"), given, actor="bert")
        assert (made["name"], made["has_password"], made["password"]) == ("anna", True, None)
        assert (made["grants"], made["administrator"], made["connections"]) == (["default:publish,consume"], False, 0)
        changed = await subject.admin.update(
            user("anna"), {"password": "unmistakable too", "grants": ["*:manage"]}, made.version, actor="bert"
        )
        assert (changed["grants"], changed["password"]) == (["*:manage"], None)
        assert changed.version > made.version
        changed = await subject.admin.update(
            user("anna"), {"certificate_subject": "CN=anna,O=Example"}, changed.version
        )
        assert changed["certificate_subject"] == "CN=anna,O=Example"
        read = await subject.admin.read(user("anna"))
        assert read == changed
        found = await subject.admin.query("User", sort="name")
        assert [item["name"] for item in found.items] == ["anna", "console"]
        await subject.admin.delete(user("anna"), changed.version, actor="bert")
        with pytest.raises(NotFound, match="anna"):
            await subject.admin.read(user("anna"))
        events = await events_about(subject, user("anna"), after, 4)
        kinds = ["user-created", "user-changed", "user-changed", "user-deleted"]
        assert [e.kind for e in events] == kinds
        assert [e.attributes["actor"] for e in events] == ["bert", "bert", "console", "bert"]
        assert [e.attributes["password_changed"] for e in events] == [False, True, False, False]
        assert events[1].attributes["after"] == {"grants": ["*:manage"]}
        for event in events:
            assert NOTIFICATIONS[event.kind].code in event.text
        for shown in (made, changed, read, found, events):
            assert "unmistakable" not in repr(shown)

    async def test_user_without_a_password_gets_a_generated_one_that_is_returned_once(self, subject: Subject) -> None:
        after = await last_event(subject)
        made = await subject.admin.create(user("anna"), {})
        assert len(made["password"]) >= 40
        assert (await subject.admin.read(user("anna")))["password"] is None
        renewed = await subject.admin.call(user("anna"), "renew-password", {"actor": "bert"})
        assert len(renewed["password"]) >= 40
        assert renewed["password"] != made["password"]
        assert (await subject.admin.read(user("anna"))).version > made.version
        certified = await subject.admin.create(user("bert"), {"certificate_subject": "CN=bert"})
        assert (certified["password"], certified["has_password"]) == (None, False)
        events = await events_about(subject, user("anna"), after, 2)
        assert renewed["password"] not in repr(events)
        assert made["password"] not in repr(events)

    @pytest.mark.parametrize(
        ("name", "attributes", "field"),
        [
            ("anonymous", {}, "name"),
            ("", {}, "name"),
            ("anna", {"password": ""}, "password"),
            ("anna", {"password": 12345}, "password"),
            ("anna", {"password": None}, "password"),
            ("anna", {"has_password": True}, "has_password"),
            ("anna", {"grants": ["default"]}, "grants"),
            ("anna", {"grants": ["nowhere:publish"]}, "grants"),
            ("anna", {"grants": ["default:fly"]}, "grants"),
            ("anna", {"grants": "default:publish"}, "grants"),
            ("anna", {"administrator": "perhaps"}, "administrator"),
            ("anna", {"certificate_subject": "anna"}, "certificate_subject"),
            ("anna", {"certificate_subject": "CN=taken"}, "certificate_subject"),
        ],
        ids=str,
    )
    async def test_a_user_that_cannot_be_is_refused_with_the_field(
        self, subject: Subject, name: str, attributes: dict[str, Any], field: str
    ) -> None:
        await subject.admin.create(user("taken"), {"certificate_subject": "CN=taken"})
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(user(name), attributes)
        assert list(caught.value.errors) == [field]
        assert "12345" not in str(caught.value)
        assert (await subject.admin.query("User")).total == 2
        made = await subject.admin.create(user("bert"), {"grants": ["default:publish"]})
        if field != "name":
            with pytest.raises(InvalidValue) as caught:
                await subject.admin.update(user("bert"), attributes, made.version)
            assert list(caught.value.errors) == [field]
            now = await subject.admin.read(user("bert"))
            assert (now.version, now["grants"], now["certificate_subject"]) == (made.version, ["default:publish"], None)

    async def test_a_user_that_is_there_or_the_consoles_own_cannot_be_made_or_changed(self, subject: Subject) -> None:
        await subject.admin.create(user("anna"), {"administrator": True})
        with pytest.raises(AlreadyExists, match="anna"):
            await subject.admin.create(user("anna"), {})
        console = await subject.admin.read(user("console"))
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.update(console.name, {"password": "x"}, console.version)
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.delete(console.name)
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.call(console.name, "renew-password", {})
        assert await subject.admin.read(console.name) == console

    async def test_grants_to_a_virtual_host_go_with_it(self, subject: Subject) -> None:
        other = object_name("VirtualHost", name="other")
        await subject.admin.create(other, {})
        await subject.admin.create(user("anna"), {"grants": ["other:publish", "default:consume"]})
        await subject.admin.delete(other)
        await subject.admin.create(other, {})
        assert (await subject.admin.read(user("anna")))["grants"] == ["default:consume"]

    async def test_purge_removes_the_messages_and_counts_them(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        await subject.publish("orders", 7)
        assert await subject.admin.call(queue("orders"), "purge", {"reason": "a test"}) == {"messages": 7}
        assert (await subject.admin.read(queue("orders")))["depth_messages"] == 0
        assert await subject.admin.call(queue("orders"), "purge", {}) == {"messages": 0}

    async def test_a_call_that_cannot_be_is_refused(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        with pytest.raises(NotFound, match="explode"):
            await subject.admin.call(queue("orders"), "explode", {})
        with pytest.raises(InvalidValue, match="colour") as caught:
            await subject.admin.call(queue("orders"), "stop-producers", {"colour": "red"})
        assert list(caught.value.errors) == ["colour"]
        with pytest.raises(InvalidValue, match="reason is 5"):
            await subject.admin.call(queue("orders"), "stop-producers", {"reason": 5})
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.call(BROKER, "stop-producers", {"pattern": "a.>.b"})
        assert "'a.>.b'" in caught.value.errors["pattern"]
        assert (await subject.admin.read(queue("orders")))["state"] == "NORMAL"

    # Events

    async def test_changes_are_reported_as_events_with_their_facts(self, subject: Subject) -> None:
        after = await last_event(subject)
        created = await subject.admin.create(queue("orders"), {"capacity_messages": 10, "flow_resume_messages": 5})
        taken = await subject.publish("orders", 50)
        await subject.consume("orders", taken)
        await subject.admin.call(queue("orders"), "stop-producers", {"reason": "a test", "actor": "anna"})
        await subject.admin.call(queue("orders"), "start-producers", {"actor": "anna"})
        version = (await subject.admin.read(created.name)).version
        await subject.admin.update(queue("orders"), {"capacity_messages": 20}, version)
        await subject.admin.delete(queue("orders"))
        kinds = [
            "queue-created",
            "queue-overfull",
            "queue-underfull",
            "producers-stopped",
            "producers-started",
            "policy-changed",
            "queue-deleted",
        ]
        found = {e.kind: e for e in await events_about(subject, queue("orders"), after, len(kinds))}
        assert list(found) == kinds
        overfull = found["queue-overfull"]
        assert overfull.attributes["state"] == "OVERFULL"
        assert overfull.attributes["depth_messages"] == 11
        assert overfull.attributes["depth_bytes"] >= 1100
        assert overfull.attributes["blocked_producers"] == 1
        assert "QUE-1003 : Overfull : Size : " in overfull.text
        assert "Messages : 11, Message Capacity : 10" in overfull.text
        assert found["queue-underfull"].attributes["state"] == "NORMAL"
        assert "QUE-1004 : Underfull" in found["queue-underfull"].text
        stopped = found["producers-stopped"]
        assert (stopped.attributes["reason"], stopped.attributes["actor"]) == ("a test", "anna")
        for event in found.values():
            assert NOTIFICATIONS[event.kind].code in event.text
            assert event.at > 0

    async def test_events_are_replayed_from_any_number_with_none_left_out(self, subject: Subject) -> None:
        start = await last_event(subject)
        for n in range(40):
            await subject.admin.create(queue(f"queue-{n}"), {})
        end = await last_event(subject)
        assert end - start >= 40
        stream = subject.admin.events(start)
        every = await take(stream, end - start)
        assert [event.number for event in every] == list(range(start + 1, end + 1))
        assert [e.object.get("name") for e in every if e.kind == "queue-created"] == [f"queue-{n}" for n in range(40)]
        for after in (start + 1, start + 17, end - 1):
            assert await take(subject.admin.events(after), end - after) == every[after - start :]
        # The same stream goes on with what happens now.
        await subject.admin.create(queue("one-more"), {})
        (live,) = await take(stream, 1)
        assert (live.number, live.object) == (end + 1, queue("one-more"))

    async def test_events_without_a_number_start_now(self, subject: Subject) -> None:
        await subject.admin.create(queue("before"), {})
        stream = subject.admin.events()
        waiting = await following(subject, stream)
        await subject.admin.create(queue("after"), {})
        event = await soon(waiting)
        assert (event.kind, event.object) == ("queue-created", queue("after"))
        assert event.number == await last_event(subject)

    async def test_several_readers_of_events_get_them_all(self, subject: Subject) -> None:
        start = await last_event(subject)
        streams = [subject.admin.events(start) for _ in range(5)]
        waiting = [await following(subject, stream) for stream in streams]
        await subject.admin.create(queue("orders"), {})
        assert [event.object for event in await soon(asyncio.gather(*waiting))] == [queue("orders")] * 5

    async def test_more_events_than_fit_a_window_all_come(self, subject: Subject) -> None:
        start = await last_event(subject)
        stream = subject.admin.events(start)
        waiting = await following(subject, stream)
        for n in range(700):
            await subject.admin.call(BROKER, "start-producers" if n % 2 else "stop-producers", {"reason": str(n)})
        found = [await soon(waiting), *await take(stream, 699)]
        assert [event.number for event in found] == list(range(start + 1, start + 701))
        assert [event.attributes["reason"] for event in found] == [str(n) for n in range(700)]

    async def test_request_for_pruned_events_raises_events_expired(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        await subject.expire_events()
        with pytest.raises(EventsExpired) as caught:
            await soon(anext(subject.admin.events(0)))
        first = caught.value.first
        assert 1 < first <= await last_event(subject) + 1
        assert str(caught.value)
        stream = subject.admin.events(first - 1)
        waiting = await following(subject, stream)
        await subject.admin.create(queue("after"), {})
        assert (await soon(waiting)).number == first

    # Samples

    async def test_samples_give_the_queues_that_changed(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 5})
        await subject.admin.create(queue("quiet"), {})
        stream = subject.admin.samples()
        waiting = await following(subject, stream)
        taken = await subject.publish("orders", 3)
        async with asyncio.timeout(LIMIT):
            while True:
                await subject.sample()
                samples = await soon(waiting)
                found = dict(samples.queues)
                if queue("orders") in found and found[queue("orders")]["depth_messages"] == taken == 3:
                    break
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
        orders = found[queue("orders")]
        assert set(orders) == set(SAMPLED)
        assert (orders["state"], orders["effective_capacity_messages"]) == ("NORMAL", 5)
        assert samples.at > 0

    # The connection

    async def test_many_requests_at_once_are_all_answered(self, subject: Subject) -> None:
        await asyncio.gather(*(subject.admin.create(queue(f"queue-{n}"), {}) for n in range(200)))
        found = await asyncio.gather(*(subject.admin.read(queue(f"queue-{n}")) for n in range(200)))
        assert [f["name"] for f in found] == [f"queue-{n}" for n in range(200)]

    async def test_a_lost_connection_ends_everything_with_unreachable(self, subject: Subject) -> None:
        events = await following(subject, subject.admin.events())
        samples = await following(subject, subject.admin.samples())
        await subject.lose_connection()
        for waiting in (events, samples):
            with pytest.raises(BrokerUnreachable):
                await soon(waiting)
        with pytest.raises(BrokerUnreachable):
            await soon(subject.admin.read(BROKER))

    async def test_close_ends_the_readers_and_may_be_called_again(self, subject: Subject) -> None:
        events = await following(subject, subject.admin.events())
        await subject.admin.close()
        await subject.admin.close()
        with pytest.raises((AdminError, StopAsyncIteration)):
            await soon(events)
