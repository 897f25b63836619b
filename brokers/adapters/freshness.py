"""Which part of an answer is older than what is known already. No I/O.

An answer shows a broker at some moment between its request and its arrival, and several requests can be under way at
once. What was learned since an answer was requested, by reading back a change or from a report of the broker, is newer
than the answer: taking the answer over would undo it, and the next one would find it a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace

from brokers.adapters.observation import Observation
from brokers.model import ObjectName


class Freshness:
    """Moments are numbers that rise with everything that is learned."""

    def __init__(self) -> None:
        self._now = 0
        self._requested: list[int] = []  # when the requests that are under way were sent
        self._learned: dict[ObjectName, tuple[int, frozenset[str]]] = {}  # when, and which attributes
        self._changing: Counter[ObjectName] = Counter()
        self._columns: dict[ObjectName, frozenset[str]] = {}

    @contextmanager
    def request(self) -> Iterator[int]:
        """Enclose a request and what is done with its answer. Yields the moment of the request."""
        moment = self._now
        self._requested.append(moment)
        try:
            yield moment
        finally:
            self._requested.remove(moment)
            oldest = min(self._requested, default=self._now)
            self._learned = {name: known for name, known in self._learned.items() if known[0] > oldest}

    @contextmanager
    def change(self, name: ObjectName, columns: Iterable[str]) -> Iterator[None]:
        """Enclose a change by Headgate until it is read back. `columns`: what can be changed of the object, which other
        answers do not show until then: the event of the change has its actor."""
        self._changing[name] += 1
        self._columns[name] = frozenset(columns)
        try:
            yield
        finally:
            self._changing[name] -= 1
            if not self._changing[name]:
                del self._changing[name], self._columns[name]
            self.learned(name, ())

    def is_changing(self, name: ObjectName) -> bool:
        return name in self._changing

    def learned(self, name: ObjectName, attributes: Iterable[str]) -> None:
        """Remember that these attributes of an object, or that it is there or gone, are known as of now."""
        self._now += 1
        if self._requested:
            _, known = self._learned.get(name, (0, frozenset()))
            self._learned[name] = (self._now, known | frozenset(attributes))

    def newer(self, since: int) -> Set[ObjectName]:
        """Return the objects of which an answer that was requested at a moment does not say whether they exist."""
        return {name for name, (moment, _) in self._learned.items() if moment > since} | self._changing.keys()

    def current(self, seen: Observation, since: int, known: Container[ObjectName]) -> Observation:
        """Return an answer without what is known to be newer. `since`: when it was requested. `known`: the objects that
        exist."""
        newer = self.newer(since) & seen.objects.keys()
        if not newer:
            return seen
        objects = dict(seen.objects)
        for name in newer:
            if name not in known:
                del objects[name]
                continue
            moment, attributes = self._learned.get(name, (0, frozenset[str]()))
            stale = (attributes if moment > since else frozenset()) | self._columns.get(name, frozenset())
            objects[name] = {key: value for key, value in objects[name].items() if key not in stale}
        return replace(seen, objects=objects)
