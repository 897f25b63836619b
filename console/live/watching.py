"""Watches: what a page can watch with one message, and the data of its snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from brokers.admin import SAMPLED, BrokerAdmin, Event, NotFound, Page
from brokers.model import POLICY, QUEUE_STATES, ManagedType, ObjectName
from console.conditions.detectors import DETECTORS, SEVERITIES
from console.incident.why import why
from console.links.link import BrokerLink
from console.links.object_shapes import row_of, rows_of
from console.links.queue_filter import QUICK_FILTERS
from console.links.queue_groups import GROUPINGS, Grouping
from console.live import overview as overviews
from console.live.client_watch import client_data
from console.live.conditions import conditions_page
from console.live.snapshot_cache import SnapshotCache, encode

#: Producers and consumers of one queue in a snapshot, blocked ones first.
MOST_LINKS = 200
#: Watches of all queues, whose snapshots are cached.
_OF_ALL_QUEUES = ("overview", "conditions")
_KINDS = (*_OF_ALL_QUEUES, "queue", "objects", "why", "client")


class BadWatch(ValueError):
    """An invalid watch message. The message of the error is for people."""


@dataclass(frozen=True, slots=True)
class Watch:
    """`kind`: one of `_KINDS`. `object`: the watched object; None for a watch of all queues. `about`: kind and severity
    of conditions, or empty. `page`: from 1. `client`: user and container-id in the virtual host `object`; None: not
    of a client, or of the connection `object`."""

    kind: str
    object: ObjectName | None = None
    search: str = ""
    states: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    sort: str = ""
    about: tuple[str, str] = ("", "")
    page: int = 1
    size: int = overviews.USUAL
    grouping: Grouping | None = None
    client: tuple[str, str] | None = None

    @classmethod
    def parse(cls, message: Mapping[str, Any]) -> Watch:
        """Return the watch of a message. Raises BadWatch."""
        kind = message.get("watch")
        if kind not in _KINDS:
            raise BadWatch(f"watch is {kind!r}: it must be one of {', '.join(_KINDS)}")
        if kind in _OF_ALL_QUEUES:
            return cls._of_all(kind, message)
        text = message.get("object", "")
        if kind == "objects" and text == "":
            return cls(kind)
        try:
            name = ObjectName.parse(text if isinstance(text, str) else repr(text))
        except ValueError as error:
            raise BadWatch(str(error)) from None
        if kind == "queue" and name.type != "Queue":
            raise BadWatch(f"object is {text!r}: a queue watch needs the name of a queue")
        if kind == "why" and name.type not in ("Queue", "Producer"):
            raise BadWatch(f"object is {text!r}: a why watch needs the name of a queue or a producer")
        if kind == "client":
            return cls(kind, name, client=_client_of(message, name))
        return cls(kind, name)

    @classmethod
    def _of_all(cls, kind: str, message: Mapping[str, Any]) -> Watch:
        texts = {name: message.get(name, "") for name in ("search", "sort", "kind", "severity")}
        states = message.get("states", [])
        if not all(isinstance(text, str) for text in texts.values()) or not isinstance(states, list):
            raise BadWatch("search, sort, kind and severity must be text, and states a list")
        for state in states:
            if state not in QUEUE_STATES:
                raise BadWatch(f"states has {state!r}: it must contain only {', '.join(QUEUE_STATES)}")
        only = quick_filters_of(message)
        for name, allowed in (("kind", DETECTORS), ("severity", SEVERITIES)):
            if texts[name] and texts[name] not in allowed:
                raise BadWatch(f"{name} is {texts[name]!r}: it must be one of {', '.join(allowed)}")
        try:
            overviews.check_sort(texts["sort"])
        except overviews.BadSort as error:
            raise BadWatch(str(error)) from None
        page = whole_number_of(message, "page", 1, 1_000_000)
        size = whole_number_of(message, "page_size", overviews.USUAL, overviews.MOST)
        about = texts["kind"], texts["severity"]
        grouping = grouping_of(message)
        return cls(kind, None, texts["search"], tuple(states), only, texts["sort"], about, page, size, grouping)

    def data(self, view: overviews.View) -> dict[str, Any]:
        """Return the data of a snapshot of all queues."""
        if self.kind == "conditions":
            kind, severity = self.about
            return conditions_page(
                view.conditions, kind=kind, severity=severity, search=self.search, page=self.page, size=self.size
            )
        return view.overview(
            search=self.search,
            states=self.states,
            only=self.only,
            sort=self.sort,
            page=self.page,
            size=self.size,
            grouping=self.grouping,
        )


def _client_of(message: Mapping[str, Any], name: ObjectName) -> tuple[str, str] | None:
    """Return user and container-id of a client; None: the watch is of a connection. Raises BadWatch."""
    if name.type == "Connection":
        return None
    user, container = message.get("user", ""), message.get("container_id", "")
    if not isinstance(user, str) or not isinstance(container, str):
        raise BadWatch("user and container_id must be text")
    if name.type != "VirtualHost" or not (user or container):
        raise BadWatch(
            f"object is {str(name)!r}: a client watch needs the name of a connection, or of a virtual host with user or"
            " container_id"
        )
    return user, container


def quick_filters_of(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of quick filters in `only`. Raises BadWatch."""
    given = message.get("only", [])
    if not isinstance(given, list):
        raise BadWatch("only must be a list")
    for name in given:
        if not isinstance(name, str) or name not in QUICK_FILTERS:
            raise BadWatch(f"only has {name!r}: it must contain only {', '.join(QUICK_FILTERS)}")
    return tuple(given)


