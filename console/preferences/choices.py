"""What a user can prefer, the defaults, and the check of what is stored. Pure."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

CLOCKS = ("24", "12")
DENSITIES = ("comfortable", "compact")
PAGE_SIZES = (25, 50, 100, 250)
#: Width of the column of names, px; "auto": what the others leave, names wrap.
NAME_WIDTHS = ("auto", "300", "450", "600")
#: What groups the table of queues of a broker.
GROUPINGS = ("none", "virtualhost", "prefix")
#: How groups are shown at first.
GROUP_STATES = ("collapsed", "expanded")
#: Columns of a table of queues that can be hidden.
COLUMNS = ("depth", "blocked", "consumers", "rate_in", "rate_out", "unacknowledged", "duration")

#: `time_zone`: IANA name, empty: that of the browser. `clock`: of 24 or 12 hours. The others: of tables of queues.
DEFAULTS: Mapping[str, Any] = {
    "time_zone": "",
    "clock": "24",
    "density": "comfortable",
    "page_size": 50,
    "name_width": "auto",
    "hidden_columns": ["unacknowledged"],
    "group_by": "none",
    "groups": "collapsed",
}
_ONE_OF: Mapping[str, tuple[Any, ...]] = {
    "clock": CLOCKS,
    "density": DENSITIES,
    "page_size": PAGE_SIZES,
    "name_width": NAME_WIDTHS,
    "group_by": GROUPINGS,
    "groups": GROUP_STATES,
}


@lru_cache(maxsize=1)
def time_zones() -> tuple[str, ...]:
    """Return the names of the time zones that can be chosen, sorted."""
    aliases = ("posix/", "right/", "localtime", "Factory")
    return tuple(sorted(name for name in zoneinfo.available_timezones() if not name.startswith(aliases)))


def fault_of(name: str, value: Any) -> str:
    """Return what is wrong with a value, a sentence; empty: it is valid."""
    if name not in DEFAULTS:
        return f"{name} is not a preference: these are {', '.join(DEFAULTS)}"
    if name == "time_zone":
        known = value == "" or value in time_zones()
        return "" if known else f"time_zone is {value!r}: it must be the IANA name of a time zone, or empty"
    if name == "hidden_columns":
        known = isinstance(value, list) and all(column in COLUMNS for column in value)
        return "" if known else f"hidden_columns is {value!r}: it must be a list of {', '.join(COLUMNS)}"
    choices = _ONE_OF[name]
    known = not isinstance(value, bool) and value in choices
    return "" if known else f"{name} is {value!r}: it must be one of {', '.join(map(str, choices))}"


def complete(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return all preferences: the stored values that are still valid, and the defaults of the others."""
    return {
        name: stored[name] if name in stored and not fault_of(name, stored[name]) else DEFAULTS[name]
        for name in DEFAULTS
    }
