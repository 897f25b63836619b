"""A broker with several addresses: nodes of a cluster, a pair of which one is active, or another protocol of one node.

Each connection tries the addresses in their order and takes the first that answers; until it fails, it is the only one
that is used. An address that leads to another broker than before is never taken: its queues would look like deletions,
and operators' stops would be made on the wrong broker.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from brokers.adapters.adapter import Adapter, Creator, Finding, Objects, StopTarget
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.admin import AdminError, BrokerUnreachable, NotAllowed
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName

log = logging.getLogger("headgate.adapters")


class SeveralAddresses:
    """An `Adapter` of a broker over one adapter for each of its addresses. `adapters`: by URL, in order."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self._adapters = dict(adapters)
        self._url = next(iter(self._adapters))
        self._identity = ""

    @property
    def _current(self) -> Adapter:
        return self._adapters[self._url]

    # -- what is found out by `connect` ---------------------------------------------------------------------------

    async def connect(self) -> Sequence[Finding]:
        """Raises NotAllowed if an address refuses the user and none answers, else BrokerUnreachable, naming all."""
        faults: list[tuple[str, AdminError]] = []
        for url, adapter in self._adapters.items():
            try:
                found = await adapter.connect()
                self._check(url, adapter)
            except AdminError as error:
                faults.append((url, error))
                continue
            if url != self._url:
                log.warning("connected to %s instead of %s", url, self._url)
            self._url, self._identity = url, adapter.identity or self._identity
            return found
        said = "; ".join(f"{url}: {error}" for url, error in faults)
        raise next((NotAllowed(said) for _, error in faults if isinstance(error, NotAllowed)), BrokerUnreachable(said))

    def _check(self, url: str, adapter: Adapter) -> None:
        if fault := other_broker(adapter.identity, self._identity):
            raise BrokerUnreachable(f"{url} {fault}")

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
    def creator(self) -> Creator | None:
        return self._current.creator

    # -- passed on to the address in use --------------------------------------------------------------------------

    async def read_changing(self) -> Observation:
        return await self._current.read_changing()

    def read_all(self) -> AsyncIterator[Observation]:
        return self._current.read_all()

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

    def stop_targets(self, scope: Scope, objects: Objects) -> Sequence[StopTarget]:
        return self._current.stop_targets(scope, objects)

    async def stop(self, targets: Sequence[StopTarget]) -> None:
        await self._current.stop(targets)

    async def start(self, targets: Sequence[StopTarget]) -> None:
        await self._current.start(targets)

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        return self._current.is_stopped(target, objects)

    async def close(self) -> None:
        for adapter in self._adapters.values():
            await adapter.close()


def other_broker(identity: str, known: str) -> str:
    """Return, as a part of a sentence, that an address leads to another broker; "": it does not, or that is unknown."""
    return f"is another broker: it is {identity}, not {known}" if identity and known and identity != known else ""
