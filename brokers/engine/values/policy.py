"""Effective policy fields: the layers they come from, destination policies and their index, exchanges, and explain.

Each field of a policy is resolved alone, from the most specific layer to the least (DOMAIN.md section 5):

1. the queue's own setting;
2. its best matching destination policy: longest literal prefix, then fewer wildcards, then higher priority, then a
   pattern of fixed length before an open one, then the patterns' alphabetical order;
3. the exchanges it is bound to; if several set the field, the strictest value applies, see `strictest`;
4. its virtual host's default;
5. the broker's default;
6. the built-in value.

`limits.py` turns the values into levels in messages and bytes. Here queues are only names.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from brokers.model import POLICY, ObjectName, object_name
from brokers.model.patterns import Rank, fixed_words, match_rank, matches, pattern_fault

__all__ = [
    "BROKER",
    "BUILT",
    "BUILT_IN",
    "FIELDS",
    "NOTHING",
    "OWN",
    "VIRTUALHOST",
    "Fields",
    "Layers",
    "Policies",
    "Policy",
    "Setting",
    "explain",
    "fields",
    "inherit",
    "matches",
    "pattern_fault",
    "strictest",
]

Value = int | str

FIELDS: tuple[str, ...] = tuple(attribute.name for attribute in POLICY)

#: The defaults of all fields. None: derived from another field (see `limits.resolve`).
BUILT_IN: Mapping[str, Value | None] = {
    "capacity_bytes": 0,
    "capacity_messages": 0,
    "flow_stop_bytes": "100%",
    "flow_stop_messages": "100%",
    "flow_resume_bytes": None,
    "flow_resume_messages": None,
    "flow_control": "on",
    "mechanism": "block",
    "reject_after_ms": 1000,
    "spool": "memory",
    "overflow": "producers",
    "producer_window_bytes": 0,
    "producer_window_messages": 1000,
    "maximum_deliveries": 0,
    "dead_letter_queue": "",
}

OWN, VIRTUALHOST, BROKER, BUILT = "own", "virtualhost", "broker", "built-in"


#: Policy fields that one object sets. A set of pairs, since it is compared and used as a key.
Fields = frozenset[tuple[str, Value]]
NOTHING: Fields = frozenset()


def fields(values: Mapping[str, Value | None]) -> Fields:
    """Return the policy fields among `values` that are set."""
    return frozenset((f, v) for f, v in values.items() if v is not None) if values else NOTHING


# -- layers and settings ---------------------------------------------------------------------------------------


class Layers(NamedTuple):
    """The fields set in each layer that a queue inherits from, the most specific first. `pattern`: (origin, fields) of
    its best match. `exchanges`: (origin, fields) of each exchange that it is bound to."""

    own: Fields = NOTHING
    pattern: tuple[str, Fields] = ("", NOTHING)
    exchanges: tuple[tuple[str, Fields], ...] = ()
    virtualhost: Fields = NOTHING
    broker: Fields = NOTHING


@dataclass(frozen=True, slots=True)
class Setting:
    """A field's effective value and its origin. `rank` 0 is the most specific layer."""

    value: Value | None
    origin: str
    rank: int


def settings(layers: Layers) -> dict[str, Setting]:
    """Return the setting of every field of a queue with these layers."""
    own, pattern, exchanges, virtualhost, broker = layers
    around: list[tuple[str, Mapping[str, Value]]] = [
        (OWN, dict(own)),
        (pattern[0], dict(pattern[1])),
        (VIRTUALHOST, dict(virtualhost)),
        (BROKER, dict(broker)),
    ]
    bound = [(origin, dict(values)) for origin, values in exchanges]
    return inherit([*around[:2], *([strictest(bound, around)] if bound else []), *around[2:]])


def inherit(layers: Iterable[tuple[str | Mapping[str, str], Mapping[str, Value]]]) -> dict[str, Setting]:
    """Return the setting of every field. `layers`: (origin, or field -> origin; fields set there), from the most
    specific to the least."""
    ranked = list(layers)
    found: dict[str, Setting] = {}
    for name in FIELDS:
        for rank, (origin, values) in enumerate(ranked):
            value = values.get(name)
            if value is not None:
                found[name] = Setting(value, origin if isinstance(origin, str) else origin[name], rank)
                break
        else:
            found[name] = Setting(BUILT_IN[name], BUILT, len(ranked))
    return found


def explain(settings: Mapping[str, Setting]) -> dict[str, dict[str, Value | str | None]]:
    """Return each field's effective value and origin, as plain maps."""
    return {name: {"value": setting.value, "origin": setting.origin} for name, setting in settings.items()}


