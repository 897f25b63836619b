"""The links of this process to the configured brokers, in one background thread with its own event loop.

Synchronous views, coroutines of any loop and workers share the links: `link().call(lambda admin: ...)` or
`await link().acall(...)`. When brokers are added or removed (`console/brokers/configured.py`), their links begin and
end. The links start on first use in a process (a worker forks before that).
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

from django.utils.module_loading import import_string

from brokers.admin import BrokerAdmin, BrokerUnreachable
from brokers.log_records import in_background
from brokers.loopback import is_loopback
from console.brokers.configured import configured, on_change
from console.brokers.keys import KeyMissing, decrypt
from console.leases.process import host_of, this_process
from console.links.link import BrokerLink
from console.links.state import Status
from console.links.synchronization import Pace

__all__ = [
    "BrokerLink",
    "Pace",
    "Status",
    "UnknownBroker",
    "close_links",
    "connect_adapted",
    "connect_bundled",
    "connect_to",
    "connector",
    "link",
    "links",
]


#: Longest time for an answer of a broker behind an adapter, s; most requests have shorter limits of their own. Such a
#: broker may need half a minute for a stop.
ADAPTED_SECONDS = 45.0


class UnknownBroker(LookupError):
    """No broker with this slug is configured, or visible to the user. The message is for people."""


async def connect_bundled(*, host: str, port: int, user: str, secret: str, ca: str = "") -> BrokerAdmin:
    """Connect to Headgate's own broker. `secret`: path of the file with the user's password. `ca`: path of the
    certificate authority; if set, use TLS. Raises BrokerUnreachable."""
    from brokers.drivers.bundled import BundledBroker

    password = _password(secret)
    try:
        tls = ssl.create_default_context(cafile=ca) if ca else None
    except (OSError, ssl.SSLError) as error:
        raise BrokerUnreachable(f"cannot use certificate authority file {ca}: {error.strerror or error}") from error
    return await BundledBroker.connect(host, port, user, password, tls=tls)


async def connect_adapted(*, name: str, paused: bool, served: tuple[str, str, int, str, str] | None) -> BrokerAdmin:
    """Connect to the process that hosts the broker `name`. `served`: where, see `configured.py`; None: no process does.
    Raises BrokerUnreachable."""
    from brokers.drivers.bundled import BundledBroker
    from brokers.drivers.single_certificate import trusting

    if paused:
        raise BrokerUnreachable("the broker is paused: it is not polled until an administrator resumes it")
    if served is None:
        raise BrokerUnreachable("no process polls the broker yet: is `headgate adapters` running?")
    process, host, port, encrypted, certificate = served
    if is_loopback(host) and host_of(process) != host_of(this_process()):
        why = "there it must be started with --host, so that other hosts can reach it"
        raise BrokerUnreachable(f"the broker is polled by {process.split(':')[0]}, on loopback only: {why}")
    try:
        password = decrypt(encrypted)
    except KeyMissing as error:
        raise BrokerUnreachable(f"cannot sign in to the process that polls the broker: {error}") from None
    tls = trusting(certificate) if certificate else None
    seconds = ADAPTED_SECONDS
    return await BundledBroker.connect(host, port, "console", password, tls=tls, timeout=seconds, name=name)


def _password(secret: str) -> str:
    """Read a file of a few bytes; it is not cached, since the broker may write it."""
    try:
        return Path(secret).read_text().strip()
    except OSError as error:
        raise BrokerUnreachable(f"cannot read password file {secret}: {error.strerror}") from error


def connector(entry: Mapping[str, Any]) -> Callable[[], Awaitable[BrokerAdmin]]:
    """Return the function that opens a connection to a broker; `entry`: from the settings."""
    connect: Callable[..., Awaitable[BrokerAdmin]] = entry["connect"]
    if isinstance(connect, str):
        connect = import_string(connect)
    return partial(connect, **entry.get("options", {}))


async def connect_to(slug: str) -> BrokerAdmin:
    """Connect to a broker as it is configured now. Raises BrokerUnreachable, also if it was removed."""
    for entry in configured():
        if entry["slug"] == slug:
            return await connector(entry)()
    raise BrokerUnreachable(f"the broker {slug} was removed from the console")


class _Links:
    """All links of this process, and their thread."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        #: Replaced as a whole, so that every thread can read it.
        self.by_slug = {entry["slug"]: self._link(entry) for entry in entries}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._run, name="broker-links", daemon=True)
        self._thread.start()

    def _link(self, entry: Mapping[str, Any]) -> BrokerLink:
        title = entry.get("title", entry["slug"])
        return BrokerLink(
            entry["slug"],
            title,
            connector(entry),
            self._loop,
            pace=entry.get("pace"),
            types_known=entry.get("types_known", True),
        )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for slug, link in self.by_slug.items():
            self._tasks[slug] = self._loop.create_task(in_background(link.run(), broker=link.slug))
        try:
            self._loop.run_forever()
        finally:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(_all_ended(self._loop))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def update(self, entries: list[dict[str, Any]]) -> None:
        """Begin and end links, so that they are those of the entries. A link of a broker that stays is the same
        object, with the entry's title and way to connect."""
        before, after = self.by_slug, {}
        for entry in entries:
            link = before.get(entry["slug"])
            if link is None:
                link = self._link(entry)
                self._loop.call_soon_threadsafe(self._begin, link)
            else:
                link.reconfigure(entry.get("title", entry["slug"]), connector(entry))
            after[link.slug] = link
        self.by_slug = after
        for slug in before.keys() - after.keys():
            self._loop.call_soon_threadsafe(self._end, before[slug])

    def _begin(self, link: BrokerLink) -> None:
        self._tasks[link.slug] = self._loop.create_task(in_background(link.run(), broker=link.slug))

    def _end(self, link: BrokerLink) -> None:
        self._tasks.pop(link.slug).cancel()
        link.removed()

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
            _links = _Links(configured())
            on_change(_update)
        return _links


def _update() -> None:
    with _starting:
        if _links is not None and _links.pid == os.getpid():
            _links.update(configured())


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
