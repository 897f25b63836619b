"""Common parts of the history's API calls: access to the tables, and parameters for time range, broker and queue."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.conf import settings
from rest_framework.request import Request

from brokers.admin import InvalidValue
from console.access.user_rights import request_rights
from console.api.base_views import time_in
from console.brokers.configured import slugs
from console.history.query.visibility import as_visible
from console.history.storage.durations import DAY
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader, reader_of

#: Hours and days are retained for about three years; a longer range, in ms, is a mistake.
LONGEST = 1200 * DAY
_DEFAULT = DAY
#: Tolerance for clocks that are ahead, in ms.
_AHEAD = 2 * DAY


def history(request: Request) -> Reader:
    """Return a reader of the rows that the user has permission to view."""
    return as_visible(whole_history(), request_rights(request._request))


def whole_history() -> Reader:
    """Return the process's shared reader of all rows."""
    return reader_of(settings.HEADGATE_HISTORY_URL)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def range_in(query: Mapping[str, str], *, longest: int = LONGEST, default: int = _DEFAULT) -> tuple[int, int]:
    """Return `from` and `until`, ms; by default the last day. Raises InvalidValue."""
    return range_of(time_in(query, "from"), time_in(query, "until"), longest=longest, default=default)


def range_of(
    begin: int | None, until: int | None, *, longest: int = LONGEST, default: int = _DEFAULT
) -> tuple[int, int]:
    """Return the range, ms. `until` defaults to now, `begin` to `default` ms before `until`. Raises InvalidValue."""
    now = now_ms()
    until = now if until is None else until
    begin = until - default if begin is None else begin
    if begin >= until:
        raise InvalidValue({"from": f"from is {begin}: it must be before until, {until}"})
    if begin > now + _AHEAD:
        raise InvalidValue({"from": f"from is {begin}: it is in the future"})
    if until - begin > longest:
        days, most = (until - begin) // DAY, longest // DAY
        raise InvalidValue({"from": f"the range from {begin} has {days:,} days: the maximum is {most:,}"})
    return begin, until


def broker_in(query: Mapping[str, str]) -> str:
    """Return the broker's name in the history, which may be an imported log's; empty: all brokers."""
    return query.get("broker", "").strip()


def queue_in(query: Mapping[str, str]) -> QueueKey:
    """Return the queue's key; without `broker` that of the first configured broker. Raises InvalidValue."""
    if not query.get("queue"):
        raise InvalidValue({"queue": "queue is required: the queue's name"})
    return queue_of(broker_in(query), query.get("virtualhost", ""), query["queue"])


def queue_of(broker: str, virtualhost: str, queue: str) -> QueueKey:
    return QueueKey(broker.strip() or slugs()[0], virtualhost or "default", queue)


def maybe_queue_in(query: Mapping[str, str]) -> QueueKey | None:
    """As `queue_in`, but None if the request names no queue."""
    return queue_in(query) if query.get("queue") else None
