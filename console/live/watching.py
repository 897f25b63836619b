"""What a page may watch, and the data of a snapshot of it: asked for with one message, computed from one link."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from django.core.serializers.json import DjangoJSONEncoder

from brokers.admin import BrokerAdmin, Event, ManagedObject, NotFound
from brokers.managed import QUEUE_STATES, ObjectName
from console.incident.why import why
from console.links.link import BrokerLink
from console.live import overview as overviews

#: Producers and consumers of one queue in a snapshot, blocked ones first.
MOST_LINKS = 200
#: From so many queues on, an overview is computed in a thread, so that other sockets are not kept waiting.
_MANY_QUEUES = 1000
#: Overviews kept per broker: distinct searches and sorts that are watched at the same time.
_KEPT = 32


class BadWatch(ValueError):
    """A watch message that cannot be followed. The message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Watch:
    """`kind`: overview, queue, objects or why. `object`: what the watch is about, if it is not the overview."""

    kind: str
    object: ObjectName | None = None
    search: str = ""
    states: tuple[str, ...] = ()
    sort: str = ""

    @classmethod
    def parse(cls, message: Mapping[str, Any]) -> Watch:
        """Raises BadWatch."""
        kind = message.get("watch")
        if kind not in ("overview", "queue", "objects", "why"):
            raise BadWatch(f"watch is {kind!r}: it must be overview, queue, objects or why")
        if kind == "overview":
            return cls._overview(message)
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
        return cls(kind, name)

    @classmethod
    def _overview(cls, message: Mapping[str, Any]) -> Watch:
        search, sort, states = message.get("search", ""), message.get("sort", ""), message.get("states", [])
        if not isinstance(search, str) or not isinstance(sort, str) or not isinstance(states, list):
            raise BadWatch("search and sort must be text, and states a list")
        for state in states:
            if state not in QUEUE_STATES:
                raise BadWatch(f"states has {state!r}: there are {', '.join(QUEUE_STATES)}")
        try:
            overviews.overview(None, [], sort=sort)
        except overviews.BadSort as error:
            raise BadWatch(str(error)) from None
        return cls("overview", None, search, tuple(states), sort)


def overview(link: BrokerLink, search: str = "", states: tuple[str, ...] = (), sort: str = "") -> dict[str, Any]:
    """The data of an overview snapshot. Raises `overview.BadSort`."""
    return overviews.overview(
        link.broker, link.queues(), search=search, states=states, sort=sort, conditions=link.conditions()
    )


@dataclass(slots=True)
class _Text:
    """An overview as JSON text, of the link's `revision`; it took `cost` seconds and was made at `at` (monotonic)."""

    revision: int
    text: str
    at: float
    cost: float


class _Kept:
    """The overviews of one broker, so that many pages that look at the same cost one computation, and so that at most
    a fifth of a core goes into one of them however many queues there are: a dear one is used again for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[Watch, _Text] = {}

    def text(self, link: BrokerLink, watch: Watch) -> tuple[str, int]:
        """(JSON text, revision of the link that it shows)"""
        with self._lock:
            known = self._texts.pop(watch, None)
            began = time.monotonic()
            if known is None or (known.revision != link.revision and began - known.at > 4 * known.cost):
                revision = link.revision
                text = encode(overview(link, watch.search, watch.states, watch.sort))
                ended = time.monotonic()
                known = _Text(revision, text, ended, ended - began)
            self._texts[watch] = known
            while len(self._texts) > _KEPT:
                del self._texts[next(iter(self._texts))]
            return known.text, known.revision


_kept: WeakKeyDictionary[BrokerLink, _Kept] = WeakKeyDictionary()


async def data_text(link: BrokerLink, watch: Watch) -> tuple[str, object]:
    """The data of a snapshot as JSON text, and what `state_of` said when it was taken. Raises AdminError for what must
    be asked from the broker."""
    if watch.kind == "overview":
        kept = _kept.setdefault(link, _Kept())
        if link.queue_count < _MANY_QUEUES:
            return kept.text(link, watch)
        return await asyncio.to_thread(kept.text, link, watch)
    state, name = state_of(link, watch), watch.object
    if name is None:
        return encode({"object": None}), state
    if watch.kind == "why":
        return encode(_with_conditions(link, await why(link, name))), state
    if watch.kind == "queue":
        return encode(_with_conditions(link, await link.acall(lambda admin: _queue(admin, name)))), state
    return encode(await link.acall(lambda admin: _object(admin, name))), state


def state_of(link: BrokerLink, watch: Watch) -> object:
    """Something that is another object, or differs, when what is watched may have changed."""
    if watch.kind == "queue" or (watch.kind == "why" and watch.object is not None and watch.object.type == "Queue"):
        return _Both(link.queue(str(watch.object)), link.status, len(link.conditions(str(watch.object))))
    if watch.kind == "why":
        return link.status  # of a producer: it is read anew now and then
    return link.revision


class _Both:
    """Equal when both parts are the same objects: rows are replaced, never changed, so nothing need be compared; and
    as many conditions are in force."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, row: object, status: object, conditions: int) -> None:
        self.row = row
        self.status = status
        self.conditions = conditions

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Both)
            and self.row is other.row
            and self.status is other.status
            and self.conditions == other.conditions
        )


def last_known(link: BrokerLink, watch: Watch) -> str:
    """What stands in for `data_text` while the broker cannot be asked."""
    if watch.kind == "objects":
        return encode({"object": None})
    if watch.kind == "why":
        return encode({})
    return encode({"queue": link.queue(str(watch.object)), "producers": [], "consumers": [], "explain": {}})


def queue(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """The data of a queue snapshot, for synchronous callers. Raises AdminError."""
    return _with_conditions(link, link.call(lambda admin: _queue(admin, name)))


def _with_conditions(link: BrokerLink, data: dict[str, Any]) -> dict[str, Any]:
    """What looks wrong with the queue that the data is about."""
    if not data.get("queue"):
        return data
    found = link.conditions(data["queue"]["object"])
    return {**data, "conditions": [condition.shown() for condition in found]}


def shown(thing: ManagedObject) -> dict[str, Any]:
    """The attributes of an object and `object`, the text of its name."""
    return {"object": str(thing.name), **thing.attributes, "version": thing.version}


def event_shown(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "at": event.at,
        "kind": event.kind,
        "object": str(event.object),
        "text": event.text,
        "attributes": dict(event.attributes),
    }


async def _queue(admin: BrokerAdmin, name: ObjectName) -> dict[str, Any]:
    links = {"where": {"queue": str(name)}, "count": MOST_LINKS}
    try:
        found, producers, consumers, explained = await asyncio.gather(
            admin.read(name),
            admin.query("Producer", sort="state,blocked_since,id", **links),  # type: ignore[arg-type]
            admin.query("Consumer", sort="id", **links),  # type: ignore[arg-type]
            admin.call(name, "explain", {}),
        )
    except NotFound:
        return {"gone": True}
    return {
        "queue": shown(found),
        "producers": [shown(producer) for producer in producers.items],
        "producers_total": producers.total,
        "consumers": [shown(consumer) for consumer in consumers.items],
        "consumers_total": consumers.total,
        "explain": explained["fields"],
    }


async def _object(admin: BrokerAdmin, name: ObjectName) -> dict[str, Any]:
    try:
        found = await admin.read(name)
    except NotFound:
        return {"object": None}
    return {"object": {"name": str(found.name), "version": found.version, "attributes": dict(found.attributes)}}


def encode(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, separators=(",", ":"), ensure_ascii=False)
