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
    return range_of(time_in(query, "from"), time_in(query, "until"), longest=longest, default=default)


def range_of(
    begin: int | None, until: int | None, *, longest: int = LONGEST, default: int = _DEFAULT
) -> tuple[int, int]:
    """The range, ms; None: until now, from `default` before its end. Raises InvalidValue."""
    now = now_ms()
    until = now if until is None else until
    begin = until - default if begin is None else begin
    if begin >= until:
        raise InvalidValue({"from": f"from is {begin}: it must be before until, {until}"})
    if begin > now + _AHEAD:
        raise InvalidValue({"from": f"from is {begin}: that is in the future"})
    if until - begin > longest:
        days, most = (until - begin) // DAY, longest // DAY
        raise InvalidValue({"from": f"from {begin} to until are {days:,} days: at most {most:,} are answered"})
    return begin, until


def broker_in(query: Mapping[str, str]) -> str:
    """The broker's name in the history; imported logs have names that are not configured. Empty: all."""
    return query.get("broker", "").strip()


def queue_in(query: Mapping[str, str]) -> QueueKey:
    """`broker`, `virtualhost` and `queue`; without a broker the first configured one. Raises InvalidValue."""
    if not query.get("queue"):
        raise InvalidValue({"queue": "queue is missing: it is the queue's name"})
    return queue_of(broker_in(query), query.get("virtualhost", ""), query["queue"])


def queue_of(broker: str, virtualhost: str, queue: str) -> QueueKey:
    return QueueKey(broker.strip() or settings.HEADGATE_BROKERS[0]["slug"], virtualhost or "default", queue)


def maybe_queue_in(query: Mapping[str, str]) -> QueueKey | None:
    """As `queue_in`; None if no queue is named."""
    return queue_in(query) if query.get("queue") else None
