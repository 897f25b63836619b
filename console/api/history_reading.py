"""What is common to requests about the history: the tables, time ranges, and which queue of which broker."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.conf import settings
from rest_framework.request import Request

from brokers.admin import InvalidValue
from console.access.people import rights_in
from console.api.reading import time_in
from console.history.query.visibility import as_visible
from console.history.storage.durations import DAY
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader, reader_of

#: Days and hours are kept for about three years; what is older is not asked for by mistake only.
LONGEST = 1200 * DAY
_DEFAULT = DAY
#: A clock that is a little ahead is no mistake.
_AHEAD = 2 * DAY


def history(request: Request) -> Reader:
    """The history of this console, as far as who asks may see it."""
    return as_visible(whole_history(), rights_in(request._request))


def whole_history() -> Reader:
    """All of it; its tables are opened once in a process."""
    return reader_of(settings.HEADGATE_HISTORY_URL)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def range_in(query: Mapping[str, str], *, longest: int = LONGEST, default: int = _DEFAULT) -> tuple[int, int]:
    """`from` and `until`, ms; left out: the last day. Raises InvalidValue."""
    now = now_ms()
    until = time_in(query, "until", now)
    begin = time_in(query, "from", until - default)
    if begin >= until:
        raise InvalidValue({"from": f"from is {query.get('from', '')!r}: it must be before until"})
    if begin > now + _AHEAD:
        raise InvalidValue({"from": f"from is {query.get('from', '')!r}: that has not happened yet"})
    if until - begin > longest:
        raise InvalidValue(
            {
                "from": f"from {query.get('from', '')!r} to until are {(until - begin) // DAY:,} days:"
                f" at most {longest // DAY:,} are answered"
            }
        )
    return begin, until


def broker_in(query: Mapping[str, str]) -> str:
    """The broker's name in the history; imported logs have names that are not configured. Empty: all."""
    return query.get("broker", "").strip()


def queue_in(query: Mapping[str, str]) -> QueueKey:
    """`broker`, `virtualhost` and `queue`; without a broker the first configured one. Raises InvalidValue."""
    if not query.get("queue"):
        raise InvalidValue({"queue": "queue is missing: it is the queue's name"})
    broker = broker_in(query) or settings.HEADGATE_BROKERS[0]["slug"]
    return QueueKey(broker, query.get("virtualhost") or "default", query["queue"])


def maybe_queue_in(query: Mapping[str, str]) -> QueueKey | None:
    """As `queue_in`; None if no queue is named."""
    return queue_in(query) if query.get("queue") else None
