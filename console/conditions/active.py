"""The active conditions of a broker, and since when they are active. Pure: the caller supplies the time.

Updated once a second, with the queues that have changed and may have findings. Those that have some are processed each
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from console.conditions.detectors import (
    BROKEN,
    DETECTORS,
    FLAPPING,
    FLAPS,
    Finding,
    Observation,
    Row,
    is_ordinary,
    queue_findings,
)
from console.conditions.remedies import ALL, Remedies
from console.conditions.trends import Rates

#: Order of kinds of the same severity.
_ORDER = {kind: place for place, kind in enumerate(DETECTORS)}
_REMEMBERED = 2 * FLAPS
#: Queues that are processed in one step.
STEP = 500


@dataclass(frozen=True, slots=True)
class Condition:
    """A finding that has lasted long enough. `since`: when it was first found, ms since the epoch, by the broker's
    clock."""

    finding: Finding
    since: int

    def as_json(self) -> dict[str, Any]:
        """Return the condition as the API and pages show it."""
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
class _Occurrence:
    finding: Finding
    first: int
    last: int


class ActiveConditions:
    """The conditions of one broker. `conditions`: sorted, the most severe first."""

    def __init__(self) -> None:
        self.conditions: tuple[Condition, ...] = ()
        self._rows: dict[str, Row] = {}
        self._found: dict[str, dict[str, _Occurrence]] = {}
        self._overfull: dict[str, deque[int]] = {}
        self._broken: dict[str, deque[tuple[int, str]]] = {}

    @property
    def watched(self) -> set[str]:
        """The names of what has findings or recent events, which each update processes."""
        return {*self._found, *self._overfull, *self._broken}

    def became_overfull(self, queue: str, at: int) -> None:
        """Process an event that a queue became overfull; `queue` is the text of its name."""
        self._overfull.setdefault(queue, deque(maxlen=_REMEMBERED)).append(at)

    def broke_flow_control(self, queue: str, at: int, text: str) -> None:
        """Process an event that the broker closed a link to this queue; `text`: that of the event."""
        self._broken.setdefault(queue, deque(maxlen=_REMEMBERED)).append((at, text))

    def shift(self, by: int) -> None:
        """Move stored times by `by` ms, after the broker's clock was set."""
        for kinds in self._found.values():
            for occurrence in kinds.values():
                occurrence.first, occurrence.last = occurrence.first + by, occurrence.last + by
        for queue, times in self._overfull.items():
            self._overfull[queue] = deque((at + by for at in times), maxlen=_REMEMBERED)
        for queue, broken in self._broken.items():
            self._broken[queue] = deque(((at + by, text) for at, text in broken), maxlen=_REMEMBERED)

    def update(
        self,
        changed: Iterable[Row],
        rates: Callable[[str], Rates],
        now: int,
        *,
        gone: Iterable[str] = (),
        others: Iterable[Finding] = (),
        short: Callable[[Row], bool] = lambda row: False,
        remedies: Remedies = ALL,
    ) -> Iterator[None]:
        """Process, in steps of `STEP` queues, the current rows of the `watched` queues and of those that have changed
        since the last update, unless they are ordinary, the names of those that are gone, and `others`, all findings
        about other objects. `remedies`: those of the broker. `conditions` changes at the end."""
        self._forget_old(now)
        for name in gone:
            for by_queue in (self._rows, self._found, self._overfull, self._broken):
                by_queue.pop(name, None)
        due = {row["object"]: row for row in changed}
        self._rows.update(due)
        for name in self.watched & self._rows.keys() - due.keys():
            due[name] = self._rows[name]
        for number, (name, row) in enumerate(due.items(), 1):
            if number % STEP == 0:
                yield
            found = self._findings(name, row, Observation(now, rates(name), remedies=remedies), short)
            if found or name in self._found:
                self._take(name, {finding.kind: finding for finding in found}, now, row)
        elsewhere: dict[str, dict[str, Finding]] = {}
        for finding in others:
            elsewhere.setdefault(finding.object, {})[finding.kind] = finding
        for name in {*elsewhere, *(self._found.keys() - self._rows.keys())}:
            self._take(name, elsewhere.get(name, {}), now)
        self._rows = {name: self._rows[name] for name in self.watched & self._rows.keys()}
        self.conditions = self._lasting(now)

    def _findings(self, name: str, row: Row, observed: Observation, short: Callable[[Row], bool]) -> list[Finding]:
        """Return the findings of a queue; the events of it are added to what was observed."""
        overfull, broken = self._overfull.get(name, ()), self._broken.get(name, ())
        if not overfull and not broken and is_ordinary(row, observed.rates.growth):
            return []
        return queue_findings(row, observed._replace(overfull=overfull, broken=broken, short=short(row)))

    def _take(self, name: str, found: Mapping[str, Finding], now: int, row: Row | None = None) -> None:
        occurrences = self._found.setdefault(name, {})
        for kind, finding in found.items():
            before = occurrences.get(kind)
            # No time passes for a finding while the clock is set back.
            occurrences[kind] = _Occurrence(finding, now if before is None else min(before.first, now), now)
        for kind in [k for k in occurrences if k not in found]:
            ended = row is not None and DETECTORS[kind].ended(row)
            if ended or now - occurrences[kind].last >= _retention(kind, occurrences[kind]):
                del occurrences[kind]
        if not occurrences:
            del self._found[name]

    def _lasting(self, now: int) -> tuple[Condition, ...]:
        lasting = [
            Condition(occurrence.finding, occurrence.first)
            for kinds in self._found.values()
            for kind, occurrence in kinds.items()
            if occurrence.last - occurrence.first >= DETECTORS[kind].after
        ]
        lasting.sort(key=lambda c: (c.finding.severity != "trouble", _ORDER[c.finding.kind], c.since, c.finding.object))
        return tuple(lasting)

    def _forget_old(self, now: int) -> None:
        for name in [n for n, times in self._overfull.items() if now - times[-1] > FLAPPING]:
            del self._overfull[name]
        for name in [n for n, times in self._broken.items() if now - times[-1][0] > BROKEN]:
            del self._broken[name]


def _retention(kind: str, occurrence: _Occurrence) -> int:
    """Return how long a finding stays after it was last found, ms; 0 if it never became a condition."""
    detector = DETECTORS[kind]
    return detector.retain if occurrence.last - occurrence.first >= detector.after else 0
