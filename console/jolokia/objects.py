"""The managed objects that a user sees, of all brokers: one by its name, many by a pattern.

One instance serves one HTTP request. After a broker did not answer, later requests of the same bulk to it fail at once,
so that a hanging broker costs one time-out and not one for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from brokers.admin import BrokerAdmin, BrokerUnreachable, ManagedObject, NotFound, Page
from brokers.input_checks import shortened
from brokers.model import TYPES, Kind, ManagedType, ObjectName
from console.jolokia.names import Pattern, Target, parse
from console.jolokia.protocol import Refusal, illegal
from console.links.link import BrokerLink
from console.links.visible import UnknownBroker, visible_link, visible_links
from console.permissions.rights import Rights

T = TypeVar("T")

#: Objects that one pattern may match: with all attributes, with named ones, and of one type to look through.
MOST_WHOLE, MOST_NAMED, MOST_SCANNED = 1_000, 20_000, 20_000
#: What all requests of one HTTP request may get, in values of attributes, and look through, in objects: more than any
#: single one does. A thousand of them at once would else fill the memory.
MOST_VALUES, MOST_LOOKED_THROUGH = 2_000_000, 20_000_000
#: What an object's name, and the description of a type, take, in values.
NAME, DESCRIPTION = 2, 200
_PAGE = 500


class TooMany(Refusal):
    def __init__(self, message: str) -> None:
        super().__init__(500, "java.lang.IllegalStateException", message)


class VisibleObjects:
    def __init__(self, rights: Rights) -> None:
        self._rights = rights
        self._unreachable: dict[str, BrokerUnreachable] = {}
        self._values = self._looked_through = 0

    def spend(self, values: int, objects: int = 0) -> None:
        """Count what an answer has, in values, and the objects that were looked through for it. Raises TooMany if all
        answers have too much."""
        self._values += values
        self._looked_through += objects
        if self._values > MOST_VALUES or self._looked_through > MOST_LOOKED_THROUGH:
            raise TooMany("the requests of this POST are together for too many objects: send fewer at once")

    def links(self) -> list[BrokerLink]:
        return visible_links(self._rights)

    def link(self, target: Target) -> BrokerLink:
        """Raises NotFound, also for a broker that the user does not see."""
        try:
            return visible_link(self._rights, target.broker)
        except UnknownBroker:
            raise NotFound(f"there is no broker {target.broker!r}") from None

    def types(self, link: BrokerLink) -> Mapping[str, ManagedType]:
        """Return the types as the broker has them. Raises AdminError."""
        return self._call(link, lambda admin: admin.types())

    def type_of(self, link: BrokerLink, name: ObjectName) -> ManagedType:
        """Return an object's type as its broker has it; as it is declared while the broker does not answer."""
        try:
            return self.types(link).get(name.type) or TYPES[name.type]
        except BrokerUnreachable:
            return TYPES[name.type]

    def read(self, target: Target) -> ManagedObject:
        """Raises NotFound, BrokerUnreachable."""
        link = self.link(target)
        return self._call(link, lambda admin: admin.read(target.name))

    def attributes(self, link: BrokerLink, thing: ManagedObject) -> dict[str, Any]:
        """Return the values of all attributes that the broker declares for an object."""
        return _values(self.types(link)[thing.name.type], thing.name, {**thing.attributes, "version": thing.version})

    def matching(self, pattern: Pattern, most: int) -> Iterator[tuple[str, ObjectName, dict[str, Any]]]:
        """Yield slug, name and attributes of each object that matches. Of several brokers those that are disconnected
        are left out. Raises TooMany after `most` objects; BrokerUnreachable if no broker of the pattern answers."""
        links = [link for link in self.links() if pattern.allows_broker(link.slug)]
        answered, lost, count = not links, None, 0
        for link in links:
            try:
                for found in self._of_broker(link, pattern):
                    count += 1
                    if count > most:
                        raise TooMany(_too_many(most))
                    yield link.slug, *found
                answered = True
            except BrokerUnreachable as error:
                lost = error
        if not answered and lost is not None:
            raise lost

    def first(self, link: BrokerLink, type_name: str) -> ObjectName | None:
        """Return the name of an object of a type, the first in alphabetical order."""
        page = self._call(link, lambda admin: admin.query(type_name, count=1))
        return page.items[0].name if page.items else None

    def names(self, link: BrokerLink, declared: ManagedType, most: int) -> list[ObjectName] | None:
        """Return the names of all objects of a type; None if there are more than `most`. Raises AdminError."""
        if declared.name == "Queue":
            link.require_current()
            rows = link.queues()
            return [ObjectName.parse(row["object"]) for row in rows] if len(rows) <= most else None
        found: list[ObjectName] = []
        while True:
            page = self._call(link, partial(_page, declared.name, {}, len(found)))
            if page.total > most:
                return None
            found.extend(thing.name for thing in page.items)
            if not page.items or len(found) >= page.total:
                return found

    def _of_broker(self, link: BrokerLink, pattern: Pattern) -> Iterator[tuple[ObjectName, dict[str, Any]]]:
        for declared in self.types(link).values():
            if not pattern.allows_type(declared.name):
                continue
            rows = self._queues(link) if declared.name == "Queue" else self._queried(link, declared, pattern)
            for name, row in rows:
                self.spend(0, objects=1)
                if pattern.matches(name):
                    yield name, _values(declared, name, row)

    def _queues(self, link: BrokerLink) -> Iterator[tuple[ObjectName, Mapping[str, Any]]]:
        """Yield the queues of the snapshot: patterns that are read every few seconds cost the broker nothing."""
        link.require_current()
        for row in link.queues():
            yield ObjectName.parse(row["object"]), row

    def _queried(
        self, link: BrokerLink, declared: ManagedType, pattern: Pattern
    ) -> Iterator[tuple[ObjectName, Mapping[str, Any]]]:
        where = {
            key: text
            for key, text in pattern.exact_keys(declared.name).items()
            if (attribute := declared.attribute(key)) is not None and attribute.kind is Kind.STRING
        }
        offset, total = 0, 1
        while offset < total:
            page = self._call(link, partial(_page, declared.name, where, offset))
            total = page.total
            if total > MOST_SCANNED:
                raise TooMany(
                    f"there are {total:,} objects of type {declared.name}, of which one pattern may look through"
                    f" {MOST_SCANNED:,}: give more of the name"
                )
            for thing in page.items:
                yield thing.name, {**thing.attributes, "version": thing.version}
            if not page.items:
                return
            offset += len(page.items)

    def _call(self, link: BrokerLink, request: Callable[[BrokerAdmin], Awaitable[T]]) -> T:
        if link.slug in self._unreachable:
            raise self._unreachable[link.slug]
        try:
            return link.call(request)
        except BrokerUnreachable as error:
            self._unreachable[link.slug] = error
            raise


