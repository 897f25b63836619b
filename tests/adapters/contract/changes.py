"""Changes of limits, and what can be created and deleted; what a refused change leaves behind: nothing."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import AlreadyExists, InvalidValue, ManagedObject, NotAllowed, NotFound, StaleVersion
from brokers.model import Kind, ManagedType, ObjectName
from tests.adapters.contract.subject import Subject

WANTED = 20_000_000  # of a limit that is changed, messages or bytes: above the smallest that a broker takes
LIMITS = ("capacity_messages", "capacity_bytes")


async def changeable(subject: Subject) -> list[tuple[ObjectName, str]]:
    """Return a queue with a limit of it that can be changed, if there is one. All others are refused."""
    declared, name = (await subject.types())["Queue"], subject.queues[0]
    writable = [a.name for a in declared.writable]
    before = await subject.admin.read(name)
    for limit in {*LIMITS} - {*writable}:
        with pytest.raises(InvalidValue, match=limit):
            await subject.admin.update(name, {limit: WANTED}, before.version)
    return [(name, limit) for limit in LIMITS if limit in writable][:1]


async def restored(subject: Subject, before: ManagedObject) -> ManagedObject:
    """Give an object the values that it had before."""
    now = await subject.admin.read(before.name)
    declared = (await subject.types())[before.name.type]
    values = {a.name: before[a.name] for a in declared.writable if before[a.name] != now[a.name]}
    return await subject.admin.update(before.name, values, now.version) if values else now


class Changes:
    async def test_an_update_is_read_back_is_an_event_and_can_be_taken_back(self, subject: Subject) -> None:
        for name, limit in await changeable(subject):
            limits, last = await subject.limits(), await subject.last_event()
            before = await subject.admin.read(name)
            after = await subject.admin.update(name, {limit: WANTED}, before.version, actor="ada")
            assert after[limit] == WANTED
            assert after.version != before.version
            assert await subject.limits() != limits
            (event,) = await subject.events_of("policy-changed", name, last)
            assert event.attributes["actor"] == "ada"
            assert event.attributes["before"][limit] == before[limit]
            assert event.attributes["after"][limit] == WANTED
            assert (await restored(subject, before))[limit] == before[limit]
            assert await subject.limits() == limits

    async def test_a_stale_update_is_refused_and_changes_nothing(self, subject: Subject) -> None:
        for name, limit in await changeable(subject):
            before = await subject.admin.read(name)
            after = await subject.admin.update(name, {limit: WANTED}, before.version)
            limits = await subject.limits()
            with pytest.raises(StaleVersion) as stale:
                await subject.admin.update(name, {limit: WANTED + 1}, before.version)
            assert stale.value.current == after.version
            assert await subject.limits() == limits
            await restored(subject, before)

    @pytest.mark.parametrize("value", [-1, "many", True, 1 << 63], ids=str)
    async def test_an_invalid_value_names_its_field_and_changes_nothing(self, subject: Subject, value: Any) -> None:
        for name, limit in await changeable(subject):
            before, limits = await subject.admin.read(name), await subject.limits()
            with pytest.raises(InvalidValue) as refused:
                await subject.admin.update(name, {limit: value}, before.version)
            assert limit in refused.value.errors
            assert limit in refused.value.errors[limit]
            declared = (await subject.types())["Queue"]
            for other in [a.name for a in declared.attributes if not a.writable]:
                with pytest.raises(InvalidValue, match=other):
                    await subject.admin.update(name, {limit: WANTED, other: 1}, before.version)
            assert _without_rates(await subject.admin.read(name)) == _without_rates(before)
            assert await subject.limits() == limits

    async def test_what_is_not_writable_anywhere_is_refused(self, subject: Subject) -> None:
        limits = await subject.limits()
        for name, declared in (await subject.types()).items():
            for item in (await subject.admin.query(name, count=1)).items:
                for attribute in [a for a in declared.attributes if not a.writable]:
                    with pytest.raises(InvalidValue, match=attribute.name):
                        await subject.admin.update(item.name, {attribute.name: item[attribute.name]}, item.version)
        assert await subject.limits() == limits

    async def test_objects_are_created_and_deleted_where_declared_and_refused_elsewhere(self, subject: Subject) -> None:
        limits = await subject.limits()
        for name, declared in (await subject.types()).items():
            new = ObjectName(name, tuple((key, _key(subject, key)) for key in declared.keys))
            if not declared.creatable:
                with pytest.raises(NotAllowed, match="cannot be created"):
                    await subject.admin.create(new, {})
            if not declared.deletable:
                for item in (await subject.admin.query(name, count=1)).items:
                    with pytest.raises(NotAllowed, match="cannot be deleted"):
                        await subject.admin.delete(item.name)
                    assert (await subject.admin.read(item.name)).name == item.name
            if declared.creatable and declared.deletable:
                await self._created_and_deleted(subject, new, declared)
        assert await subject.limits() == limits

    async def _created_and_deleted(self, subject: Subject, new: ObjectName, declared: ManagedType) -> None:
        attribute = next(a for a in declared.writable if a.kind is Kind.INTEGER and a.name.startswith("capacity_"))
        made = await subject.admin.create(new, {attribute.name: WANTED}, actor="ada")
        assert made[attribute.name] == WANTED
        assert _without_rates(await subject.admin.read(new)) == _without_rates(made)
        with pytest.raises(AlreadyExists):
            await subject.admin.create(new, {attribute.name: WANTED + 1})
        assert _without_rates(await subject.admin.read(new)) == _without_rates(made)
        with pytest.raises(InvalidValue):
            await subject.admin.create(ObjectName(new.type, new.keys[:-1]), {})
        changed = await subject.admin.update(new, {attribute.name: WANTED + 2}, made.version)
        with pytest.raises(StaleVersion):
            await subject.admin.delete(new, made.version)
        await subject.admin.delete(new, changed.version, actor="ada")
        with pytest.raises(NotFound):
            await subject.admin.read(new)
        with pytest.raises(NotFound):
            await subject.admin.delete(new)


def _without_rates(item: ManagedObject) -> dict[str, Any]:
    """All attributes but rates, which become known and change meanwhile."""
    return {name: value for name, value in item.attributes.items() if not name.startswith("rate_")}


def _key(subject: Subject, key: str) -> str:
    return subject.queues[0]["virtualhost"] if key == "virtualhost" else "contract-created"
