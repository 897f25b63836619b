"""Creating, changing and deleting managed objects, and calls of their operations."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion
from brokers.model import object_name
from tests.drivers.contract.subject import BROKER, HOST, Subject, queue


class Changes:
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
