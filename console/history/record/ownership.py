"""Which brokers this process records: one process records a broker, and several share the brokers by leases.

Of n processes each records about 1/n of the brokers: at most B/n, rounded up. A process takes a broker that no other
one records; one that has more than its share for two looks releases a broker, if another process has less. Every
process has a lease that shows that it is alive, also one that stands by. Processes of the same host take over from a
dead one at the next look, those of other hosts when its leases have expired (`console/leases/lease.py`). A broker that
no process has taken for some looks is taken beyond the share, and remains there until processes come or go.

A process whose leases could not be extended until their end stops recording: another one may have taken over. Give all
processes the same brokers and the same database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from django.utils import timezone

from brokers.steady_clock import uptime
from console.history.models import Lease
from console.leases import lease
from console.leases.lease import Busy
from console.leases.process import this_process

#: Seconds after which a lease expires without renewal.
SECONDS = 60.0
#: Seconds between two looks.
LOOK_SECONDS = 5.0
#: Looks after which a broker that no process records is taken beyond the share.
_PATIENCE = 2

_BROKER, _PROCESS = "recorder~", "recorder-process-"
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Decision:
    """Brokers to take, in this order, at most `most`; and to release."""

    take: Sequence[str] = ()
    most: int = 0
    release: Sequence[str] = ()


def decide(
    me: str,
    owners: Mapping[str, str | None],
    processes: Iterable[str],
    unowned: Container[str] = (),
    unwanted: Container[str] = (),
) -> Decision:
    """Return what the process `me` should do. `owners`: the process that records each configured broker, or None;
    `processes`: the live ones; `unowned`: brokers that no process has recorded for some looks; `unwanted`: brokers that
    no other process has taken. Pure."""
    live = sorted({me, *processes})
    share = -(-len(owners) // len(live))
    counts = Counter(dict.fromkeys(live, 0))
    counts.update(owner for owner in owners.values() if owner is not None)
    mine = [slug for slug, owner in owners.items() if owner == me]
    if len(mine) > share:
        has_less = any(counts[each] < len(owners) // len(live) for each in live if each != me)
        spare = [slug for slug in mine[share:] if slug not in unwanted]
        if spare and has_less:
            return Decision(release=spare)
    free = [slug for slug, owner in owners.items() if owner is None]
    # Each process begins elsewhere, so that they do not try the same ones.
    start = live.index(me) * share
    free = free[start % len(free) :] + free[: start % len(free)] if free else []
    if len(mine) < share:
        return Decision(take=free, most=share - len(mine))
    left = [slug for slug in free if slug in unowned]
    return Decision(take=left, most=1 if left else 0)


@dataclass(slots=True)
class Ownership:
    """`brokers`: slugs of the configured brokers; they can be replaced between two looks. `steady`: monotonic seconds,
    with the time for which the machine has slept, in which others may have taken its brokers. Every method but `owns`
    uses the database, and raises its errors."""

    brokers: Sequence[str]
    steady: Callable[[], float] = lambda: uptime() / 1000
    mine: set[str] = field(default_factory=set)
    _renewed: float = float("-inf")
    _extended: float = float("-inf")
    _unowned: dict[str, int] = field(default_factory=dict)  # looks at which no process recorded it
    _unwanted: set[str] = field(default_factory=set)
    _processes_before: set[str] = field(default_factory=set)
    _above: int = 0  # looks at which this process had more than its share

    def owns(self, slug: str) -> bool:
        """Return whether this process may record the broker: its lease has not expired."""
        return slug in self.mine and self.steady() - self._renewed < SECONDS

    def look(self) -> list[str]:
        """Extend this process's leases, and take brokers. Return the brokers that it should release, among them those
        that are no longer configured."""
        began = self.steady()
        if began - self._extended >= SECONDS / 4:
            self._extend(began)
        me = this_process()
        removed = [slug for slug in self.mine if slug not in self.brokers]
        owners = self._owners()
        processes = self._processes()
        self.mine &= {slug for slug, owner in owners.items() if owner == me} | set(removed)
        for slug, owner in owners.items():
            self._unowned[slug] = self._unowned.get(slug, 0) + 1 if owner is None else 0
        if processes != self._processes_before:
            self._processes_before = processes
            self._unwanted.clear()
        unowned = {slug for slug, looks in self._unowned.items() if looks > _PATIENCE}
        decision = decide(me, owners, processes, unowned, self._unwanted)
        taken = 0
        for slug in decision.take:
            if taken == decision.most:
                break
            try:
                lease.take(_lease(slug), SECONDS)
            except Busy:
                continue
            self.mine.add(slug)
            taken += 1
            if slug in unowned:
                self._unwanted.add(slug)
        self._above = self._above + 1 if decision.release else 0
        return [*removed, *(decision.release if self._above >= 2 else ())]

    def release(self, slug: str) -> None:
        """Release a broker. Its recording must have ended."""
        self.mine.discard(slug)
        lease.release(_lease(slug))

    def end(self) -> None:
        """Release everything."""
        for slug in list(self.mine):
            self.release(slug)
        lease.release(_process(this_process()))

    def _extend(self, now: float) -> None:
        names = [*map(_lease, self.mine), _process(this_process())]
        if not lease.extend(names, SECONDS):
            # This process is new, or another one has taken over one of the brokers.
            try:
                lease.take(_process(this_process()), SECONDS)
            except Busy:  # its own
                lease.extend([_process(this_process())], SECONDS)
            self.mine = {slug for slug in self.mine if lease.extend([_lease(slug)], SECONDS)}
        self._extended = self._renewed = now

    def _owners(self) -> dict[str, str | None]:
        names = {_lease(slug): slug for slug in self.brokers}
        now = timezone.now()
        rows = Lease.objects.filter(name__in=names)
        owned = {names[row.name]: row.holder for row in rows if not row.is_free(now)}
        return {slug: owned.get(slug) for slug in self.brokers}

    def _processes(self) -> set[str]:
        """Return the live processes, and remove the leases of dead ones."""
        now = timezone.now()
        live = set()
        for row in Lease.objects.filter(name__startswith=_PROCESS):
            if row.is_free(now):
                Lease.objects.filter(name=row.name, lease_until=row.lease_until).delete()
            else:
                live.add(row.holder)
        return live


def _lease(broker: str) -> str:
    return _name(f"{_BROKER}{broker}")


def _process(process: str) -> str:
    return f"{_PROCESS}{blake2b(process.encode(), digest_size=10).hexdigest()}"


def _name(text: str) -> str:
    """Return a text as the name of a lease, which is limited."""
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[:23]}~{blake2b(text.encode(), digest_size=8).hexdigest()}"
