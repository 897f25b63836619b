"""Restrict a link to the virtual hosts that a user sees.

A restricted link neither reads nor changes anything else: objects and events of other virtual hosts do not exist for
it, and the broker's totals are sums over visible virtual hosts. So views need no checks of their own. What belongs to
the whole broker (its limits, stops of all producers) is visible to all users, since it affects all; its users are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from brokers.admin import BrokerAdmin, Event, ManagedObject, NotAllowed, NotFound, Page, Samples
from brokers.model import TYPES, Kind, ManagedType, ObjectName, object_name
from console.conditions.active import Condition
from console.conditions.trends import NO_RATES, Rates
from console.links.event_window import Tail
from console.links.link import BrokerLink
from console.links.queue_order import Placed, SortKey
from console.links.queue_table import Row
from console.links.queue_totals import GroupTotals, QueueTotals
from console.links.state import Status
from console.permissions.rights import host_of

T = TypeVar("T")

_BROKER = object_name("Broker")
#: Attributes that virtual hosts and the broker share, summed over the visible virtual hosts. The usage of the store is
#: not, since the broker's limits apply to all of it.
_TOTALS = (
    {a.name for a in TYPES["VirtualHost"].attributes if not a.writable and a.kind is Kind.INTEGER and a.unit}
    & {a.name for a in TYPES["Broker"].attributes}
) - {"store_used_bytes"}
#: Operations of the broker with queues as an argument.
_BY_NAME = frozenset({"stop-producers", "start-producers", "preview-stop", "stop-progress"})
#: Events searched at once for visible ones, and the number of such searches per call.
_CHUNK, _CHUNKS = 2000, 10
_MOST_LINKS = 64


def as_visible(link: BrokerLink, hosts: frozenset[str] | None) -> BrokerLink:
    """Return the link for users who see these virtual hosts; None: all. Users with the same virtual hosts share a
    link, and so its results."""
    if hosts is None:
        return link
    restricted = link.restricted
    if hosts not in restricted:
        while len(restricted) >= _MOST_LINKS:
            restricted.pop(next(iter(restricted)), None)
        restricted[hosts] = RestrictedLink(link, hosts)
    return restricted[hosts]


class RestrictedLink(BrokerLink):
    """A link whose public methods return the visible part of what the `whole` link returns."""

    def __init__(self, whole: BrokerLink, hosts: frozenset[str]) -> None:
        # The base class is not initialized: a restricted link has no state.
        self.whole = whole
        self.only_hosts = hosts
        self.slug = whole.slug
        self.pace = whole.pace
        self.readers = whole.readers

    # -- snapshot -----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:  # type: ignore[override]  # it can be renamed
        return self.whole.title

    @property
    def status(self) -> Status:
        return self.whole.status

    @property
    def connected(self) -> bool:
        return self.whole.connected

    @property
    def as_of(self) -> int | None:
        return self.whole.as_of

    @property
    def broker(self) -> Row | None:
        broker = self.whole.broker
        return None if broker is None else _redacted(broker, self.hosts.values(), self._sees_text)

    @property
    def types(self) -> Mapping[str, ManagedType]:  # type: ignore[override]
        return self.whole.types

    @property
    def types_known(self) -> bool:  # type: ignore[override]
        return self.whole.types_known

    @property
    def hosts(self) -> Mapping[str, Row]:  # type: ignore[override]
        return {name: row for name, row in self.whole.hosts.items() if name in self._hosts}

    @property
    def revision(self) -> int:
        return self.whole.revision

    @property
    def newest_event(self) -> int:
        return self.whole.newest_event

    @property
    def queue_count(self) -> int:
        return self.queue_totals().queues

    def unchanged_since(self, queue: str) -> int | None:
        return self.whole.unchanged_since(queue) if self._sees_text(queue) else None

    @property
    def broker_now(self) -> int:
        return self.whole.broker_now

    def queues(self) -> list[Row]:
        return [row for row in self.whole.queues() if row["virtualhost"] in self._hosts]

    def queue_totals(self) -> QueueTotals:
        totals = QueueTotals()
        with self.whole.lock:
            for host in self._hosts & self.whole.table.totals.keys():
                totals.include(self.whole.table.totals[host])
        return totals

    def add_group_totals(self, groups: dict[str, GroupTotals], by: str) -> Collection[str]:
        return self.whole.groups.add_to(groups, by, self._hosts)

    def group_names(self, placed: Sequence[Placed], by: str) -> Iterator[str | None]:
        return self.whole.group_names(placed, by)

    def queues_in_order(self, key: SortKey) -> Sequence[Placed]:
        return [placed for placed in self.whole.queues_in_order(key) if self.queue(placed[1]) is not None]

    def queues_named(self, names: Iterable[str]) -> list[Row]:
        return [row for row in self.whole.queues_named(names) if row["virtualhost"] in self._hosts]

    def queue(self, name: ObjectName | str) -> Row | None:
        row = self.whole.queue(name)
        return row if row is not None and row["virtualhost"] in self._hosts else None

    def rates(self, queue: str) -> Rates:
        return self.whole.rates(queue) if self._sees_text(queue) else NO_RATES

    def conditions(self, name: str = "") -> list[Condition]:
        return [c for c in self.whole.conditions(name) if self._sees_text(c.finding.object)]

    # -- events ---------------------------------------------------------------------------------------------------

    def recent_events(self, after: int) -> Tail:
        return self._of(self.whole.recent_events(after))

    def newest_position(self, count: int) -> int:
        """Return the number after which there are the newest `count` visible events, or those of the window."""
        with self.whole.lock:
            first = self.whole.window.first
        visible = () if first is None else self.recent_events(first - 1).events[-count:]
        return visible[0].number - 1 if visible else super().newest_position(count)

    def has_events_after(self, number: int) -> bool:
        return self.whole.has_events_after(number)

    async def events_after(self, number: int, count: int = 1000) -> Tail:
        """As `BrokerLink.events_after`, for visible events. Without any, `last` of the result skips invisible ones."""
        expired = None
        position = number
        for _ in range(_CHUNKS):
            whole = await self.whole.events_after(position, max(count, _CHUNK))
            expired = whole.expired_before if expired is None else expired
            found = self._of(whole)
            if found.events:
                taken = found.events[:count]
                return Tail(taken, expired, found.last if len(taken) == len(found.events) else taken[-1].number)
            if found.last is None:
                break
            position = found.last
        return Tail((), expired, position if position > number else None)

    def _of(self, tail: Tail) -> Tail:
        events = tuple(event for event in tail.events if self.sees(event.object))
        last = tail.events[-1].number if tail.events else tail.last
        return Tail(events, tail.expired_before, last)

    # -- requests -------------------------------------------------------------------------------------------------

    def call(self, request: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:
        return self.whole.call(lambda admin: request(RestrictedAdmin(admin, self)), timeout)

    async def acall(self, request: Callable[[BrokerAdmin], Awaitable[T]], timeout: float | None = None) -> T:  # noqa: ASYNC109
        return await self.whole.acall(lambda admin: request(RestrictedAdmin(admin, self)), timeout)

    async def run(self) -> None:
        raise TypeError("only the whole link connects")

    # -- visibility -----------------------------------------------------------------------------------------------

    @property
    def _hosts(self) -> frozenset[str]:
        return self.only_hosts or frozenset()

    def sees(self, name: ObjectName) -> bool:
        """Return whether an object with this name is visible, if it exists."""
        return name.type == "Broker" or host_of(name) in self._hosts

    def _sees_text(self, text: str) -> bool:
        try:
            return self.sees(ObjectName.parse(text))
        except ValueError:
            return False


class RestrictedAdmin:
    """The BrokerAdmin of a `RestrictedLink`: requests to the broker, restricted to visible objects."""

    def __init__(self, whole: BrokerAdmin, link: RestrictedLink) -> None:
        self._whole = whole
        self._link = link

    async def types(self) -> Mapping[str, ManagedType]:
        return await self._whole.types()

    async def read(self, name: ObjectName) -> ManagedObject:
        self._check(name)
        return await self._read_broker() if name == _BROKER else await self._whole.read(name)

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
        if type_name == "Broker":
            return await self._query_broker(where or {}, offset, count)
        key = _key_of_host(type_name)
        if key is None:
            return Page((), 0, offset)
        where_visible = dict(where or {})
        hosts = set(self._link.only_hosts or ())
        if key in where_visible:
            value = where_visible[key]
            hosts &= set(value if isinstance(value, list | tuple) else [value])
        if not hosts:
            return Page((), 0, offset)
        where_visible[key] = sorted(hosts)
        return await self._whole.query(
            type_name, where=where_visible, search=search, sort=sort, offset=offset, count=count
        )

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        self._check(name)
        return await self._whole.create(name, attributes, actor=actor)

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        self._check(name)
        self._check_not_broker(name, "change")
        return await self._whole.update(name, attributes, version, actor=actor)

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        self._check(name)
        await self._whole.delete(name, version, actor=actor)

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check(name)
        if name == _BROKER and operation == "preview-change":
            self._check_changes(arguments.get("changes"))
        elif name == _BROKER and operation in _BY_NAME and arguments.get("queues"):
            for text in arguments["queues"]:
                self._check(_parsed(text))
        elif name == _BROKER and operation == "stop-progress":
            return await self._progress(arguments)
        elif name == _BROKER and operation != "explain":
            self._check_not_broker(name, operation)
        answer = await self._whole.call(name, operation, arguments)
        return dict(answer) if name == _BROKER else answer  # without the broker's attributes, which are not all visible

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        async for event in self._whole.events(after):
            if self._link.sees(event.object):
                yield event

    async def samples(self) -> AsyncIterator[Samples]:
        async for samples in self._whole.samples():
            yield Samples(samples.at, tuple(each for each in samples.queues if self._link.sees(each[0])))

    async def close(self) -> None:
        return None  # the whole link owns the connection

    # -- inside ---------------------------------------------------------------------------------------------------

    def _check(self, name: ObjectName) -> None:
        if not self._link.sees(name):
            raise NotFound(f"there is no {name}")

    def _check_not_broker(self, name: ObjectName, what: str) -> None:
        if name == _BROKER:
            raise NotAllowed(f"{what}: requires visibility of all virtual hosts of the broker")

    def _check_changes(self, changes: Any) -> None:
        """Raise NotFound or NotAllowed for changes of invisible objects, or of the broker, which affects all."""
        for change in changes if isinstance(changes, list | tuple) else ():
            if not isinstance(change, Mapping):
                continue  # the broker refuses it
            for text in change.get("objects") or [change.get("object")]:
                name = _parsed(text)
                self._check(name)
                self._check_not_broker(name, "preview")

    async def _progress(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the progress of a stop of the broker in the visible virtual hosts. For which queues it waits is not
        known: that depends on others, too."""
        summed = ("queues", "producers", "stopped", "draining")
        sums: Counter[str] = Counter()
        for host in sorted(self._link.only_hosts or ()):
            with suppress(NotFound):  # it is named in a role only, or was deleted
                found = await self._whole.call(object_name("VirtualHost", name=host), "stop-progress", arguments)
                sums.update({name: found[name] for name in summed})
        return {**{name: sums[name] for name in summed}, "queues_above": None, "fullest": None}

    async def _read_broker(self) -> ManagedObject:
        broker = await self._whole.read(_BROKER)
        hosts = await self.query("VirtualHost", count=1000)
        return ManagedObject(
            broker.name,
            broker.version,
            _redacted(broker.attributes, (host.attributes for host in hosts.items), self._link._sees_text),
        )

    async def _query_broker(self, where: Mapping[str, Any], offset: int, count: int) -> Page:
        broker = await self._read_broker()
        here = all(
            broker.attributes.get(attribute) in (value if isinstance(value, list | tuple) else [value])
            for attribute, value in where.items()
        )
        found = (broker,) if here else ()
        return Page(found[offset : offset + count], len(found), offset)


