"""Parsing of times in requests: ms since the epoch, or ISO 8601."""

from __future__ import annotations

import datetime as dt

from brokers.admin import InvalidValue
from brokers.input_checks import whole_number

#: Latest time, in 2109, ms since the epoch.
LATEST = 1 << 42
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def parse_time(field: str, text: str, *, zone: dt.tzinfo | None = None) -> int:
    """Return the time in ms since the epoch. `zone`: time zone of a time without one; None: such a time is refused.
    Raises InvalidValue."""
    found = whole_number(text)
    if found is None:
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            raise InvalidValue(
                {field: f"{field} is {text!r}: it must be ms since the epoch or a time such as 2026-03-14T12:00:00Z"}
            ) from None
        if moment.tzinfo is None and zone is None:
            raise InvalidValue(
                {field: f"{field} is {text!r}: it must have a time zone, such as {text}Z or {text}+01:00"}
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        # By subtraction: a time in the year 1 with an offset east of UTC cannot be converted to UTC.
        found = round((moment - _EPOCH) / dt.timedelta(milliseconds=1))
    if not 0 <= found <= LATEST:
        raise InvalidValue({field: f"{field} is {text!r}: it must be from 1970 to 2109"})
    return found
