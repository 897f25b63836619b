"""THE interface between a console and any broker: one Protocol, frozen snapshots, and the errors it may raise.

A driver in `brokers/drivers/` implements it for a real broker over the network; `brokers/testing.py` implements it in
memory. One contract suite (`tests/drivers/`) tests both. Objects and their attributes are those of `brokers/model/`.

All methods are coroutines of one event loop. Nothing here depends on sockets, Django or a particular broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from brokers.model import ManagedType, ObjectName


@dataclass(frozen=True, slots=True)
class ManagedObject:
    """A snapshot of an object. An update gives the `version` on which it is based."""

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
    """A numbered fact. Numbers increase by one, also across restarts of the broker.

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
    "oldest_message_at",
    "effective_capacity_bytes",
    "effective_stop_bytes",
    "effective_resume_bytes",
    "effective_capacity_messages",
    "effective_stop_messages",
    "effective_resume_messages",
    "version",
)


class Called(dict[str, Any]):
    """The answer of an operation, with the object as it was when the operation ended, before anything else was done.
    `after`: None if it does not exist any more, or cannot be read."""

    def __init__(self, answer: Mapping[str, Any], after: ManagedObject | None) -> None:
        super().__init__(answer)
        self.after = after


class AdminError(Exception):
    """The broker refused a request, or cannot be reached. The message is a sentence for people."""


class NotFound(AdminError):
    """There is no such object, type or operation."""


class AlreadyExists(AdminError):
    """An object of that name is there already."""


class InvalidValue(AdminError):
    """A value is invalid. `errors` maps the attribute or argument to a sentence that says why."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


class StaleVersion(AdminError):
    """The object has changed since the version that the change was made from. `current` is its version now."""

    def __init__(self, message: str, current: int) -> None:
        super().__init__(message)
        self.current = current


class EffectNotConfirmed(AdminError):
    """On this broker the operation does something else to producers than to hold them, and the request does not name
    that. `effect`: what it does (`brokers.model.Operation.producer_effect`); the message says it in a sentence."""

    def __init__(self, message: str, effect: str) -> None:
        super().__init__(message)
        self.effect = effect


class NotAllowed(AdminError):
    """This connection's user may not do that."""


class BrokerUnreachable(AdminError):
    """No answer: not connected, the connection was lost, or the request timed out. A change may have been made or
    not."""


class TryAgain(AdminError):
    """The broker cannot do it now, and has done nothing; the same request can succeed later."""


class EventsExpired(AdminError):
    """The requested events are no longer available. `first` is the number of the oldest one that is."""

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


class BrokerAdmin(Protocol):
    """The requests of a console to a broker."""

    async def types(self) -> Mapping[str, ManagedType]:
        """Return the types of managed objects of this broker."""
        ...

    async def read(self, name: ObjectName) -> ManagedObject:
        """Return a snapshot of an object. Raises NotFound."""
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
        """Return objects of a type. `where`: attribute -> value that it must equal, or a list of accepted values.
        `search`: text that must occur in the values of the object's name joined by `/`, case-insensitive.
        `sort`: attribute names separated by commas, with `-` in front for descending order; ties and no sort: by
        name. Raises InvalidValue."""
        ...

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        """Create an object. `actor`, here and below: the user named in the broker's events; "": the connection's own.
        `attributes`: without the keys of the name. Raises AlreadyExists, InvalidValue, NotFound."""
        ...

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        """Set the given attributes, all or none. Raises StaleVersion, InvalidValue, NotFound. Of two changes within one
        round trip to a broker that has no versions the last writer wins; its type's `version` says so."""
        ...

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        """Delete an object. Raises StaleVersion (if a version is given), NotFound, InvalidValue."""
        ...

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call an operation; the answer has the fields that the operation's `returns` declare. It is a `Called` if the
        broker can return the object with it."""
        ...

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        """Yield every event with a number above `after` (None: from now on), then new ones, without gaps.
        Ends with BrokerUnreachable when the connection is lost; raises EventsExpired."""
        ...

    def samples(self) -> AsyncIterator[Samples]:
        """Yield samples about once a second. Ends with BrokerUnreachable when the connection is lost."""
        ...

    async def close(self) -> None: ...