def strictest(
    exchanges: Iterable[tuple[str, Mapping[str, Value]]], around: Iterable[tuple[str, Mapping[str, Value]]]
) -> tuple[dict[str, str], dict[str, Value]]:
    """Merge the layers of several exchanges into one, as (field -> origin, field -> value).

    The strictest value is the lowest capacity, level or time, where a 0 that means no limit is the highest; of choices
    the one that is declared first; among equals that of the exchange whose name sorts first. Percentages and absolute
    levels are compared as levels, with the effective capacity, which is resolved with `around`, the queue's other
    layers from the most specific on; without a capacity a percentage is no limit.
    """
    origins: dict[str, str] = {}
    values: dict[str, Value] = {}
    places = list(exchanges)
    outside = list(around)
    for name in FIELDS:  # capacities are declared before the levels that are percentages of them
        setters = [(origin, given[name]) for origin, given in places if given.get(name) is not None]
        if not setters:
            continue
        if len(setters) > 1:
            capacity = _capacity(name, outside, values) if name in _LEVELS else 0
            setters.sort(key=lambda setter: (_laxity(name, setter[1], capacity), setter[0]))
        origins[name], values[name] = setters[0]
    return origins, values


_LEVELS = {f"flow_{level}_{unit}": f"capacity_{unit}" for level in ("stop", "resume") for unit in ("bytes", "messages")}
_ZERO_IS_NO_LIMIT = {
    "capacity_bytes",
    "capacity_messages",
    "flow_stop_bytes",
    "flow_stop_messages",
    "producer_window_bytes",
    "maximum_deliveries",
}
_CHOICES = {a.name: a.choices for a in POLICY if a.choices}
_ENDLESS = 1 << 64


def _capacity(level: str, around: Iterable[tuple[str, Mapping[str, Value]]], bound: Mapping[str, Value]) -> int:
    """Return the effective capacity that a level may be a percentage of; 0: none."""
    name = _LEVELS[level]
    (own, pattern, *rest) = (given.get(name) for _, given in around)
    found = next((v for v in (own, pattern, bound.get(name), *rest) if v is not None), 0)
    return found if isinstance(found, int) else 0


def _laxity(name: str, value: Value, capacity: int) -> Fraction | int:
    """Return a sort key: the lower, the stricter."""
    if name in _CHOICES:
        return _CHOICES[name].index(str(value))
    if name == "dead_letter_queue":
        return 0  # no queue is stricter than another
    if isinstance(value, str):
        if not capacity:
            return _ENDLESS
        value = int(capacity * Fraction(value[:-1]) / 100)
    if name == "producer_window_messages" and not value:
        return int(BUILT_IN[name] or 0)
    return _ENDLESS if not value and name in _ZERO_IS_NO_LIMIT else value


