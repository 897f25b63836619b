"""A broker behind an adapter, as `brokers.admin.BrokerAdmin`: one poller however many use it, numbered events, stops.

Requests for objects are answered from the inventory at once. A change goes to the broker, is read back and then
answered; its event has the actor, and the next poll finds nothing new. While the broker does not answer, requests and
streams raise BrokerUnreachable: what was read last is not shown as the present.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from brokers.adapters.adapter import Adapter
from brokers.adapters.capabilities import check_effect
from brokers.adapters.differences import policy_facts
from brokers.adapters.explanation import explain
from brokers.adapters.feeds import EventFeed, SampleFeed
from brokers.adapters.observed import Observed
from brokers.adapters.preview import preview
from brokers.adapters.stop_requests import answer, queues_in, requested_end, scopes_of
from brokers.adapters.stops import check_end
from brokers.adapters.totals import percent_used
from brokers.admin import (
    AdminError,
    AlreadyExists,
    Event,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    Page,
    Samples,
    StaleVersion,
)
from brokers.engine.management.queries import Query
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, Operation, check_arguments, check_attributes


class AdaptedBroker:
    """A `brokers.admin.BrokerAdmin` over what is observed of a broker. Every method can raise BrokerUnreachable."""

    def __init__(self, observed: Observed, adapter: Adapter) -> None:
        self._observed = observed
        self._adapter = adapter

    # -- reading --------------------------------------------------------------------------------------------------

    async def types(self) -> Mapping[str, ManagedType]:
        self._observed.check_reachable()
        return self._adapter.types

    async def read(self, name: ObjectName) -> ManagedObject:
        self._observed.check_reachable()
        return self._observed.inventory.read(name)

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
        self._observed.check_reachable()
        return self._observed.inventory.query(type_name, Query(where, search, sort, offset, count))

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        return EventFeed(self._observed.feeds, after)

    def samples(self) -> AsyncIterator[Samples]:
        return SampleFeed(self._observed.feeds)

    async def close(self) -> None:
        """Do nothing: the poller serves others, too."""

    # -- changing -------------------------------------------------------------------------------------------------

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        declared = self._declared(name)
        creator = self._adapter.creator
        if not declared.creatable or creator is None:
            raise NotAllowed(f"this broker's objects of type {name.type} cannot be created here")
        values = _checked(declared, {**dict(name.keys), **attributes}, creating=True)
        with self._observed.freshness.change(name, _columns(declared)):
            if await self._is_there(name):
                raise AlreadyExists(f"{name} exists already")
            await creator.create(name, values, self._observed.inventory.objects)
            return await self._read_back(name, None, actor)

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        """Set attributes. The broker has no versions: the object is read again before the change, and a change by
        another client within that round trip is overwritten."""
        declared = self._declared(name)
        values = _checked(declared, attributes, creating=False)
        async with self._observed.stops.lock:
            before = await self._read_again(name)
            if before.version != version:
                raise StaleVersion(f"{name} has changed since it was read", before.version)
            with self._observed.freshness.change(name, _columns(declared)):
                await self._adapter.update(name, values, self._observed.inventory.objects)
                self._observed.stops.changed(name)
                return await self._read_back(name, before, actor)

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        declared = self._declared(name)
        creator = self._adapter.creator
        if not declared.deletable or creator is None:
            raise NotAllowed(f"this broker's objects of type {name.type} cannot be deleted here")
        before = await self._read_again(name)
        if version is not None and before.version != version:
            raise StaleVersion(f"{name} has changed since it was read", before.version)
        with self._observed.freshness.change(name, _columns(declared)):
            await creator.delete(name, self._observed.inventory.objects)
            now = self._observed.now()
            gone = policy_facts(name, {c: before[c] for c in _columns(declared)}, None, now, actor=actor)
            self._observed.removed(name, gone if name.type == "Policy" else ())

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        declared = self._declared(name).operation(operation)
        if declared is None:
            raise NotFound(f"this broker has no operation {operation} for objects of type {name.type}")
        given, wrong = check_arguments(declared, arguments)
        if wrong:
            raise InvalidValue(dict(wrong))
        if name.type != "Broker":
            self._observed.inventory.read(name)  # raises NotFound
        objects = self._observed.inventory.objects
        if operation == "explain":
            return explain(self._adapter.types[name.type], objects[name])
        if operation == "preview-change":
            return preview(given, self._adapter.types, objects, lambda c: self._adapter.limits_after(c, objects))
        if operation == "stop-producers":
            return await self._stop(name, declared, given)
        if operation == "start-producers":
            return await self._start(name, given)
        if operation == "preview-stop":
            return self._preview_stop(name, given)
        return await self._adapter.call(name, operation, given, objects)

    async def _stop(self, name: ObjectName, declared: Operation, given: Mapping[str, Any]) -> Mapping[str, Any]:
        check_effect(declared, given.get("effect", ""))
        objects, now = self._observed.inventory.objects, self._observed.now()
        scopes, missing = scopes_of(name, given, objects)
        end = requested_end(given, now)
        check_end(end, queues_in(scopes, objects), lambda queue: percent_used(objects.get(queue)))
        changed = await self._observed.stops.stop(
            scopes, reason=given.get("reason", ""), actor=given.get("actor", ""), now=now, end=end
        )
        return self._answer(scopes, changed, missing, stopped=self._observed.stops.covered())

    def _preview_stop(self, name: ObjectName, given: Mapping[str, Any]) -> Mapping[str, Any]:
        objects = self._observed.inventory.objects
        scopes, _ = scopes_of(name, given, objects)
        covered = queues_in(scopes, objects)
        try:
            planned = self._observed.stops.planned(scopes)
        except AdminError as error:
            return {"queues": 0, "unstoppable": len(covered), "fault": str(error)}
        stopped = {queue for targets in planned.values() for target in targets for queue in target.queues}
        left = sum(1 for queue in covered if queue not in stopped)
        return {"queues": len(covered) - left, "unstoppable": left, "fault": ""}

    async def _start(self, name: ObjectName, given: Mapping[str, Any]) -> Mapping[str, Any]:
        scopes, missing = scopes_of(name, given, self._observed.inventory.objects)
        changed = await self._observed.stops.start(
            scopes, actor=given.get("actor", ""), reason=given.get("reason", ""), only=given.get("only", False)
        )
        return self._answer(scopes, changed, missing)

    def _answer(
        self,
        scopes: list[Scope],
        changed: list[Scope],
        missing: int,
        *,
        stopped: Mapping[str, Collection[ObjectName]] | None = None,
    ) -> Mapping[str, Any]:
        """`stopped`: the queues that stops have stopped, see `Stops.covered`; not given: the producers were started."""
        self._observed.show_stops()
        objects = self._observed.inventory.objects
        covered = queues_in(scopes, objects)
        if stopped is None:
            return answer(covered, changed, missing, objects)
        made = {queue for scope in scopes for queue in stopped.get(str(scope), ())}
        of_stop = [queue for queue in covered if queue in made]
        return answer(of_stop, changed, missing, objects, unstoppable=len(covered) - len(of_stop))

    def _declared(self, name: ObjectName) -> ManagedType:
        self._observed.check_reachable()
        declared = self._adapter.types.get(name.type)
        if declared is None:
            raise NotFound(f"this broker has no objects of type {name.type}")
        return declared

    async def _is_there(self, name: ObjectName) -> bool:
        try:
            await self._adapter.read(name)
        except NotFound:
            return False
        return True

    async def _read_again(self, name: ObjectName) -> ManagedObject:
        with self._observed.freshness.request() as since:
            self._observed.apply(await self._adapter.read(name), since=since)
        return self._observed.inventory.read(name)

    async def _read_back(self, name: ObjectName, before: ManagedObject | None, actor: str) -> ManagedObject:
        """Take over the object as the broker has it after a change, with the event of the change."""
        seen = await self._adapter.read(name)
        columns = _columns(self._adapter.types[name.type])
        old = None if before is None else {c: before[c] for c in columns}
        read: Mapping[str, Any] = seen.objects.get(name, {})
        new = {c: read.get(c, old and old.get(c)) for c in columns}
        created_queue = before is None and name.type != "Policy"
        found = () if created_queue else policy_facts(name, old, new, seen.at, actor=actor)
        self._observed.apply(seen, instead=found, kinds=("policy-changed",))
        return self._observed.inventory.read(name)


def _columns(declared: ManagedType) -> list[str]:
    return [a.name for a in declared.writable]


def _checked(declared: ManagedType, attributes: Mapping[str, Any], *, creating: bool) -> dict[str, Any]:
    values, wrong = check_attributes(declared, attributes, creating=creating)
    if wrong:
        raise InvalidValue(dict(wrong))
    return values
