"""Parse the timestamps that brokers' loggers and syslog write before a message. Pure.

log4j, logback, java.util.logging, ISO 8601, Erlang's, the C++ broker's, `ctime`, syslog (whose year is guessed) and
seconds or milliseconds since the epoch. A time without a zone is local time of a given zone. Forms that several
countries read differently (02/06/2014) need a layout (`layouts.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any, Literal

_TIME = r"(?P<minute>(?P<h>\d\d?):(?P<mi>\d\d)):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?(?P<ap>)"
_ZONE = r"(?: ?(?P<z>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?(?![\d:])"
_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTH = rf"(?P<mo>{_NAMES})"

#: In this order: the most specific form wins, such as a logger's own time after that of syslog.
FORMS = tuple(
    re.compile(form)
    for form in (
        # 2014-06-02 12:14:05,123  2014-06-02T12:14:05.123456789Z  2014/06/02 12:14:05  2008-oct-13 12:14:05
        rf"(?<!\d)(?P<y>\d{{4}})[-/.](?P<mo>\d\d|(?i:{_NAMES}))[-/.](?P<d>\d\d)[T ]{_TIME}{_ZONE}",
        # 02 Jun 2014 12:14:05,123  02/Jun/2014:12:14:05 +0200  2-Jun-2014::12:14:05
        rf"(?<!\d)(?P<d>\d{{1,2}})[ /-]{_MONTH}[ /-](?P<y>\d{{4}})(?: |::?){_TIME}{_ZONE}",
        # 02.06.2014 12:14:05,123
        rf"(?<!\d)(?P<d>\d\d)\.(?P<mo>\d\d)\.(?P<y>\d{{4}}),? {_TIME}{_ZONE}",
        # 20140602T121405.123Z  20140602 12:14:05,123
        r"(?<!\d)(?P<y>\d{4})(?P<mo>\d\d)(?P<d>\d\d)[T ](?P<minute>(?P<h>\d\d):?(?P<mi>\d\d)):?(?P<s>\d\d)"
        rf"(?:[.,]?(?P<f>\d{{1,9}}))?(?P<ap>){_ZONE}",
        # Jun 2, 2014 12:14:05 PM  Jun 02, 2014 12:14:05,123
        rf"{_MONTH} +(?P<d>\d{{1,2}}),? (?P<y>\d{{4}}),? (?P<minute>(?P<h>\d\d?):(?P<mi>\d\d)):(?P<s>\d\d)"
        r"(?:[.,](?P<f>\d{1,9}))?(?:[ \u202f](?P<ap>[AP]M))?(?P<z>)",
        # Mon Jun  2 12:14:05 2014  Mon Jun 02 12:14:05 UTC 2014
        rf"{_MONTH} +(?P<d>\d{{1,2}}) {_TIME}(?: (?P<z>UTC|GMT|[A-Z]{{3,5}}))? (?P<y>\d{{4}})(?!\d)",
        # Jun  2 12:14:05 host qpidd[123]:
        rf"{_MONTH} +(?P<d>\d{{1,2}}) {_TIME}(?P<y>)(?P<z>)",
    )
)
_EPOCH = re.compile(r"^\W{0,2}(?P<seconds>[1-4]\d{9})(?:\.?(?P<f>\d{1,9}))?(?!\d)")
_MONTHS = {month.lower(): n for n, month in enumerate(_NAMES.split("|"), 1)}
#: A timestamp starts within this number of characters.
_HEAD = 120
#: Times of other centuries are no times of a log, ms.
_CENTURY = range(946_684_800_000, 4_102_444_800_000)
_DAY, _NO_TIME = 86_400_000, timedelta()

#: How far the lines of one log may be out of order, ms. In the repeated hour a greater step back is the clock's.
DISORDER = 5_000

#: Which of the two a time of the repeated hour in autumn is. `order`: the second one after a step back.
Fold = Literal["order", "first", "second"]


class LogTimes:
    """Reads the timestamps of one log, in order.

    `zone`: of times without one. `written`: ms, when the file was last written, from which the year of syslog times is
    guessed. `fold`: for a log with so few lines that their order says nothing.
    """

    def __init__(self, zone: tzinfo, written: int, fold: Fold = "order") -> None:
        self.zone = zone
        self._fold = fold
        self._latest = datetime.fromtimestamp(written / 1000, zone) + timedelta(days=1)
        self._minutes: dict[tuple[str | None, ...], tuple[int, int]] = {}
        self._last = 0
        self._again = False

    @property
    def state(self) -> list[int]:
        """What the next line's time depends on; give it to `continue_from`."""
        return [self._last, int(self._again)]

    def continue_from(self, state: Sequence[int]) -> None:
        self._last, self._again = state[0], bool(state[1])

    def set_back(self, first: int, last: int) -> bool:
        """Return whether the local clock is set back within a day of this time, in ms."""
        begin, end = first // _DAY - 1, last // _DAY + 2
        if end - begin > 500:
            return True
        offsets = [datetime.fromtimestamp(day * _DAY / 1000, self.zone).utcoffset() for day in range(begin, end + 1)]
        return any((a or _NO_TIME) > (b or _NO_TIME) for a, b in pairwise(offsets))

    def read(self, head: str) -> int | None:
        """Return ms since the epoch; None without a timestamp before the message."""
        head = head[:_HEAD]
        for form in FORMS:
            if match := form.search(head):
                return self.of(match.groupdict())
        return self._epoch(head)

    def of(self, parts: Mapping[str, str | None]) -> int | None:
        """Return ms since the epoch for the groups of a form: year, month, day (y, mo, d), `minute`, which is h and
        mi, second, its fraction (s, f), zone and AM or PM (z, ap); None if there is no such time."""
        key = (parts["y"], parts["mo"], parts["d"], parts["minute"], parts["z"], parts["ap"])
        both = self._minutes.get(key)
        if both is None:
            if len(self._minutes) > 10_000:
                self._minutes.clear()
            both = self._minutes[key] = self._both(parts)
        first, second_time = both
        if first < 0:
            return None
        fraction = parts["f"]
        seconds = int(parts["s"] or 0) * 1000 + (int(fraction[:3].ljust(3, "0")) if fraction else 0)
        if self._fold == "order":
            back = first + seconds < self._last - DISORDER
            self._again = second_time != first and (self._again or back)
        else:
            self._again = self._fold == "second"
        at = (second_time if self._again else first) + seconds
        self._last = at
        return at

    def of_number(self, number: float) -> int | None:
        """Return ms for a number of seconds, ms, µs or ns since the epoch, whichever is in this century; else None."""
        if not abs(number) < _CENTURY.stop * 1_000_000:  # neither is NaN
            return None
        for ms in (1000.0, 1.0, 0.001, 0.000001):
            if _CENTURY.start <= number * ms < _CENTURY.stop:
                return round(number * ms)
        return None

    def _epoch(self, head: str) -> int | None:
        match = _EPOCH.match(head)
        if not match:
            return None
        return int(match["seconds"]) * 1000 + int((match["f"] or "0")[:3].ljust(3, "0"))

    def _both(self, parts: Mapping[str, Any]) -> tuple[int, int]:
        """Return the start of the minute, ms, for the first and the second time a local clock shows it; -1: none."""
        month = parts["mo"]
        number = int(month) if month.isdecimal() else _MONTHS.get(month[:3].lower(), 0)
        day, hour, minute = int(parts["d"]), int(parts["h"]), int(parts["mi"])
        if parts["ap"]:
            hour = hour % 12 + 12 * (parts["ap"].upper() == "PM")
        try:
            zone = _zone(parts["z"]) or self.zone
            if parts["y"]:
                year = int(parts["y"]) + (2000 if len(parts["y"]) == 2 else 0)
                local = datetime(year, number, day, hour, minute, tzinfo=zone)
            else:
                local = self._with_year(number, day, hour, minute)
            first, second = _ms(local), _ms(local.replace(fold=1))
        except (ValueError, OverflowError):
            return -1, -1
        if first not in _CENTURY:
            return -1, -1
        if parts["z"] and local.tzname() != local.replace(fold=1).tzname():  # CET and CEST say which one it is
            if parts["z"] == local.tzname():
                return first, first
            if parts["z"] == local.replace(fold=1).tzname():
                return second, second
        return first, max(first, second)

    def _with_year(self, month: int, day: int, hour: int, minute: int) -> datetime:
        """Return the time in the last year in which it is not later than the file. Raises ValueError without such a
        day."""
        for year in range(self._latest.year, self._latest.year - 8, -1):
            try:
                local = datetime(year, month, day, hour, minute, tzinfo=self.zone)
            except ValueError:  # the 29th of February
                continue
            if local <= self._latest:
                return local
        raise ValueError(f"there is no day {day} in month {month}")


def _zone(text: str | None) -> tzinfo | None:
    if not text:
        return None
    if text in ("Z", "UTC", "GMT"):
        return UTC
    if text[0] in "+-":
        digits = text[1:].replace(":", "").ljust(4, "0")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
    return None  # abbreviations such as CEST are ambiguous: the given zone applies


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000
