"""What is stored of one broker behind an adapter: its numbered events, and what its adapter must not forget.

`FileRecords` has it in files of one host, the console in its database for several. Events and the flow state that they
were derived from are stored together: whatever process continues finds each change once. After a failed write the
records are `failed`, and the broker is hosted again from what is stored: what was not stored is found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from brokers.adapters.adapter import StopTarget
from brokers.adapters.observation import Attributes
from brokers.admin import BrokerUnreachable, Event
from brokers.engine.values.stops import Stop
from brokers.model import ObjectName
from brokers.server.event_journal import Expired, Fact, plain
from brokers.server.sqlite_file import StoreError

__all__ = [
    "Expired",
    "Fact",
    "NotStored",
    "Records",
    "Stop",
    "StopChange",
    "StopRecords",
    "StoppedTarget",
    "StoreError",
]

#: Changed objects with the attributes to remember; None: forget the object.
Memory = Mapping[ObjectName, Attributes | None]


class NotStored(BrokerUnreachable, StoreError):
    """A write failed, or another process hosts the broker now. The message is a sentence. For a client it is as if the
    broker did not answer: the request is not carried out, or is completed by the process that hosts the broker next."""


@dataclass(frozen=True, slots=True)
class StoppedTarget:
    """A target with its value before the stop, and the scopes (as text) of the stops that need it. Without any it has
    to be started."""

    target: StopTarget
    scopes: frozenset[str]

    def record(self) -> list[Any]:
        """Return JSON values: id, queues, restore, scopes."""
        queues, restore = sorted(map(str, self.target.queues)), dict(self.target.restore)
        return [self.target.id, queues, restore, sorted(self.scopes)]

    @classmethod
    def from_record(cls, record: Sequence[Any]) -> StoppedTarget:
        id_, queues, restore, scopes = record
        return cls(StopTarget(id_, frozenset(map(ObjectName.parse, queues)), restore), frozenset(scopes))


@dataclass(frozen=True, slots=True)
class StopChange:
    """A stop that began, or got another end, or was lifted. `automatic`: its end was due."""

    stop: Stop
    began: bool
    actor: str
    reason: str = ""
    automatic: bool = False

    def record(self) -> list[Any]:
        """Return JSON values."""
        return [self.stop.record(), self.began, self.actor, self.reason, self.automatic]

    @classmethod
    def from_record(cls, record: Sequence[Any]) -> StopChange:
        stop, *rest = record
        return cls(Stop.from_record(stop), *rest)


class StopRecords(Protocol):
    """The operators' stops of one broker. Every method raises StoreError."""

    def stops(self) -> list[Stop]: ...

    def targets(self) -> list[StoppedTarget]:
        """Return the targets that were, or were about to be, stopped or started."""
        ...

    def unannounced(self) -> list[StopChange]:
        """Return the changes of stops that have no event yet."""
        ...

    def save_stops(
        self, stops: Iterable[Stop], targets: Iterable[StoppedTarget], unannounced: Iterable[StopChange]
    ) -> None:
        """Replace the stops, their targets and the changes that have no event yet, in one transaction."""
        ...


class Records(StopRecords, Protocol):
    """See the module. One process at a time has them open. Every method raises StoreError."""

    @property
    def identity(self) -> str:
        """Assigned once: the numbers of another journal have nothing to do with these."""
        ...

    @property
    def first(self) -> int:
        """Number of the oldest retained event; `last + 1` if there is none."""
        ...

    @property
    def last(self) -> int:
        """Number of the newest event ever appended; 0 if there never was one."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a write failed: then nothing more is written."""
        ...

    def append(self, facts: Sequence[Fact], memory: Memory, unannounced: Sequence[StopChange] | None = None) -> None:
        """Append events with the numbers after `last`, remember attributes of objects, and replace the changes of
        stops that have no event yet (None: they stay): all or nothing."""
        ...

    def read(self, after: int, count: int = 500) -> list[Event]:
        """Return at most `count` events from number `after + 1` on, in order; an empty list if there is none yet.
        Raises Expired if the first of them is no longer retained."""
        ...

    def prune(self, now_ms: int) -> int:
        """Drop the oldest events while the first is too old or the journal too large; return how many."""
        ...

    def known(self) -> dict[ObjectName, dict[str, Any]]:
        """Return the remembered attributes of objects."""
        ...

    def close(self) -> None: ...


def fact_text(fact: Fact) -> str:
    """Return an event without its number, as text that `fact_of` reads; without control characters."""
    at, kind, name, text, attributes = fact
    return json.dumps([at, kind, str(name), text, attributes], ensure_ascii=False, separators=(",", ":"), default=plain)


def fact_of(text: str) -> Fact:
    at, kind, name, words, attributes = json.loads(text)
    return at, kind, ObjectName.parse(name), words, attributes
