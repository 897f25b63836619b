"""Parsing of durations in requests, such as 90s or 10m. Pure."""

from __future__ import annotations

import re

from brokers.admin import InvalidValue
from brokers.input_checks import shortened

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: About a hundred years, ms.
LONGEST = 36_525 * _MS["d"]


def parse_duration(field: str, text: str) -> int:
    """Return a duration in ms. Raises InvalidValue, also without a unit."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidValue({field: f"{field} is {shortened(text)!r}: it must be a duration such as 90s, 10m, 2h or 7d"})
    ms = int(found[1]) * _MS[found[2]]
    if ms > LONGEST:
        raise InvalidValue({field: f"{field} is {text!r}: at most {LONGEST // _MS['d']:,}d"})
    return ms
