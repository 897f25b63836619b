"""When a broker's landing files are processed: pure decisions from names, sizes and times of the files.

The recorder knows the open hour, so its files wait until their hour has closed. They are processed earlier if about a
million rows wait. A run leaves the hour of an active recorder open; if the recorder lands no further file for an hour,
another run completes that hour. Other files (imports, generated data) are of closed hours: they are processed once no
further one has landed for some seconds, so that an import of many files is one run.

Nothing here needs a correct clock: a file whose hour never seems to close is processed after `LONGEST_WAIT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.history.storage.landing_listing import LandedFile

HOUR_NS = 3_600_000_000_000
#: After the end of an hour, in ns: the recorder lands the hour's last file within the first; without a file of the next
#: hour the hour counts as closed after the second.
SETTLED, SILENT = 10_000_000_000, 90_000_000_000
#: A recorder that has landed no file for this time, in ns, has ended: coverage lands every quarter of an hour.
ENDED = HOUR_NS
#: No other file has landed for this time, in seconds.
QUIET = 5.0
#: A file waits for this time at most, in seconds.
LONGEST_WAIT = 3600.0 + 300.0
#: Bytes of waiting files that stand for a million rows, and the part of each file that is no rows: a sample takes 20 to
#: 30 bytes in files of 20,000 rows, and a file with one row 2 to 8 kB. Rows are not counted, since that would
#: require reading each file.
MANY_BYTES, FILE_BYTES = 25_000_000, 4_000


class Reason(StrEnum):
    """An hour has closed; about a million rows wait; late data waits; the longest wait is over."""

    HOUR = "hour"
    ROWS = "rows"
    LATE = "late"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class BrokerWork:
    """The waiting files of a broker. `files`: number; `at`: when a run is due if no other file lands, ns since the
    epoch, and why; `is_due`: whether it is due now; `oldest`, `newest`: when the first and the last of them landed."""

    broker: str
    files: int
    at: int
    reason: Reason
    is_due: bool
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Processed:
    """The processed files of a broker; see `models.ProcessedFiles`."""

    orders: Mapping[str, int] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    is_open: bool = False

    @property
    def newest(self) -> int:
        """When the last of the recorder's files landed, in ns; 0 without one."""
        return max(self.orders.values(), default=0)

    def has(self, file: LandedFile) -> bool:
        if file.is_recorded:
            return file.order <= self.orders.get(file.kind, 0)
        return file.identity in self.others


@dataclass(slots=True)
class DueWork:
    """`clock`: ns since the epoch; `steady`: seconds."""

    clock: Callable[[], int]
    steady: Callable[[], float]
    #: Broker -> its oldest waiting file, and since when it is known.
    _oldest: dict[str, tuple[LandedFile, float]] = field(default_factory=dict)
    #: Broker -> its waiting files that are not a recorder's, and since when there is no further one.
    _others: dict[str, tuple[frozenset[LandedFile], float]] = field(default_factory=dict)

    def find(self, files: Iterable[LandedFile], processed: Mapping[str, Processed]) -> list[BrokerWork]:
        """Return the brokers with waiting files, and those whose recorder left an hour open (`files` is 0), that with
        the oldest file first."""
        waiting: dict[str, list[LandedFile]] = {}
        for file in files:
            if file.broker not in processed or not processed[file.broker].has(file):
                waiting.setdefault(file.broker, []).append(file)
        for broker in set(self._oldest) - set(waiting):
            del self._oldest[broker], self._others[broker]
        works = [self._work(broker, its) for broker, its in waiting.items()]
        works += [
            BrokerWork(broker, 0, newest + ENDED, Reason.HOUR, True, newest, newest)
            for broker, newest in left_open(processed, self.clock()).items()
            if broker not in waiting
        ]
        return sorted(works, key=lambda work: (work.oldest, work.broker))

    def _work(self, broker: str, files: list[LandedFile]) -> BrokerWork:
        steady, now = self.steady(), self.clock()
        oldest = min(files, key=_moment)
        if self._oldest.get(broker, (None,))[0] != oldest:
            self._oldest[broker] = oldest, steady
        first_seen = self._oldest[broker][1]
        others = frozenset(file for file in files if not file.is_recorded)
        known, since = self._others.get(broker, (frozenset(), steady))
        if others != known:
            since = steady
        self._others[broker] = others, since
        recorded = [_moment(file) for file in files if file.is_recorded]
        due = [(now + _ns(first_seen + LONGEST_WAIT - steady), Reason.WAIT)]
        if others:
            due.append((now + _ns(since + QUIET - steady), Reason.LATE))
        if recorded:
            closes = (min(recorded) // HOUR_NS + 1) * HOUR_NS
            due.append((closes + (SETTLED if max(recorded) >= closes else SILENT), Reason.HOUR))
        if sum(max(0, file.size - FILE_BYTES) for file in files) >= MANY_BYTES:
            due.append((now, Reason.ROWS))
        at, reason = min(due)
        return BrokerWork(broker, len(files), at, reason, at <= now, _moment(oldest), max(map(_moment, files)))


def left_open(processed: Mapping[str, Processed], now: int) -> dict[str, int]:
    """Return the brokers whose recorder has ended in an hour that is still open, and when its last file landed, ns.
    `now`: ns since the epoch."""
    return {
        broker: each.newest
        for broker, each in processed.items()
        if each.is_open and each.orders and now - each.newest >= ENDED
    }


def all_of(files: Iterable[LandedFile]) -> dict[str, Processed]:
    """Return by broker what has been processed once all of these files have been."""
    brokers: dict[str, list[LandedFile]] = {}
    for file in files:
        brokers.setdefault(file.broker, []).append(file)
    found = {}
    for broker, its in brokers.items():
        orders: dict[str, int] = {}
        for file in its:
            if file.is_recorded:
                orders[file.kind] = max(orders.get(file.kind, 0), file.order)
        found[broker] = Processed(orders, frozenset(file.identity for file in its if not file.is_recorded))
    return found


def _moment(file: LandedFile) -> int:
    """Return when a file landed, in ns. Sequences are in the future if the clock has been set back since, and times of
    copied files are too late."""
    return min(file.order, file.landed)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
