"""Reading and querying managed objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brokers.admin import InvalidValue, NotFound
from brokers.model import TYPES, ObjectName, object_name
from tests.drivers.contract.subject import BROKER, Subject, exchange, policy, queue


class Objects:
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
