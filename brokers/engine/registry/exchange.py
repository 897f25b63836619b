"""Exchanges: the queues that a message with a routing key goes to. Direct, topic and fanout, with one interface.

A binding is a queue and a key. A direct exchange routes to the queues bound with exactly this key, a fanout exchange to
all bound queues, a topic exchange to those whose binding key matches: keys are words separated by dots, `*` stands for
one word, `#` or `>` for any number of words, including none, in any position. A queue with several matching bindings is
found once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from brokers.engine.values.names import MAX_NAME
from brokers.engine.values.policy import Value
from brokers.model import ObjectName, object_name

if TYPE_CHECKING:
    from brokers.engine.queues.queue import Queue

#: What a topic exchange caches: routes, and the sum of the characters of their keys and of their queues. Routing keys
#: come from clients, which may make them as long and as many as they like.
MOST_CACHED, MOST_CACHED_PARTS = 10_000, 1 << 20
#: The longest routing key that is cached, in characters: binding keys are no longer, so only a wildcard matches it.
LONGEST_CACHED = MAX_NAME
#: Words of a routing key that are matched; what follows counts as one more word. No binding key has as many.
MOST_WORDS = MAX_NAME

ANY_WORDS = ("#", ">")

Route = tuple["Queue", ...]


class Router(Protocol):
    """The bindings of an exchange, by its type. Each is added once and discarded once."""

    def add(self, queue: Queue, key: str) -> None: ...

    def discard(self, queue: Queue, key: str) -> None: ...

    def route(self, key: str) -> Route: ...


class Direct:
    """Bindings with exactly the routing key."""

    def __init__(self) -> None:
        self._bound: dict[str, dict[Queue, None]] = {}
        self._routes: dict[str, Route] = {}

    def add(self, queue: Queue, key: str) -> None:
        self._bound.setdefault(key, {})[queue] = None
        self._routes.pop(key, None)

    def discard(self, queue: Queue, key: str) -> None:
        bound = self._bound[key]
        del bound[queue]
        if not bound:
            del self._bound[key]
        self._routes.pop(key, None)

    def route(self, key: str) -> Route:
        found = self._routes.get(key)
        if found is None:
            bound = self._bound.get(key)
            if bound is None:
                return ()
            found = self._routes[key] = tuple(bound)
        return found


class Fanout:
    """All bindings, whatever the key."""

    def __init__(self) -> None:
        self._bound: dict[Queue, int] = {}  # its number of bindings
        self._route: Route | None = None

    def add(self, queue: Queue, key: str) -> None:
        self._bound[queue] = self._bound.get(queue, 0) + 1
        self._route = None

    def discard(self, queue: Queue, key: str) -> None:
        self._bound[queue] -= 1
        if not self._bound[queue]:
            del self._bound[queue]
        self._route = None

    def route(self, key: str) -> Route:
        if self._route is None:
            self._route = tuple(self._bound)
        return self._route


class _Word:
    """A node in the tree of binding keys. `repeats`: it matches any number of words."""

    __slots__ = ("bound", "next", "repeats")

    def __init__(self, *, repeats: bool = False) -> None:
        self.next: dict[str, _Word] = {}
        self.bound: dict[Queue, None] = {}
        self.repeats = repeats


class Topic:
    """Bindings with wildcards, searched in a tree of their words."""

    def __init__(self) -> None:
        self._root = _Word()
        self._routes: dict[str, Route] = {}
        self._cached_parts = 0

    def add(self, queue: Queue, key: str) -> None:
        place = self._root
        for word in key.split("."):
            found = place.next.get(word)
            if found is None:
                found = place.next[word] = _Word(repeats=word in ANY_WORDS)
            place = found
        place.bound[queue] = None
        self._forget_routes()

    def discard(self, queue: Queue, key: str) -> None:
        words = key.split(".")
        path = [self._root]
        for word in words:
            path.append(path[-1].next[word])
        del path[-1].bound[queue]
        for before, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            below = before.next[word]
            if below.next or below.bound:
                break
            del before.next[word]
        self._forget_routes()

    def route(self, key: str) -> Route:
        found = self._routes.get(key)
        if found is None:
            found = self._find(key)
            if len(key) <= LONGEST_CACHED:
                self._cache(key, found)
        return found

    def _cache(self, key: str, route: Route) -> None:
        parts = len(key) + len(route)
        if len(self._routes) >= MOST_CACHED or self._cached_parts + parts > MOST_CACHED_PARTS:
            self._forget_routes()
        self._routes[key] = route
        self._cached_parts += parts

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._cached_parts = 0

    def _find(self, key: str) -> Route:
        places = _with_repeating([self._root])
        for word in key.split(".", MOST_WORDS):
            following: list[_Word] = []
            for place in places:
                if place.repeats:
                    following.append(place)
                for wanted in (word, "*"):
                    if (found := place.next.get(wanted)) is not None:
                        following.append(found)
            places = _with_repeating(following)
        return tuple(dict.fromkeys(queue for place in places for queue in place.bound))


def _with_repeating(places: Iterable[_Word]) -> dict[_Word, None]:
    """Return these nodes and those that are reached from them without a word."""
    found: dict[_Word, None] = {}
    waiting = list(places)
    while waiting:
        place = waiting.pop()
        if place not in found:
            found[place] = None
            waiting.extend(place.next[word] for word in ANY_WORDS if word in place.next)
    return found


ROUTERS: dict[str, type[Direct] | type[Topic] | type[Fanout]] = {"direct": Direct, "topic": Topic, "fanout": Fanout}


def key_fault(kind: str, key: str) -> str:
    """Return what is wrong with a binding key for an exchange of this type, as a sentence; empty if it is valid."""
    if kind == "topic" and any(len(word) > 1 and set(word) & set("*>#") for word in key.split(".")):
        return f"key {key!r}: *, > and # stand for whole words"
    return ""


class Exchange:
    """An exchange with its bindings. `own`: policy fields for the bound queues. `transient`: it is deleted with its
    last user, and has no record."""

    __slots__ = ("bindings", "kind", "name", "object_name", "own", "router", "transient", "version", "virtualhost")

    def __init__(self, virtualhost: str, name: str, kind: str) -> None:
        self.virtualhost = virtualhost
        self.name = name
        self.kind = kind
        self.object_name: ObjectName = object_name("Exchange", virtualhost=virtualhost, name=name)
        self.version = 1
        self.transient = False
        self.own: dict[str, Value] = {}
        self.bindings: dict[Queue, dict[str, None]] = {}  # queue -> the keys it is bound with, in order
        self.router: Router = ROUTERS[kind]()

    def bind(self, queue: Queue, key: str) -> bool:
        """Add a binding. Return False if it exists."""
        keys = self.bindings.setdefault(queue, {})
        if key in keys:
            return False
        keys[key] = None
        self.router.add(queue, key)
        return True

    def unbind(self, queue: Queue, key: str) -> bool:
        """Remove a binding. Return False if it does not exist."""
        keys = self.bindings.get(queue)
        if keys is None or key not in keys:
            return False
        del keys[key]
        if not keys:
            del self.bindings[queue]
        self.router.discard(queue, key)
        return True

    def route(self, key: str) -> Route:
        """Return the queues that a message with this routing key goes to, each once."""
        return self.router.route(key)

    @property
    def origin(self) -> str:
        return f"exchange {self.name}"
