"""Which conditions are in force at a broker, and since when. Pure: who calls it brings the time.

Looked at once a second. Rows are replaced and never changed, so that of ten thousand queues only those cost something
that changed since the last look, or in which something has been found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from console.conditions.detectors import BROKEN, DETECTORS, FLAPPING, FLAPS, Finding, Row, Sight, of_queue
from console.conditions.trends import Rates

#: Trouble before warnings, and within them the kinds in the order of `DETECTORS`.
_ORDER = {kind: place for place, kind in enumerate(DETECTORS)}
_REMEMBERED = 2 * FLAPS


@dataclass(frozen=True, slots=True)
class Condition:
    """A finding that has lasted. `since`: when it was first seen, ms since the epoch, by the broker's clock."""

    finding: Finding
    since: int

    def shown(self) -> dict[str, Any]:
        finding = self.finding
        return {
            "kind": finding.kind,
            "title": DETECTORS[finding.kind].title,
            "object": finding.object,
            "severity": finding.severity,
            "saw": finding.saw,
            "advice": finding.advice,
            "since": self.since,
        }


@dataclass(slots=True)
class _Seen:
    finding: Finding
    first: int
    last: int


class Standing:
    """The conditions of one broker. `told` ascends by importance."""

    def __init__(self) -> None:
        self.told: tuple[Condition, ...] = ()
        self._rows: dict[str, Row] = {}
        self._found: dict[str, dict[str, _Seen]] = {}
        self._overfull: dict[str, deque[int]] = {}
        self._broken: dict[str, deque[tuple[int, str]]] = {}

    def became_overfull(self, queue: str, at: int) -> None:
        """An event told so; `queue` is the text of its name."""
        self._overfull.setdefault(queue, deque(maxlen=_REMEMBERED)).append(at)

    def broke_flow_control(self, queue: str, at: int, said: str) -> None:
        """An event told that the broker ended a link of this queue."""
        self._broken.setdefault(queue, deque(maxlen=_REMEMBERED)).append((at, said))

    def shift(self, by: int) -> None:
        """The broker's clock was set by so many ms, and with it what is remembered."""
        for kinds in self._found.values():
            for seen in kinds.values():
                seen.first, seen.last = seen.first + by, seen.last + by
        for queue, times in self._overfull.items():
            self._overfull[queue] = deque((at + by for at in times), maxlen=_REMEMBERED)
        for queue, broken in self._broken.items():
            self._broken[queue] = deque(((at + by, said) for at, said in broken), maxlen=_REMEMBERED)

    def look(
        self,
        rows: Iterable[Row],
        rates: Callable[[str], Rates],
        now: int,
        *,
        others: Iterable[Finding] = (),
        short: Callable[[Row], bool] = lambda row: False,
    ) -> bool:
        """Take in how things are: rows of all queues, and `others`, what was found besides. True: `told` changed."""
        self._forget_old(now)
        here = set()
        for row in rows:
            name = row["object"]
            here.add(name)
            special = name in self._found or name in self._overfull or name in self._broken
            if self._rows.get(name) is row and not special:
                continue
            self._rows[name] = row
            sight = Sight(
                now,
                rates(name),
                self._overfull.get(name, ()),
                self._broken.get(name, ()),
                short(row),
            )
            self._take(name, {finding.kind: finding for finding in of_queue(row, sight)}, now, row)
        for name in self._rows.keys() - here:
            for kept in (self._rows, self._found, self._overfull, self._broken):
                kept.pop(name, None)
        elsewhere: dict[str, dict[str, Finding]] = {}
        for finding in others:
            elsewhere.setdefault(finding.object, {})[finding.kind] = finding
        for name in {*elsewhere, *(self._found.keys() - self._rows.keys())}:
            self._take(name, elsewhere.get(name, {}), now)
        before, self.told = self.told, self._standing(now)
        return before != self.told

    def _take(self, name: str, found: Mapping[str, Finding], now: int, row: Row | None = None) -> None:
        seen = self._found.setdefault(name, {})
        for kind, finding in found.items():
            known = seen.get(kind)
            # A clock that was set back counts as no time.
            seen[kind] = _Seen(finding, now if known is None else min(known.first, now), now)
        for kind in [k for k in seen if k not in found]:
            ended = row is not None and DETECTORS[kind].ended(row)
            if ended or now - seen[kind].last >= _keep(kind, seen[kind]):
                del seen[kind]
        if not seen:
            del self._found[name]

    def _standing(self, now: int) -> tuple[Condition, ...]:
        lasting = [
            Condition(seen.finding, seen.first)
            for kinds in self._found.values()
            for kind, seen in kinds.items()
            if seen.last - seen.first >= DETECTORS[kind].after
        ]
        lasting.sort(key=lambda c: (c.finding.severity != "trouble", _ORDER[c.finding.kind], c.since, c.finding.object))
        return tuple(lasting)

    def _forget_old(self, now: int) -> None:
        for name in [n for n, times in self._overfull.items() if now - times[-1] > FLAPPING]:
            del self._overfull[name]
        for name in [n for n, times in self._broken.items() if now - times[-1][0] > BROKEN]:
            del self._broken[name]


def _keep(kind: str, seen: _Seen) -> int:
    """What was never told need not be kept."""
    detector = DETECTORS[kind]
    return detector.keep if seen.last - seen.first >= detector.after else 0
