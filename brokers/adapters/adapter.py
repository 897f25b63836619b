"""The interface of a kind of broker to the core of the adapters: read it, change it, stop its producers.

An adapter has connections and what it found out about the broker's version, and no other state: objects, events and
stops are the core's. Reading and writing are separate in each adapter: pure functions turn the broker's answers into
observations and changes into requests, so that recorded answers of every version test them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.admin import AdminError
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName

Objects = Mapping[ObjectName, Attributes]

#: Targets whose change has failed, by their id, with the reason.
Faults = Mapping[str, AdminError]


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of testing a broker's address and credentials. `fault`: what is missing because of it, "" if nothing.
    Both are sentences for operators."""

    text: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class StopTarget:
    """Something of the broker that is changed to stop producers, such as a policy or an address.

    `id`: unique within the broker, stable across restarts. `queues`: the queues whose producers it stops, which can be
    more than were requested. `restore`: what a start needs to undo it, as JSON values; read before the change.
    """

    id: str
    queues: frozenset[ObjectName]
    restore: Mapping[str, Any] = field(default_factory=dict)


class Creator(Protocol):
    """Creates and deletes objects of a broker that lets them be created over its management."""

    async def create(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        """Create an object of a creatable type. `attributes`: checked. `objects`: as last observed."""
        ...

    async def delete(self, name: ObjectName, objects: Objects) -> None:
        """Delete an object of a deletable type."""
        ...


class Adapter(Protocol):
    """Every coroutine may raise the errors of `brokers.admin`: BrokerUnreachable without an answer in time (then a
    change may have been made or not), NotAllowed for missing permissions, in the words of an operator."""

    @property
    def types(self) -> Mapping[str, ManagedType]:
        """What this broker has, as found by `connect`: types without the attributes and operations that it lacks."""
        ...

    @property
    def reports(self) -> frozenset[str]:
        """Kinds of events that the broker itself reports now: they are not derived from polls."""
        ...

    @property
    def paged(self) -> bool:
        """Whether `read_all` comes in pages, so that an object can be missed in one round."""
        ...

    @property
    def identity(self) -> str:
        """What is the same at every address of one broker and no other broker has, such as the name of a cluster; ""
        before `connect`, or if this kind has no such thing."""
        ...

    @property
    def most_stopped(self) -> int | None:
        """How many targets a request may stop at most; None: any number. A stop covers what is created later beyond
        that."""
        ...

    @property
    def creator(self) -> Creator | None:
        """None: none of the types is creatable or deletable."""
        ...

    async def connect(self) -> Sequence[Finding]:
        """Sign in and find out the version, plugins and permissions. Raises if nothing can be read at all."""
        ...

    async def read_changing(self) -> Observation:
        """Read, as cheaply as this kind of broker allows, what changes from second to second."""
        ...

    def read_all(self) -> AsyncIterator[Observation]:
        """Read everything, in pages."""
        ...

    def reported(self) -> AsyncIterator[Reported]:
        """Yield events that the broker reports; ends at once if this one reports none. While it runs, `reports` names
        their kinds."""
        ...

    async def read(self, name: ObjectName) -> Observation:
        """Read one object. Raises NotFound."""
        ...

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        """Set checked attributes. `objects`: as last observed. Raises InvalidValue for what this broker refuses."""
        ...

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        """Call an operation that is not a stop or start."""
        ...

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        """Return the queues that checked changes of policies and limits apply to, each with what `read` would say of
        its limits after them. Raises InvalidValue for what this broker refuses."""
        ...

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        """Return what has to be changed to stop the producers of each scope. Raises NotFound for a queue that is not
        there, InvalidValue if this broker cannot. Targets of the same id from several scopes are one."""
        ...

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        """Stop the producers of the targets. Idempotent. If it raises, any of them may be stopped. `in_round`: in a
        round of polling, which must not wait for what takes seconds: such a target is not stopped until a later call.
        And each is tried, whatever becomes of the others: returns those that failed, by their id, with the reason."""
        ...

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        """Undo `stop`, and nothing else. Idempotent; also for targets that were never stopped, or are gone. Each is
        tried, whatever becomes of the others: returns those that are not started, by their id, with the reason.
        `in_round`: as in `stop`."""
        ...

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        """Return whether the target is stopped now, as last observed: False after a restart of a broker that forgets
        stops."""
        ...

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        """Return what a start of a stopped target has to restore by what was last observed: another client may have
        changed it during the stop. None: as recorded, since what was observed is the stop itself, or a step of it."""
        ...

    def clock_set(self, step: int) -> None:
        """Take note that the clock of this machine was set by `step` ms: times of day from before move with it."""
        ...

    async def close(self) -> None: ...
