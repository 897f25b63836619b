"""What a broker declares that it has, it has; what it does not declare is absent everywhere. Reading and querying."""

from __future__ import annotations

import pytest

from brokers.admin import SAMPLED, InvalidValue, ManagedObject, NotFound
from brokers.model import TYPES, ManagedType, ObjectName
from tests.adapters.contract.subject import Subject, soon

EFFECTS = ("hold", "trickle", "reject", "cut")


def lacked(declared: ManagedType) -> list[str]:
    """Return the attributes that Headgate's own broker has of a type, and this one has not."""
    return [a.name for a in TYPES[declared.name].attributes if declared.attribute(a.name) is None]


def known(item: ManagedObject) -> set[str]:
    """Return the attributes that have a value. Clients of a driver get None for those that a broker lacks."""
    return {name for name, value in item.attributes.items() if value is not None}


class Declared:
    async def test_types_are_parts_of_the_declared_ones(self, subject: Subject) -> None:
        types = await subject.types()
        assert {"Broker", "Queue"} <= set(types) <= set(TYPES)
        for name, here in types.items():
            whole = TYPES[name]
            assert here.keys == whole.keys
            assert {*here.keys, "version"} <= {a.name for a in here.attributes} <= {a.name for a in whole.attributes}
            version = here.attribute("version")
            assert version is not None
            assert "the last writer wins" in version.description
            assert all(here.attribute(searched) for searched in here.searched)
            for operation in here.operations:
                original = whole.operation(operation.name)
                assert original is not None
                assert {a.name for a in operation.arguments} <= {a.name for a in original.arguments}
                assert bool(operation.producer_effect) == bool(original.producer_effect)
                if operation.producer_effect:
                    assert operation.producer_effect in EFFECTS
                    assert operation.producer_effect == "hold" or operation.remark, f"{name}: no sentence on its effect"
            assert {"stop-producers", "start-producers"} & {o.name for o in here.operations} in (
                set(),
                {"stop-producers", "start-producers"},
            ), "what can be stopped can be started"

    async def test_every_object_has_the_declared_attributes_of_the_declared_kinds(self, subject: Subject) -> None:
        for name, declared in (await subject.types()).items():
            for item in (await subject.admin.query(name)).items:
                assert known(item) <= {a.name for a in declared.attributes} <= set(item.attributes), name
                assert item.version == item["version"]
                for attribute in declared.attributes:
                    value = item[attribute.name]
                    assert attribute.check(value) == value, (name, attribute.name, value)
                read = await subject.admin.read(item.name)
                assert (read.name, set(read.attributes)) == (item.name, set(item.attributes))
                assert known(read) <= {a.name for a in declared.attributes}, name
        assert (await subject.admin.query("Queue")).total >= 2

    async def test_attributes_that_are_not_declared_cannot_be_named(self, subject: Subject) -> None:
        for name, declared in (await subject.types()).items():
            for attribute in lacked(declared):
                with pytest.raises(InvalidValue, match=attribute):
                    await subject.admin.query(name, where={attribute: 1})
                with pytest.raises(InvalidValue, match=attribute):
                    await subject.admin.query(name, sort=f"-{attribute}")
                for item in (await subject.admin.query(name, count=1)).items:
                    with pytest.raises(InvalidValue, match=attribute):
                        await subject.admin.update(item.name, {attribute: 1}, item.version)

    async def test_types_and_operations_that_are_not_declared_are_not_found(self, subject: Subject) -> None:
        types = await subject.types()
        for name, whole in TYPES.items():
            if name not in types:
                with pytest.raises(NotFound, match=name):
                    await subject.admin.query(name)
                with pytest.raises(NotFound):
                    await subject.admin.read(ObjectName(name, tuple((key, "1") for key in whole.keys)))
                continue
            here = {operation.name for operation in types[name].operations}
            for item in (await subject.admin.query(name, count=1)).items:
                for operation in whole.operations:
                    if operation.name not in here:
                        with pytest.raises(NotFound, match=operation.name):
                            await subject.admin.call(item.name, operation.name, {})

    async def test_samples_hold_the_sampled_attributes_and_none_that_is_not_declared(self, subject: Subject) -> None:
        stream = subject.admin.samples()
        name, declared = await subject.declare("contract-sampled"), (await subject.types())["Queue"]
        found = {}
        while name not in found:
            await subject.pass_time()
            found |= dict((await soon(anext(stream))).queues)
        for row in found.values():
            assert set(row) == set(SAMPLED)
            for attribute in SAMPLED:
                if declared.attribute(attribute) is None:
                    assert row[attribute] is None, f"{attribute} is sampled, and not declared"
        await subject.remove(name)

    async def test_queries_select_search_sort_and_page(self, subject: Subject) -> None:
        first, second = sorted(queue["name"] for queue in subject.queues)

        async def names(**query: object) -> list[str]:
            page = await subject.admin.query("Queue", **query)  # type: ignore[arg-type]
            return [str(item["name"]) for item in page.items if item["name"] in (first, second)]

        both = {"name": [first, second]}
        assert await names(where=both) == [first, second]
        assert await names(where=both, sort="-name") == [second, first]
        assert await names(where={"name": first}) == [first]
        assert await names(where={"name": []}) == []
        assert await names(search=first.upper()) == [first]
        assert await names(search="nothing has this") == []
        page = await subject.admin.query("Queue", where=both, offset=1, count=1)
        assert (page.total, page.offset, [item["name"] for item in page.items]) == (2, 1, [second])
        for wrong in ({"where": {"colour": "red"}}, {"sort": "-colour"}, {"offset": -1}):
            with pytest.raises(InvalidValue):
                await subject.admin.query("Queue", **wrong)  # type: ignore[arg-type]

    async def test_an_object_that_does_not_exist_is_not_found(self, subject: Subject) -> None:
        missing = ObjectName("Queue", (("virtualhost", subject.queues[0]["virtualhost"]), ("name", "missing")))
        with pytest.raises(NotFound):
            await subject.admin.read(missing)
        with pytest.raises(NotFound):
            await subject.admin.update(missing, {}, 1)
        if (await subject.types())["Queue"].operation("stop-producers") is not None:
            with pytest.raises(NotFound):
                await subject.admin.call(missing, "stop-producers", await subject.arguments(missing))