def grouping_of(message: Mapping[str, Any]) -> Grouping | None:
    """Return how `group`, `collapsed` and `toggled` group the table; None: not at all. Raises BadWatch."""
    by, collapsed, toggled = message.get("group", ""), message.get("collapsed", True), message.get("toggled", [])
    if by == "":
        return None
    if not isinstance(by, str) or by not in GROUPINGS:
        raise BadWatch(f"group is {by!r}: it must be one of {', '.join(GROUPINGS)}, or empty")
    if not isinstance(collapsed, bool):
        raise BadWatch(f"collapsed is {collapsed!r}: it must be true or false")
    if not isinstance(toggled, list) or not all(isinstance(name, str) for name in toggled):
        raise BadWatch("toggled must be a list of names of groups")
    return Grouping(by, collapsed, frozenset(toggled))


def whole_number_of(message: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    value = message.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadWatch(f"{name} is {value!r}: it must be a whole number from 1 to {most}")
    return value


def overview(link: BrokerLink, **options: Any) -> dict[str, Any]:
    """Return the data of an overview snapshot; `options`: as for `View.overview`. Raises `overview.BadSort`."""
    return overviews.overview(link.broker, link.queues(), conditions=link.conditions(), **options)


_snapshots: WeakKeyDictionary[BrokerLink, SnapshotCache] = WeakKeyDictionary()


async def data_text(link: BrokerLink, watch: Watch) -> tuple[str, object]:
    """Return the data of a snapshot as JSON text, and the value of `state_of` that it reflects. Raises AdminError if
    the broker does not answer a request for it."""
    if watch.kind in _OF_ALL_QUEUES:
        return await _snapshots.setdefault(link, SnapshotCache()).text(link, watch)
    state, name = state_of(link, watch), watch.object
    if name is None:
        return encode({"object": None}), state
    if watch.kind == "why":
        return encode(_with_conditions(link, await why(link, name))), state
    if watch.kind == "client":
        # In a thread: up to 1,500 objects would delay the other pages.
        return await asyncio.to_thread(encode, await client_data(link, name, watch.client)), state
    if watch.kind == "queue":
        return encode(_with_last_change(link, await link.acall(lambda admin: _queue(admin, name)))), state
    return encode(await link.acall(lambda admin: _object(admin, name))), state


def same_until(link: BrokerLink, watch: Watch, state: object) -> float:
    """Return until when `data_text` returns the text of this state, which a page has, whatever changes; s
    (monotonic)."""
    cache = _snapshots.get(link)
    return cache.same_until(link, watch, state) if cache and watch.kind in _OF_ALL_QUEUES else float("-inf")


def state_of(link: BrokerLink, watch: Watch) -> object:
    """Return a value that is unequal to the previous one if the watched data may have changed."""
    if watch.kind == "queue" or (watch.kind == "why" and watch.object is not None and watch.object.type == "Queue"):
        return _QueueState(link.queue(str(watch.object)), link.status, len(link.conditions(str(watch.object))))
    if watch.kind in ("why", "client"):
        return link.status  # a producer and a client are read again periodically
    return link.revision


class _QueueState:
    """Equal if row and status are identical objects (rows are replaced, never mutated) and the number of conditions is
    the same."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, row: object, status: object, conditions: int) -> None:
        self.row = row
        self.status = status
        self.conditions = conditions

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _QueueState)
            and self.row is other.row
            and self.status is other.status
            and self.conditions == other.conditions
        )


#: Attributes that show whether the row of a queue is as current as the broker's answer.
_CHANGING = ("state", "depth_messages", "depth_bytes", "enqueued_messages", "dequeued_messages")
#: Attributes of a queue that samples and events update; the others are as of the last read.
_UPDATED = frozenset(
    {"object", "virtualhost", "name", *SAMPLED, "stops", *(attribute.name for attribute in POLICY), "durable"}
)


def last_known(link: BrokerLink, watch: Watch) -> str:
    """Return the data of a snapshot while the broker does not answer: as of the link's `as_of`, without parts that the
    link does not have, such as a queue's producers."""
    if watch.kind == "objects":
        return encode({"object": None})
    if watch.kind in ("why", "client"):
        return encode({})
    row = link.queue(str(watch.object))
    if row is None:
        return encode({"gone": True} if link.as_of is not None else {"queue": None})
    return encode(_with_last_change(link, {"queue": {k: v for k, v in row.items() if k in _UPDATED}}))


def queue(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """Return the data of a queue snapshot, for synchronous callers. Raises AdminError."""
    return _with_conditions(link, link.call(lambda admin: _queue(admin, name)))


def _with_conditions(link: BrokerLink, data: dict[str, Any]) -> dict[str, Any]:
    """Add the conditions of the queue."""
    if not data.get("queue"):
        return data
    found = link.conditions(data["queue"]["object"])
    return {**data, "conditions": [condition.as_json() for condition in found]}


def _with_last_change(link: BrokerLink, data: dict[str, Any]) -> dict[str, Any]:
    """Add the conditions of the queue, and the time of its last change, since when the depth is known."""
    row = link.queue(data["queue"]["object"]) if data.get("queue") else None
    if row is not None and all(row.get(name) == data["queue"].get(name) for name in _CHANGING):
        data = {**data, "unchanged_since": link.unchanged_since(row["object"])}
    return _with_conditions(link, data)


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as the API and pages show it."""
    return {
        "number": event.number,
        "at": event.at,
        "kind": event.kind,
        "object": str(event.object),
        "text": event.text,
        "attributes": dict(event.attributes),
    }


def lists(link: BrokerLink, type_name: str) -> bool:
    """Return whether the broker lists the links of a type, Producer or Consumer, by queue."""
    return _lists(link.types, type_name)


def _lists(types: Mapping[str, ManagedType], type_name: str) -> bool:
    return type_name in types and types[type_name].attribute("queue") is not None


async def _queue(admin: BrokerAdmin, name: ObjectName) -> dict[str, Any]:
    """Return the queue, and its links and the origins of its limits if the broker has them; None if not."""
    types = await admin.types()

    async def links(type_name: str, sort: str) -> Page | None:
        if not _lists(types, type_name):
            return None
        known = ",".join(each for each in sort.split(",") if types[type_name].attribute(each))
        return await admin.query(type_name, where={"queue": str(name)}, sort=known, count=MOST_LINKS)

    async def explained() -> Mapping[str, Any]:
        has = types[name.type].operation("explain") is not None
        return await admin.call(name, "explain", {}) if has else {"fields": None}

    try:
        found, producers, consumers, origins = await asyncio.gather(
            admin.read(name), links("Producer", "state,blocked_since,id"), links("Consumer", "id"), explained()
        )
    except NotFound:
        return {"gone": True}
    return {
        "queue": row_of(found),
        "producers": None if producers is None else rows_of(producers.items),
        "producers_total": None if producers is None else producers.total,
        "consumers": None if consumers is None else rows_of(consumers.items),
        "consumers_total": None if consumers is None else consumers.total,
        "explain": origins["fields"],
    }


async def _object(admin: BrokerAdmin, name: ObjectName) -> dict[str, Any]:
    try:
        found = await admin.read(name)
    except NotFound:
        return {"object": None}
    return {"object": {"name": str(found.name), "version": found.version, "attributes": dict(found.attributes)}}
