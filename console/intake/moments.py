"""Moments as people and programs write them in an address: one reading for every parameter that is a time."""

from __future__ import annotations

import datetime as dt

from brokers.admin import InvalidValue
from brokers.input_checks import whole_number

#: ms since the epoch, in 2109.
LATEST = 1 << 42
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moment_in(field: str, text: str, *, zone: dt.tzinfo | None = None) -> int:
    """ms since the epoch, of a text that is that or ISO 8601. `zone`: of a time that names none; None: it has to name
    one. Raises InvalidValue."""
    found = whole_number(text)
    if found is None:
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            raise InvalidValue(
                {field: f"{field} is {text!r}: it must be ms since the epoch or a time such as 2026-03-14T12:00:00Z"}
            ) from None
        if moment.tzinfo is None and zone is None:
            raise InvalidValue({field: f"{field} is {text!r}: it must name its zone, such as {text}Z or {text}+01:00"})
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        # By their difference: a moment of the year 1 east of Greenwich has no date in UTC.
        found = round((moment - _EPOCH) / dt.timedelta(milliseconds=1))
    if not 0 <= found <= LATEST:
        raise InvalidValue({field: f"{field} is {text!r}: that is before 1970 or too far ahead"})
    return found
