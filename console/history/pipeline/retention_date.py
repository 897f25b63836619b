"""The date as of which retention deletes rows. It follows the clock, but at most two days a night.

A clock that is a year ahead for a night would otherwise delete all samples. The date of the last retention, and what
the clock showed then, are in a file beside the data: hosts that share a history have clocks of their own, and the
console's database may be replaced. After a pause of the machine the date takes some nights to reach the clock's. An
operator can confirm the clock's date instead.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.history.storage.landing import Landing

#: Days by which the date may advance between two retentions: one more than in a normal night, so that it catches up.
MOST_DAYS_A_NIGHT = 2

_FILE = "retention.json"


@dataclass(frozen=True, slots=True)
class Retained:
    """The last retention. `as_of`: its date; `clock`: the date that the clock showed, UTC."""

    as_of: dt.date
    clock: dt.date

    @property
    def days_behind(self) -> int:
        return max(0, (self.clock - self.as_of).days)


def next_date(last: Retained, today: dt.date) -> dt.date:
    """Return the date as of which retention may delete when the clock shows `today`. A repetition on the same day
    advances nothing: the number of attempts must not matter."""
    most = last.as_of if today == last.clock else last.as_of + dt.timedelta(days=MOST_DAYS_A_NIGHT)
    return min(today, most)


def last_retention(landing: Landing) -> Retained | None:
    """Return what the last retention has recorded; None: nothing readable. Raises LandingError."""
    content = landing.get(_FILE)
    if content is None:
        return None
    try:
        given = json.loads(content)
        return Retained(dt.date.fromisoformat(given["as_of"]), dt.date.fromisoformat(given["clock"]))
    except (ValueError, KeyError, TypeError):  # damaged by a power failure or an editor: as before the first one
        return None


def due_date(landing: Landing, today: dt.date, newest: Callable[[], dt.date | None]) -> dt.date:
    """Return the date for a retention now. `newest`: returns the day of the newest recorded data, from which the first
    retention goes on; None: there is no data. Raises LandingError."""
    last = last_retention(landing)
    if last is None:
        last = Retained(newest() or today, dt.date.min)
    return next_date(last, today)


def record_retention(landing: Landing, as_of: dt.date, today: dt.date) -> None:
    """Record that a retention as of that date has succeeded. The date never goes back, also if the clock does: it would
    take long to catch up. Raises LandingError."""
    last = last_retention(landing)
    _store(landing, Retained(as_of if last is None else max(as_of, last.as_of), today))


def confirm_clock(landing: Landing, today: dt.date) -> None:
    """Record that the clock's date is right: the next retention deletes as of it. Raises LandingError."""
    _store(landing, Retained(today, today))


def _store(landing: Landing, retained: Retained) -> None:
    content = {"as_of": retained.as_of.isoformat(), "clock": retained.clock.isoformat()}
    landing.put(_FILE, json.dumps(content).encode())
