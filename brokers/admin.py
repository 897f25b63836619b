"""THE interface between a console and any broker: one Protocol, frozen snapshots, and the errors it may raise.

A driver in `brokers/drivers/` speaks it to a real broker over the wire; `brokers/testing.py` has it in memory. One
contract suite (`tests/drivers/`) holds both to it. Objects and their attributes are those of `brokers/model/`.

All methods are coroutines of one event loop. Nothing here knows a socket, Django or a particular broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from brokers.model import ManagedType, ObjectName


@dataclass(frozen=True, slots=True)
class ManagedObject:
    """What an object was at one moment. `version` names the state that an update is made from."""

    name: ObjectName
    version: int
    attributes: Mapping[str, Any]

    def __getitem__(self, attribute: str) -> Any:
        return self.attributes[attribute]


@dataclass(frozen=True, slots=True)
class Page:
    """`items` from `offset` on, of `total` objects that matched."""

    items: tuple[ManagedObject, ...]
    total: int
    offset: int


@dataclass(frozen=True, slots=True)
class Event:
    """A numbered fact. Numbers grow by one for ever, across restarts of the broker.

    `at`: ms since the epoch. `kind`: the name of a declared notification. `text`: the line of the broker log, without
    its timestamp. `attributes`: facts of this kind; an event about a queue carries that queue's `state`,
    `depth_messages`, `depth_bytes` and `blocked_producers` just after it.
    """

    number: int
    at: int
    kind: str
    object: ObjectName
    text: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """The queues that changed within the last second, each with the attributes of `SAMPLED`; `at` in ms."""

    at: int
    queues: tuple[tuple[ObjectName, Mapping[str, Any]], ...]


#: The Queue attributes that a sample carries.
SAMPLED: tuple[str, ...] = (
    "state",
    "depth_messages",
    "depth_bytes",
    "unacknowledged_messages",
    "producers",
    "blocked_producers",
    "draining_producers",
    "consumers",
    "credit",
    "rate_in",
    "rate_out",
    "enqueued_messages",
    "dequeued_messages",
    "overfull_since",
    "stopped_since",
    "effective_capacity_bytes",
    "effective_stop_bytes",
    "effective_resume_bytes",
    "effective_capacity_messages",
    "effective_stop_messages",
    "effective_resume_messages",
    "version",
)


class AdminError(Exception):
    """The broker refused, or could not be asked. The message is a sentence for people."""


class NotFound(AdminError):
    """There is no such object, type or operation."""


class AlreadyExists(AdminError):
    """An object of that name is there already."""


class InvalidValue(AdminError):
    """A value was refused. `errors` maps the attribute or argument to what is wrong with it."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


class StaleVersion(AdminError):
    """The object has changed since the version that the change was made from. `current` is its version now."""

    def __init__(self, message: str, current: int) -> None:
        super().__init__(message)
        self.current = current


class NotAllowed(AdminError):
    """This connection's user may not do that."""


class BrokerUnreachable(AdminError):
    """No answer: not connected, the connection was lost, or the time was up. Whether a change was made is unknown."""


class EventsExpired(AdminError):
    """The events asked for are no longer kept. `first` is the number of the oldest one that is."""

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


class BrokerAdmin(Protocol):
    """What a console may ask of a broker."""

    async def types(self) -> Mapping[str, ManagedType]:
        """The types of managed objects that this broker has."""
        ...

    async def read(self, name: ObjectName) -> ManagedObject:
        """Raises NotFound."""
        ...

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
        """Objects of a type. `where`: attribute -> value it must equal, or a list of values of which it must equal
        one. `search`: text that must occur in the values of the object's name joined by `/`, whatever the case.
        `sort`: attribute names separated by commas, each with `-` before it for descending; ties and no sort: by
        name. Raises InvalidValue."""
        ...

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        """`actor`, here and below: on whose behalf, as the broker's events tell it; "": the connection's own user.
        `attributes` without those that make the name. Raises AlreadyExists, InvalidValue, NotFound."""
        ...

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        """Change the given attributes, all or none. Raises StaleVersion, InvalidValue, NotFound."""
        ...

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        """Raises StaleVersion (if a version is given), NotFound, InvalidValue."""
        ...

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call an operation; the answer has the fields that the operation's `returns` declare."""
        ...

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        """Every event with a number above `after` (None: from now on), then those to come, none left out.
        Ends with BrokerUnreachable when the connection is lost; raises EventsExpired."""
        ...

    def samples(self) -> AsyncIterator[Samples]:
        """About once a second. Ends with BrokerUnreachable when the connection is lost."""
        ...

    async def close(self) -> None: ...
