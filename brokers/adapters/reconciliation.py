"""One event for each change, though both the broker's reports and the polls show it. No I/O; times are parameters.

A report is exact and comes first as a rule. But a source of reports can end at any moment, and what it had not
delivered by then, only polls show. So what a poll finds of a kind that the broker reports waits for the report; without
one in time, or when the source ends, it is the event. A report that comes later still is the same change, and no event.

A source reports the changes of one object in their order: after a report, those before it will not come any more.
Events of most kinds alternate, so a report of the same kind is of the change that a poll has found. Changes of a policy
follow each other, and the report of one may be lost, with the connection over which it would have come. The report of
the next one must not be taken for it: else that would be without a report in its turn, and so would all after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from itertools import chain, count

from brokers.adapters.observation import Attributes
from brokers.engine.values.events import Fact
from brokers.model import ObjectName

#: How long a change that a poll has found waits for the broker's own report of it, ms.
WAIT_MS = 5_000
#: How long a report can be later than that and be recognized, ms.
LATE_MS = 30_000
#: The reports from which it is known how much this process's clock is ahead of the broker's.
REPORTS_TIMED = 20


@dataclass(slots=True)
class Expected:
    """A change whose report is expected until some time. `state`: of the object after it; None: it is gone. `is_event`:
    it is an event already."""

    number: int
    fact: Fact
    state: Attributes | None
    until: int
    is_event: bool


@dataclass(frozen=True, slots=True)
class Match:
    """What is known of a reported change. `before`: events that are due, since their reports will not come any more.
    `expected`: the change itself, None if neither a poll nor Headgate has been first."""

    before: list[Fact]
    expected: Expected | None


class Reconciliation:
    """See the module. All times: ms since the epoch, of this process."""

    def __init__(self) -> None:
        self._numbers = count()
        self._expected: dict[ObjectName, list[Expected]] = {}  # of each object in its order
        self._early: set[tuple[str, ObjectName]] = set()  # reports of changes that Headgate has not read back yet
        self._ahead: dict[ObjectName, tuple[int, str]] = {}  # last report of objects that no poll has shown, until when
        self._ages: deque[int] = deque(maxlen=REPORTS_TIMED)  # of the last reports when they came, by both clocks, ms

    def clock_set(self, step: int) -> None:
        """The clock of this process was set by `step` ms: nothing is due earlier or later because of that."""
        for each in chain.from_iterable(self._expected.values()):
            each.until += step
        self._ahead = {name: (until + step, kind) for name, (until, kind) in self._ahead.items()}
        self._ages = deque((age + step for age in self._ages), maxlen=REPORTS_TIMED)

    @property
    def waiting(self) -> Set[ObjectName]:
        """The objects with a change that waits for its report."""
        return {name for name, some in self._expected.items() if not all(each.is_event for each in some)}

    def polled(
        self, found: Iterable[Fact], objects: Mapping[ObjectName, Attributes], reports: Collection[str], now: int
    ) -> list[Fact]:
        """Return the events that are due when a poll has found these. `objects`: as they are after them. `reports`: the
        kinds that the broker reports now."""
        for fact in found:
            if self._ahead.get(fact.object, (0, ""))[1] == fact.kind:
                del self._ahead[fact.object]
            else:
                self._expect(fact, objects.get(fact.object), now + WAIT_MS, is_event=False)
        due: list[Expected] = []
        for name, some in list(self._expected.items()):
            for each in some:
                if not each.is_event and (each.until <= now or each.fact.kind not in reports):
                    each.is_event, each.until = True, now + LATE_MS
                    due.append(each)
            left = [each for each in some if each.until > now and each.fact.kind in reports]
            self._leave(name, left)
        self._ahead = {name: each for name, each in self._ahead.items() if each[0] > now and each[1] in reports}
        return [each.fact for each in sorted(due, key=lambda each: each.number)]

    def changed(
        self, found: Iterable[Fact], objects: Mapping[ObjectName, Attributes], reports: Collection[str], now: int
    ) -> None:
        """Take note of events of changes by Headgate, whose reports are the same changes; see `polled`."""
        for fact in found:
            if (fact.kind, fact.object) in self._early:
                self._early.discard((fact.kind, fact.object))
            elif fact.kind in reports:
                self._expect(fact, objects.get(fact.object), now + LATE_MS, is_event=True)

    def _expect(self, fact: Fact, state: Attributes | None, until: int, *, is_event: bool) -> None:
        self._expected.setdefault(fact.object, []).append(Expected(next(self._numbers), fact, state, until, is_event))

    def _leave(self, name: ObjectName, left: list[Expected]) -> None:
        if left:
            self._expected[name] = left
        else:
            self._expected.pop(name, None)

    def match(self, event: Fact, observed: Attributes | None, now: int) -> Match:
        """Return what is known of a reported change. It and those before it are no longer expected. `observed`: what
        the report says about the object; None: it is gone."""
        self._ages.append(now - event.at)
        happened = event.at + min(self._ages)  # the report that was fastest has taken no time
        some = self._expected.get(event.object, [])
        place = next((i for i, each in enumerate(some) if _is_same(each, event, observed, happened)), None)
        before = some if place is None else some[:place]
        self._leave(event.object, [] if place is None else some[place + 1 :])
        due = [each.fact for each in before if not each.is_event]
        return Match(due, None if place is None else some[place])

    def reported_early(self, event: Fact) -> None:
        """Take note of the report of a change that Headgate is making: it will be an event with its actor."""
        self._early.add((event.kind, event.object))

    def reported_first(self, event: Fact, now: int) -> None:
        """Take note of a report on an object that no poll has shown yet: the first one that does will find the same."""
        self._ahead[event.object] = (now + LATE_MS, event.kind)


def _is_same(expected: Expected, reported: Fact, observed: Attributes | None, happened: int) -> bool:
    """Return whether both are of the same kind and, for limits, on the same resource. Changes of a policy are the same
    if they have the same result, or if that of the report is older than the answer of the poll, which then has found
    several at once. `happened`: when, by the clock of this process."""
    found = expected.fact
    if found.kind != reported.kind or found.attributes.get("resource") != reported.attributes.get("resource"):
        return False
    return found.kind != "policy-changed" or _agree(expected.state, observed) or happened <= found.at


def _agree(state: Attributes | None, observed: Attributes | None) -> bool:
    if state is None or observed is None:
        return state is observed
    return all(state.get(key) == value for key, value in observed.items())
