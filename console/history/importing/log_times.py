"""Parse the timestamps that brokers' loggers and syslog write before a message. Pure.

log4j, logback, ISO 8601, the C++ broker's, `ctime`, syslog (whose year is guessed) and seconds or milliseconds since
the epoch. A time without a zone is local time of a given zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_TIME = r"(?P<minute>(?P<h>\d\d):(?P<mi>\d\d)):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?: ?(?P<z>Z|UTC|GMT|[+-]\d\d:?\d\d))?(?![\d:])"
_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTH = rf"(?P<mo>{_NAMES})"

#: In this order: the most specific form wins, such as a logger's own time after that of syslog.
_FORMS = tuple(
    re.compile(form)
    for form in (
        # 2014-06-02 12:14:05,123  2014-06-02T12:14:05.123456789Z  2014/06/02 12:14:05  2008-oct-13 12:14:05
        rf"(?<!\d)(?P<y>\d{{4}})[-/](?P<mo>\d\d|(?i:{_NAMES}))[-/](?P<d>\d\d)[T ]{_TIME}{_ZONE}",
        # 02 Jun 2014 12:14:05,123  02/Jun/2014:12:14:05 +0200
        rf"(?<!\d)(?P<d>\d{{1,2}})[ /-]{_MONTH}[ /-](?P<y>\d{{4}})[ :]{_TIME}{_ZONE}",
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


class LogTimes:
    """Reads the timestamps of one log, in order.

    `zone`: of times without one. `written`: ms, when the file was last written, from which the year of syslog times is
    guessed.
    """

    def __init__(self, zone: tzinfo, written: int) -> None:
        self.zone = zone
        self._latest = datetime.fromtimestamp(written / 1000, zone) + timedelta(days=1)
        self._minutes: dict[tuple[str | None, ...], tuple[int, int]] = {}
        self._last = 0
        self._again = False

    def read(self, head: str) -> int | None:
        """Return ms since the epoch; None without a timestamp before the message."""
        head = head[:_HEAD]
        for form in _FORMS:
            if match := form.search(head):
                break
        else:
            return self._epoch(head)
        year, month, day, minute, second, fraction, zone = match.group("y", "mo", "d", "minute", "s", "f", "z")
        key = (year, month, day, minute, zone)
        both = self._minutes.get(key)
        if both is None:
            if len(self._minutes) > 10_000:
                self._minutes.clear()
            both = self._minutes[key] = self._both(match)
        first, second_time = both
        if first < 0:
            return None
        # The repeated hour in autumn: a clock that jumps back by more than half an hour starts the second one.
        self._again = second_time != first and (self._again or first < self._last - 1_800_000)
        at = second_time if self._again else first
        at += int(second) * 1000
        if fraction:
            at += int(fraction[:3].ljust(3, "0"))
        self._last = at
        return at

    def _epoch(self, head: str) -> int | None:
        match = _EPOCH.match(head)
        if not match:
            return None
        return int(match["seconds"]) * 1000 + int((match["f"] or "0")[:3].ljust(3, "0"))

    def _both(self, match: re.Match[str]) -> tuple[int, int]:
        """Return the start of the minute, ms, for the first and the second time a local clock shows it; -1: none."""
        month = match["mo"]
        number = int(month) if month.isdecimal() else _MONTHS[month.lower()]
        day, hour, minute = int(match["d"]), int(match["h"]), int(match["mi"])
        zone = _zone(match["z"]) or self.zone
        try:
            if match["y"]:
                local = datetime(int(match["y"]), number, day, hour, minute, tzinfo=zone)
            else:
                local = self._with_year(number, day, hour, minute)
            first = _ms(local)
        except (ValueError, OverflowError):
            return -1, -1
        return first, max(first, _ms(local.replace(fold=1)))

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
        minutes = int(text[1:3]) * 60 + int(text[-2:])
        return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))
    return None  # abbreviations such as CEST are ambiguous: the given zone applies


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000