def target_of(mbean: str, kind: str) -> Target:
    """Return the object of a request of a kind. Raises MalformedName, Refusal."""
    pattern = parse(mbean)
    if not pattern.exact:
        raise illegal(f"mbean is a pattern: a request of type {kind} needs the name of one object")
    target = pattern.target()
    if target is None:
        raise Refusal(404, "javax.management.InstanceNotFoundException", f"there is no {shortened(mbean)}")
    return target


def size_of(values: Mapping[str, Any]) -> int:
    """Return about how many values an object with these attributes has: an element of a list has several."""
    return NAME + sum(10 * len(v) if v and isinstance(v, list | tuple | dict) else 1 for v in values.values())


def _page(type_name: str, where: Mapping[str, Any], offset: int, admin: BrokerAdmin) -> Awaitable[Page]:
    return admin.query(type_name, where=where, offset=offset, count=_PAGE)


def _values(declared: ManagedType, name: ObjectName, row: Mapping[str, Any]) -> dict[str, Any]:
    keys = dict(name.keys)
    return {a.name: row.get(a.name, keys.get(a.name)) for a in declared.attributes}


def _too_many(most: int) -> str:
    if most >= MOST_NAMED:
        return f"the pattern matches more than {most:,} objects: use a narrower one"
    return (
        f"the pattern matches more than {most:,} objects, too many to read all their attributes: name the attributes,"
        " or use a narrower pattern"
    )
