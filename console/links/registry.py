"""The links of this process to the configured brokers, in one background thread with its own event loop.

Synchronous views, coroutines of any loop and workers share the links: `link().call(lambda admin: ...)` or
`await link().acall(...)`. The links start on first use in a process (a worker forks before that).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from brokers.admin import BrokerAdmin, BrokerUnreachable
from console.links.link import BrokerLink
from console.links.state import Status
from console.links.synchronization import Pace

__all__ = [
    "BrokerLink",
    "Pace",
    "Status",
    "UnknownBroker",
    "close_links",
    "connect_bundled",
    "connector",
    "link",
    "links",
]


class UnknownBroker(LookupError):
    """No broker with this slug is configured, or visible to the user. The message is for people."""


async def connect_bundled(*, host: str, port: int, user: str, secret: str, ca: str = "") -> BrokerAdmin:
    """Connect to Headgate's own broker. `secret`: path of the file with the user's password. `ca`: path of the
    certificate authority; if set, use TLS. Raises BrokerUnreachable."""
    from brokers.drivers.bundled import BundledBroker

    try:
        password = Path(secret).read_text().strip()  # noqa: ASYNC240 - a few bytes; not cached, since the broker may write it
    except OSError as error:
        raise BrokerUnreachable(f"cannot read password file {secret}: {error.strerror}") from error
    try:
        tls = ssl.create_default_context(cafile=ca) if ca else None
    except (OSError, ssl.SSLError) as error:
        raise BrokerUnreachable(f"cannot use certificate authority file {ca}: {error.strerror or error}") from error
    return await BundledBroker.connect(host, port, user, password, tls=tls)


def connector(entry: Mapping[str, Any]) -> Callable[[], Awaitable[BrokerAdmin]]:
    """Return the function that opens a connection to a broker; `entry`: from the settings."""
    connect: Callable[..., Awaitable[BrokerAdmin]] = entry["connect"]
    if isinstance(connect, str):
        connect = import_string(connect)
    return partial(connect, **entry.get("options", {}))


class _Links:
    """All links of this process, and their thread."""

    def __init__(self, configured: list[dict[str, Any]]) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self.by_slug = {entry["slug"]: self._link(entry) for entry in configured}
        self._thread = threading.Thread(target=self._run, name="broker-links", daemon=True)
        self._thread.start()

    def _link(self, entry: Mapping[str, Any]) -> BrokerLink:
        title = entry.get("title", entry["slug"])
        return BrokerLink(entry["slug"], title, connector(entry), self._loop, pace=entry.get("pace"))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._tasks = [self._loop.create_task(link.run()) for link in self.by_slug.values()]
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(_all_ended(self._loop))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)


async def _all_ended(loop: asyncio.AbstractEventLoop) -> None:
    others = asyncio.all_tasks(loop) - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


_links: _Links | None = None
_starting = threading.Lock()


def _started() -> _Links:
    global _links  # noqa: PLW0603 - the one place for the links of the process
    with _starting:
        if _links is None or _links.pid != os.getpid():
            _links = _Links(settings.HEADGATE_BROKERS)
        return _links


def links() -> list[BrokerLink]:
    """Return the links of all configured brokers, the default one first."""
    return list(_started().by_slug.values())


def link(slug: str = "") -> BrokerLink:
    """Return the link of one broker; no slug: the default one. Raises UnknownBroker."""
    by_slug = _started().by_slug
    if not slug:
        return next(iter(by_slug.values()))
    if slug not in by_slug:
        raise UnknownBroker(f"unknown broker {slug!r}: configured are {', '.join(by_slug)}")
    return by_slug[slug]


def close_links() -> None:
    """Close the links of this process; the next use opens new ones."""
    global _links  # noqa: PLW0603
    with _starting:
        if _links is not None and _links.pid == os.getpid():
            _links.close()
        _links = None
