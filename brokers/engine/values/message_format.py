"""What the engine must know of encoded messages to list them: the protocol layer's port, and one that knows nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from brokers.admin import InvalidValue


@dataclass(frozen=True, slots=True)
class DeadLetterMark:
    """Why and where from a message is a dead letter. `queue`: its name, in the same virtual host."""

    reason: str
    queue: str
    failed_deliveries: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """What precedes the body of a message. `properties`: the standard ones that are set, `application_properties`: the
    sender's own; both as plain values of full length. `created`: the sender's creation time, ms since the epoch, 0:
    none. `dead_letter`: None if it is none."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    application_properties: Mapping[str, Any] = field(default_factory=dict)
    created: int = 0
    dead_letter: DeadLetterMark | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """A whole message. `body`: its content, of `kind` data (the bytes), text (UTF-8), value or sequence (JSON), none
    (there is no body), undecodable (the whole message as it was sent). The maps have plain values of full length."""

    kind: str
    body: bytes | memoryview
    annotations: Mapping[str, Any] = field(default_factory=dict)
    delivery_annotations: Mapping[str, Any] = field(default_factory=dict)
    footer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be encoded. `kind` of the body: data or text (UTF-8). `ttl`: ms, 0: does not expire."""

    body: bytes
    kind: str = "data"
    durable: bool = False
    priority: int = 4
    ttl: int = 0
    properties: Mapping[str, Any] = field(default_factory=dict)
    application_properties: Mapping[str, Any] = field(default_factory=dict)


class MessageFormat(Protocol):
    """Reads encoded messages. Nothing that a producer may send raises an error."""

    def head(self, body: bytes, *, whole: bool = False) -> Head:
        """Return what precedes the body; empty if it cannot be read. Long sections are not decoded, unless `whole`: in
        their place is an entry "..." with their size."""
        ...

    def decoded_bytes(self, body: bytes) -> int:
        """Return about how many bytes `head`, `dead_letter` or a selector decodes; that is far less work."""
        ...

    def dead_letter(self, body: bytes) -> DeadLetterMark | None: ...

    def retried(self, body: bytes) -> bytes:
        """Return a dead letter as it goes back to its queue: without the annotations of dead letters."""
        ...

    def parts(self, body: bytes) -> Parts:
        """Return all of a message, for one who may read it."""
        ...

    def encoded(self, draft: Draft) -> bytes:
        """Return a new message. Raises InvalidValue, which names what cannot be encoded."""
        ...

    def selects(self, selector: str) -> Callable[[bytes], bool]:
        """Return whether encoded messages match a selector, as a function. One with properties that
        are too long to be searched matches none. Raises InvalidValue."""
        ...


class Unknown:
    """A format of which nothing is known."""

    def head(self, body: bytes, *, whole: bool = False) -> Head:
        return Head()

    def decoded_bytes(self, body: bytes) -> int:
        return 0

    def dead_letter(self, body: bytes) -> DeadLetterMark | None:
        return None

    def retried(self, body: bytes) -> bytes:
        return body

    def parts(self, body: bytes) -> Parts:
        return Parts("undecodable", body)

    def encoded(self, draft: Draft) -> bytes:
        return draft.body

    def selects(self, selector: str) -> Callable[[bytes], bool]:
        raise InvalidValue({"selector": "selectors cannot be applied to messages of an unknown format"})
