"""The lists of RabbitMQ that grow without bound, in pages: of queues, and of connections and channels.

In a storm of reconnections the clients are listed slowly, or not at all, and that is when producers must be stopped. So
their list may fail: then the clients are not known in this round, and nothing else is affected. It is tried again after
a while, since each attempt delays what is read quickly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.http import HttpError, JsonHttp
from brokers.adapters.observation import Observation
from brokers.admin import AdminError

log = logging.getLogger("headgate.adapters")

#: Items on one page; 500 is RabbitMQ's maximum.
PAGE = 500

#: Seconds for all pages of clients, and milliseconds until the next attempt after one that failed.
CLIENTS_SECONDS, CLIENTS_RETRY_MS = 20.0, 60_000

#: What of it is used: a connection has 2 to 3 KB in all.
_CONNECTION = ",".join(
    ["name", "vhost", "user", "user_provided_name", "client_properties.connection_name",
     "client_properties.product", "client_properties.product_version", "client_properties.version", "peer_host",
     "peer_port", "connected_at", "protocol", "state"]
)  # fmt: skip
_CHANNEL = "connection_details.name,message_stats.publish"

_TYPES = frozenset({"Connection", "Producer"})


async def pages(http: JsonHttp, path: str, columns: str = "") -> AsyncIterator[list[Mapping[str, Any]]]:
    """Yield the pages of a list."""
    number = 1
    while True:
        query = {"page": str(number), "page_size": str(PAGE), **({"columns": columns} if columns else {})}
        try:
            answer = await http.request("GET", path, query=query, seconds=30)
        except HttpError as error:
            if number > 1 and error.status == 400:
                return  # items were deleted meanwhile: there is no such page any more
            raise
        yield answer["items"]
        if number >= answer["page_count"]:
            return
        number += 1


class ClientLists:
    """See the module. `now`: ms since the epoch."""

    def __init__(self, http: JsonHttp, now: Callable[[], int]) -> None:
        self._http = http
        self._now = now
        self._tried_at: int | None = None  # when the list failed
        self._why = ""

    def clock_set(self, step: int) -> None:
        """The clock was set by `step` ms."""
        self._tried_at = None if self._tried_at is None else self._tried_at + step

    async def read(self, alarms: Sequence[str]) -> AsyncIterator[Observation]:
        """Yield the connections and producers."""
        unknown = Observation(self._now(), {}, unlisted=_TYPES)
        if self._tried_at is not None and 0 <= self._now() - self._tried_at < CLIENTS_RETRY_MS:
            yield unknown
            return
        try:
            async with asyncio.timeout(CLIENTS_SECONDS):
                found = await self._listed()
        except (AdminError, TimeoutError) as error:
            self._tried_at = self._now()
            self._log(str(error) or f"they are not listed within {CLIENTS_SECONDS:g} s")
            yield unknown
            return
        self._tried_at = None
        self._log("")
        connections, publishing = found
        for page in connections:
            yield Observation(self._now(), reading.connections_of(page, publishing, alarms))
            await asyncio.sleep(0)  # others are served between two pages

    async def _listed(self) -> tuple[list[list[Mapping[str, Any]]], set[str]]:
        """Return the pages of connections, and the names of those that have published."""
        publishing: set[str] = set()
        async for page in pages(self._http, "/channels", _CHANNEL):
            publishing |= reading.publishing(page)
        return [page async for page in pages(self._http, "/connections", _CONNECTION)], publishing

    def _log(self, why: str) -> None:
        if why and why != self._why:
            log.warning("the clients of RabbitMQ are not known: %s", why)
        self._why = why
