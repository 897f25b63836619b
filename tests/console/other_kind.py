"""The broker in memory as one of another kind: with fewer types, attributes and operations, as their models declare.

What a kind lacks is unknown here, too: reading it returns no attribute, filtering by it is invalid, calling it fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from brokers.adapters.capabilities import check_effect, types_of
from brokers.adapters.rabbitmq import CAPABILITIES
from brokers.admin import BrokerAdmin, Event, InvalidValue, ManagedObject, NotAllowed, NotFound, Page, Samples
from brokers.model import ManagedType, ObjectName, check_attributes

#: Operations that a kind may lack.
_LACKS = {"explain", "preview-change"}

#: A kind that reports no producers of a queue, explains and previews nothing, and whose stops reject.
TYPES = {
    name: replace(each, operations=tuple(o for o in each.operations if o.name not in _LACKS))
    for name, each in types_of(CAPABILITIES).items()
}


class OtherKind:
    """A `BrokerAdmin` over one of the bundled kind, restricted to `types`. Unknown numbers of samples are None."""

    def __init__(self, whole: BrokerAdmin, types: Mapping[str, ManagedType] = TYPES) -> None:
        self._whole = whole
        self._types = types
        self.close = whole.close

    async def types(self) -> Mapping[str, ManagedType]:
        return self._types

    async def read(self, name: ObjectName) -> ManagedObject:
        self._declared(name.type)
        return self._restricted(await self._whole.read(name))

    async def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
    ) -> Page:
        declared = self._declared(type_name)
        for name in (*(where or {}), *(each.strip().lstrip("-") for each in sort.split(",") if each.strip())):
            if declared.attribute(name) is None:
                raise InvalidValue({name: f"{name} is not an attribute of {type_name}"})
        page = await self._whole.query(type_name, where=where, search=search, sort=sort, offset=offset, count=count)
        return Page(tuple(self._restricted(each) for each in page.items), page.total, page.offset)

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        if not self._declared(name.type).creatable:
            raise NotAllowed(f"objects of type {name.type} cannot be created here")
        return self._restricted(await self._whole.create(name, attributes, actor=actor))

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        _, wrong = check_attributes(self._declared(name.type), attributes, creating=False)
        if wrong:
            raise InvalidValue(dict(wrong))
        return self._restricted(await self._whole.update(name, attributes, version, actor=actor))

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        if not self._declared(name.type).deletable:
            raise NotAllowed(f"objects of type {name.type} cannot be deleted here")
        await self._whole.delete(name, version, actor=actor)

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        declared = self._declared(name.type).operation(operation)
        if declared is None:
            raise NotFound(f"this broker has no operation {operation} for objects of type {name.type}")
        if operation == "stop-producers":
            check_effect(declared, str(arguments.get("effect") or ""))
        given = {key: value for key, value in arguments.items() if key != "effect"}
        answer = await self._whole.call(name, operation, given)
        return {key: None if key == "producers" else value for key, value in answer.items()}

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        async for event in self._whole.events(after):
            yield event

    async def samples(self) -> AsyncIterator[Samples]:
        known = {a.name for a in self._types["Queue"].attributes}
        async for samples in self._whole.samples():
            queues = tuple(
                (name, {key: value if key in known else None for key, value in values.items()})
                for name, values in samples.queues
            )
            yield Samples(samples.at, queues)

    def _declared(self, type_name: str) -> ManagedType:
        if type_name not in self._types:
            raise NotFound(f"{type_name!r} is not a type of managed objects of this broker")
        return self._types[type_name]

    def _restricted(self, found: ManagedObject) -> ManagedObject:
        known = {a.name for a in self._types[found.name.type].attributes}
        attributes = {key: value if key in known else None for key, value in found.attributes.items()}
        return ManagedObject(found.name, found.version, attributes)