def _redacted(broker: Row, hosts: Iterable[Row], sees: Callable[[str], bool]) -> dict[str, Any]:
    """Return the broker's attributes with the totals of the visible virtual hosts and the visible stops."""
    rows = list(hosts)
    sums = {name: sum(row.get(name) or 0 for row in rows) for name in _TOTALS if name in broker}
    stops = [_without_queue(s, sees) for s in broker.get("stops") or () if sees(str(s.get("object") or ""))]
    return {**broker, **sums, "stops": stops}


def _without_queue(stop: Mapping[str, Any], sees: Callable[[str], bool]) -> Mapping[str, Any]:
    """Return a stop without the name of an invisible queue that halted a staged start."""
    halted = stop.get("halted")
    if not halted or sees(halted["queue"]):
        return stop
    reason = f"the staged start halted: a queue is at {halted['percent']}%, above {halted['limit']}%"
    return {**stop, "reason": reason, "halted": {**halted, "queue": ""}}


def _key_of_host(type_name: str) -> str | None:
    if type_name == "VirtualHost":
        return "name"
    declared = TYPES.get(type_name)
    return "virtualhost" if declared is not None and "virtualhost" in declared.keys else None


def _parsed(text: object) -> ObjectName:
    try:
        return ObjectName.parse(str(text))
    except ValueError as error:
        raise NotFound(str(error)) from None
