"""The managed objects of a broker as last observed, and requests on them. No I/O; times are parameters.

Attributes that were not read are absent, and None in answers: unknown, never 0. An object of a broker that is read in
pages counts as deleted when two rounds in succession have missed it, since objects that are created or deleted
meanwhile move others from page to page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from brokers.adapters.flow_state import derive, is_at_rest
from brokers.adapters.observation import Attributes, Observation
from brokers.admin import ManagedObject, NotFound, Page
from brokers.engine.management.queries import Query, select
from brokers.model import Kind, ManagedType, ObjectName

#: Times of day that the core has observed, and counts from.
_SINCE = ("overfull_since", "blocked_since")


@dataclass(frozen=True, slots=True)
class Change:
    """An object that was found (`before` None), is gone (`after` None) or has other attributes."""

    name: ObjectName
    before: Attributes | None
    after: Attributes | None


@dataclass(slots=True)
class Round:
    """What a round of reading everything has found: the names, by type; and the types that could not be listed."""

    found: dict[str, set[ObjectName]] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)

    def add(self, seen: Observation) -> None:
        self.unlisted |= seen.unlisted
        for name in seen.objects:
            self.found.setdefault(name.type, set()).add(name)


class Inventory:
    """See the module. `types`: as the adapter found them."""

    def __init__(self, types: Mapping[str, ManagedType]) -> None:
        self.types = types
        self.objects: dict[ObjectName, dict[str, Any]] = {}
        self._missed: set[ObjectName] = set()  # by the last round
        self._changed: set[ObjectName] = set()  # queues, since the last sample

    # -- observing ------------------------------------------------------------------------------------------------

    def apply(self, seen: Observation, except_: Container[ObjectName] = ()) -> list[Change]:
        """Take over an observation; return what it changed. `except_`: objects that are not gone if it has not got
        them."""
        changes = [change for name, read in seen.objects.items() if (change := self._put(name, read, seen.at))]
        if seen.whole:
            missing = [name for name in self.objects if name.type in seen.whole and name not in seen.objects]
            gone = [name for name in missing if name not in except_]
            changes += [self._remove(name) for name in gone]
        return changes

    def end_round(self, done: Round, *, paged: bool, except_: Set[ObjectName] = frozenset()) -> list[Change]:
        """End a round of reading everything; return the objects that are gone. `except_`: those that are not."""
        listed = self.types.keys() - done.unlisted
        missing = {n for n in self.objects if n.type in listed and n not in done.found.get(n.type, ())} - except_
        gone = missing & self._missed if paged else missing
        self._missed = missing - gone
        return [self._remove(name) for name in sorted(gone, key=str)]

    def set(self, name: ObjectName, attributes: Attributes, at: int) -> Change | None:
        """Set attributes that the core determines, such as the stops of a queue."""
        return self._put(name, attributes, at) if name in self.objects else None

    def clock_set(self, step: int) -> list[ObjectName]:
        """Move times with the clock, which was set by `step` ms, so that what lasts goes on; return the objects that
        have some. When the broker was started is not known until it is read again."""
        moved = []
        for name, attributes in self.objects.items():
            marks = attributes.get("counted")
            if marks:
                attributes["counted"] = {key: (at + step, value) for key, (at, value) in marks.items()}
            if name.type == "Broker":
                attributes.pop("started", None)
            if since := {key: attributes[key] + step for key in _SINCE if attributes.get(key) is not None}:
                attributes.update(since)
                moved.append(name)
        self._changed |= {name for name in moved if name.type == "Queue"}
        return moved

    def remove(self, name: ObjectName) -> Change | None:
        return self._remove(name) if name in self.objects else None

    def _put(self, name: ObjectName, read: Attributes, at: int) -> Change | None:
        before = self.objects.get(name)
        if before is not None and is_at_rest(name.type, before, read, at):
            return None
        after = derive(name.type, before, read, at)
        self.objects[name] = after
        if before is not None and all(before.get(key) == value for key, value in after.items() if key != "counted"):
            return None
        if name.type == "Queue":
            self._changed.add(name)
        return Change(name, before, after)

    def _remove(self, name: ObjectName) -> Change:
        before = self.objects.pop(name)
        self._missed.discard(name)
        self._changed.discard(name)
        return Change(name, before, None)

    def take_changed_queues(self) -> list[ObjectName]:
        """Return the queues that have changed since the last call."""
        changed, self._changed = self._changed, set()
        return sorted(changed, key=str)

    # -- requests -------------------------------------------------------------------------------------------------

    def read(self, name: ObjectName) -> ManagedObject:
        """Raises NotFound."""
        declared = self._type(name.type)
        attributes = self.objects.get(name)
        if attributes is None:
            raise NotFound(f"there is no {name}")
        return _managed(name, declared, attributes)

    def query(self, type_name: str, query: Query) -> Page:
        """See `queries.Query`. Raises NotFound for an unknown type, InvalidValue."""
        declared = self._type(type_name)
        things = [(name, attributes) for name, attributes in self.objects.items() if name.type == type_name]
        found = select(things, declared, _readers(declared), lambda thing: thing[0], query)
        page = found[query.offset : query.offset + query.count]
        return Page(tuple(_managed(name, declared, attributes) for name, attributes in page), len(found), query.offset)

    def rows(self, names: Iterable[ObjectName], attributes: Iterable[str]) -> list[list[Any]]:
        """Return values of queues for samples; None for what is unknown or not declared."""
        columns, declared = list(attributes), self.types["Queue"]
        shown = {column for column in columns if declared.attribute(column) is not None}
        return [
            [
                version(declared, known) if column == "version" else known.get(column) if column in shown else None
                for column in columns
            ]
            for name in names
            if (known := self.objects.get(name)) is not None
        ]

    def _type(self, type_name: str) -> ManagedType:
        try:
            return self.types[type_name]
        except KeyError:
            known = ", ".join(self.types)
            raise NotFound(f"{type_name!r} is not a type of managed objects of this broker: it has {known}") from None


def version(declared: ManagedType, attributes: Attributes) -> int:
    """Return the version of an object whose broker has none: a hash of its writable attributes, below 2^48. Two clients
    that change the object within one round trip to the broker can both succeed: the last one's change applies."""
    values = {a.name: attributes.get(a.name) for a in declared.attributes if a.writable or a.creatable}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big")


def _managed(name: ObjectName, declared: ManagedType, attributes: Attributes) -> ManagedObject:
    number = version(declared, attributes)
    values = {a.name: _value(declared, attributes, a.name, number) for a in declared.attributes}
    return ManagedObject(name, number, values)


def _value(declared: ManagedType, attributes: Attributes, column: str, number: int) -> Any:
    return number if column == "version" else attributes.get(column)


def _readers(declared: ManagedType) -> Mapping[str, Callable[[tuple[ObjectName, Attributes]], Any]]:
    return {a.name: partial(_read, a.name, declared, a.kind) for a in declared.attributes}


def _read(column: str, declared: ManagedType, kind: Kind, thing: tuple[ObjectName, Attributes]) -> Any:
    value = version(declared, thing[1]) if column == "version" else thing[1].get(column)
    return str(value) if kind is Kind.NAME and isinstance(value, ObjectName) else value
