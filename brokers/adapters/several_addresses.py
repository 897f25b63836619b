"""A broker with several addresses: nodes of a cluster, a pair of which one is active, or another protocol of one node.

Each connection tries the addresses in their order and takes the first that answers; until it fails, it is the only one
that is used. One that failed before everything was read is the last to be tried again. An address that leads to
another broker than before is not taken: its queues would look like deletions, and operators' stops would be made on the
wrong broker. What distinguishes brokers is remembered with the broker's objects, so that a restart does not forget it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokers.adapters.adapter import Adapter, Creator, Faults, Finding, Objects, StopTarget
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.admin import AdminError, BrokerUnreachable, NotAllowed
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

log = logging.getLogger("headgate.adapters")


#: Attribute of the broker's object: its addresses, and what is the same at all of them. It is not declared, so that no
#: client sees it.
IDENTITY = "address_identity"
_BROKER = object_name("Broker")


class SeveralAddresses:
    """An `Adapter` of a broker over one adapter for each of its addresses. `adapters`: by URL, in order."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self._adapters = dict(adapters)
        self._url = next(iter(self._adapters))
        self._identity = ""
        self._connected = False  # since the last failure
        self._has_read = False  # everything, since it was connected

    @property
    def _current(self) -> Adapter:
        return self._adapters[self._url]

    def recall(self, broker: Attributes) -> None:
        """Continue with what an earlier process knew. `broker`: attributes of the broker's object, as remembered. Other
        addresses may lead to another broker."""
        addresses, identity = broker.get(IDENTITY) or ([], "")
        if list(addresses) == list(self._adapters):
            self._identity = identity

    # -- what is found out by `connect` ---------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        """Raises NotAllowed if an address refuses the user and none answers, else BrokerUnreachable, naming all."""
        faults: list[tuple[str, AdminError]] = []
        others: dict[str, Sequence[Finding]] = {}
        order, self._connected = self._order(), False
        for url in order:
            adapter = self._adapters[url]
            try:
                found = await adapter.connect()
            except AdminError as error:
                faults.append((url, error))
            except Exception as error:  # an answer that no version was known to give: the next address may do better
                faults.append((url, BrokerUnreachable(f"its answer cannot be read: {error!r}")))
            else:
                fault = other_broker(adapter.identity, self._identity)
                if not fault:
                    return self._take(url, found)
                others[url] = found
                faults.append((url, BrokerUnreachable(fault)))
        if len(others) == len(order) and len({self._adapters[url].identity for url in others}) == 1:
            log.warning("the broker of all addresses is %s now", self._adapters[order[0]].identity)
            return self._take(order[0], others[order[0]])  # it was renamed
        for url in others:
            await self._adapters[url].close()
        said = "; ".join(f"{url}: {error}" for url, error in faults)
        raise next((NotAllowed(said) for _, error in faults if isinstance(error, NotAllowed)), BrokerUnreachable(said))

    def _order(self) -> list[str]:
        """Return the URLs in the order of the configuration; first those after one that has just failed to be read."""
        urls = list(self._adapters)
        if not self._connected or self._has_read:
            return urls
        after = urls.index(self._url) + 1
        return urls[after:] + urls[:after]

    def _take(self, url: str, found: Sequence[Finding]) -> Sequence[Finding]:
        if url != self._url:
            log.warning("connected to %s instead of %s", url, self._url)
        self._url, self._connected, self._has_read = url, True, False
        self._identity = self._current.identity or self._identity
        return found

    @property
    def types(self) -> Mapping[str, ManagedType]:
        return self._current.types

    @property
    def reports(self) -> frozenset[str]:
        return self._current.reports

    @property
    def paged(self) -> bool:
        return self._current.paged

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def most_stopped(self) -> int | None:
        return self._current.most_stopped

    @property
    def creator(self) -> Creator | None:
        return self._current.creator

    # -- passed on to the address in use --------------------------------------------------------------------------

    async def read_changing(self) -> Observation:
        return await self._current.read_changing()

    async def read_all(self) -> AsyncIterator[Observation]:
        remembered = {IDENTITY: [list(self._adapters), self._identity]}
        async for seen in self._current.read_all():
            if self._identity and _BROKER in seen.objects:
                objects = {**seen.objects, _BROKER: {**seen.objects[_BROKER], **remembered}}
                yield replace(seen, objects=objects)
            else:
                yield seen
        self._has_read = True

    def reported(self) -> AsyncIterator[Reported]:
        return self._current.reported()

    async def read(self, name: ObjectName) -> Observation:
        return await self._current.read(name)

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        await self._current.update(name, attributes, objects)

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        return await self._current.call(name, operation, arguments, objects)

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        return self._current.limits_after(changes, objects)

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        return self._current.stop_targets(scopes, objects)

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        return await self._current.stop(targets, in_round=in_round)

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        return await self._current.start(targets, in_round=in_round)

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        return self._current.is_stopped(target, objects)

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        return self._current.restore_now(target, objects)

    def clock_set(self, step: int) -> None:
        for adapter in self._adapters.values():
            adapter.clock_set(step)

    async def close(self) -> None:
        for adapter in self._adapters.values():
            await adapter.close()


def other_broker(identity: str, known: str) -> str:
    """Return, as a part of a sentence, that an address leads to another broker; "": it does not, or that is unknown."""
    return f"is another broker: it is {identity}, not {known}" if identity and known and identity != known else ""