# -- destination policies --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """Policy fields for the queues of a virtual host whose names match a pattern. Immutable: an update replaces it. The
    higher its `rank`, the better the match, for all names that it matches."""

    virtualhost: str
    pattern: str
    given: Mapping[str, Value]
    priority: int = 0
    version: int = 1
    fields: Fields = field(init=False)
    rank: Rank = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", fields(self.given))
        object.__setattr__(self, "rank", match_rank(self.pattern, self.priority))

    @property
    def object_name(self) -> ObjectName:
        return object_name("Policy", virtualhost=self.virtualhost, pattern=self.pattern)

    @property
    def origin(self) -> str:
        return f"pattern {self.pattern}"

    @property
    def layer(self) -> tuple[str, Fields]:
        return self.origin, self.fields


class _Word:
    """A node in the tree of patterns: the next words, and the policies whose patterns end here, or are open from here
    on."""

    __slots__ = ("ends", "next", "opens")

    def __init__(self) -> None:
        self.next: dict[str, _Word] = {}
        self.ends: list[Policy] = []
        self.opens: list[Policy] = []


class Policies:
    """The destination policies of a virtual host, by pattern, and the best match of each queue.

    The best match of a name is found in a tree of the patterns' words. The names that a pattern matches are searched
    among those that share its literal prefix, which are neighbours in alphabetical order. A change is computed first
    (`changes`) and applied afterwards (`put`), so that it can be refused in between.
    """

    def __init__(self) -> None:
        self.by_pattern: dict[str, Policy] = {}
        self._root = _Word()
        self._names: list[str] = []  # sorted
        self._best: dict[str, Policy] = {}  # names without any match are not in it
        self._matched: dict[str, set[str]] = {}  # pattern -> the names that it is the best match of

    def best(self, name: str, *, without: Policy | None = None) -> Policy | None:
        """Return the best match of any name, whether a queue has it or not."""
        return max((p for p in self._matching(name) if p is not without), key=_rank, default=None)

    def of(self, name: str) -> Policy | None:
        """Return the best match of a name that was added."""
        return self._best.get(name)

    def matched(self, pattern: str) -> frozenset[str]:
        """Return the names for which the policy with this pattern is the best match."""
        return frozenset(self._matched.get(pattern, ()))

    def count(self, pattern: str) -> int:
        """Return for how many names the policy with this pattern is the best match."""
        return len(self._matched.get(pattern, ()))

    def add(self, name: str) -> None:
        """Add the name of a new queue."""
        insort(self._names, name)
        self._choose(name, self.best(name))

    def drop(self, name: str) -> None:
        """Remove the name of a deleted queue."""
        self._choose(name, None)
        del self._names[bisect_left(self._names, name)]

    def with_changes(self, changed: Mapping[str, Policy | None]) -> Policies:
        """Return these policies with some replaced, by pattern (None: deleted). The result has the best match of any
        name, and no queues."""
        other = Policies()
        for pattern, policy in {**self.by_pattern, **changed}.items():
            if policy is not None:
                other.put(pattern, policy, {})
        return other

    def changes(self, pattern: str, policy: Policy | None) -> dict[str, Policy | None]:
        """Return name -> new best match, for all names that change if `policy` replaces the one with this pattern
        (None: deletes it)."""
        old = self.by_pattern.get(pattern)
        if old is not None and (policy is None or policy.rank <= old.rank):
            names: Iterable[str] = self._matched.get(pattern, ())
        else:
            names = self.covered(pattern)
        same_rank = old is not None and policy is not None and policy.rank == old.rank
        found: dict[str, Policy | None] = {}
        for name in names:
            current = self._best.get(name)
            if current is old and old is not None:
                found[name] = policy if same_rank else _better(policy, self.best(name, without=old))
            elif policy is not None and _better(policy, current) is policy:
                found[name] = policy
        return found

    def put(self, pattern: str, policy: Policy | None, changes: Mapping[str, Policy | None]) -> None:
        """Replace the policy with this pattern; `changes`: the result of `changes` for it."""
        old = self.by_pattern.pop(pattern, None)
        if old is not None:
            self._remove(old)
        if policy is not None:
            self.by_pattern[pattern] = policy
            self._insert(policy)
        for name, best in changes.items():
            self._choose(name, best)

    def _choose(self, name: str, best: Policy | None) -> None:
        before = self._best.pop(name, None)
        if before is not None:
            matched = self._matched[before.pattern]
            matched.discard(name)
            if not matched:
                del self._matched[before.pattern]
        if best is not None:
            self._best[name] = best
            self._matched.setdefault(best.pattern, set()).add(name)

    def _matching(self, name: str) -> Iterator[Policy]:
        places = [self._root]
        for word in name.split("."):
            following: list[_Word] = []
            for place in places:
                yield from place.opens
                for wanted in (word, "*"):
                    if (found := place.next.get(wanted)) is not None:
                        following.append(found)
            places = following
        for place in places:
            yield from place.opens
            yield from place.ends

    def covered(self, pattern: str) -> list[str]:
        """Return the added names that match a pattern, in alphabetical order."""
        words, is_open = fixed_words(pattern)
        prefix = next((n for n, word in enumerate(words) if word == "*"), len(words))
        names = self._names
        if not prefix:
            near = names
        else:
            start = ".".join(words[:prefix])
            first = bisect_left(names, start)
            alone = names[first : first + 1] if names[first : first + 1] == [start] else []
            if prefix == len(words) and not is_open:
                return alone
            first = bisect_left(names, start + ".")
            near = alone + names[first : bisect_left(names, start + "/", first)]  # "/" sorts just after "."
        if is_open and prefix == len(words):
            return list(near)
        return [name for name in near if matches(pattern, name)]

    def _insert(self, policy: Policy) -> None:
        words, is_open = fixed_words(policy.pattern)
        place = self._root
        for word in words:
            place = place.next.setdefault(word, _Word())
        (place.opens if is_open else place.ends).append(policy)

    def _remove(self, policy: Policy) -> None:
        words, is_open = fixed_words(policy.pattern)
        path = [self._root]
        for word in words:
            path.append(path[-1].next[word])
        (path[-1].opens if is_open else path[-1].ends).remove(policy)
        for before, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            below = before.next[word]
            if below.next or below.ends or below.opens:
                break
            del before.next[word]


def _rank(policy: Policy) -> Rank:
    return policy.rank


def _better(policy: Policy | None, other: Policy | None) -> Policy | None:
    if policy is None or other is None:
        return policy or other
    return policy if policy.rank > other.rank else other
