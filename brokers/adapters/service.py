"""The process that hosts the adapters: it polls each broker once, however many consoles look, and serves all of them.

The server is that of Headgate's own broker, without queues: one listener, on loopback unless configured otherwise, and
then with TLS and a certificate of its own, one user, `console`, with a generated secret, and three nodes for each
broker. Brokers come and go while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokers.adapters.adapted_broker import AdaptedBroker
from brokers.adapters.adapter import Adapter
from brokers.adapters.file_records import FileRecords
from brokers.adapters.nodes import AdaptedNodes
from brokers.adapters.observed import Observed
from brokers.adapters.poller import Poller
from brokers.adapters.records import Records
from brokers.amqp.container import Container
from brokers.amqp.node_links import Node
from brokers.engine.broker import Broker
from brokers.engine.flow.credit import IDLE_CREDIT_MS
from brokers.log_records import in_background
from brokers.loopback import is_loopback
from brokers.server.alarm import Alarm
from brokers.server.config_store import ConfigStore
from brokers.server.data_lock import WAIT_SECONDS, FolderInUse, claim
from brokers.server.listener import Listener
from brokers.server.listening import Listening, TlsAddress
from brokers.server.own_certificate import own_certificate
from brokers.server.sqlite_file import StoreError
from brokers.server.users import CONSOLE, Users
from brokers.steady_clock import SteadyClock

__all__ = ["SECRET", "AdaptersService", "FolderInUse", "StoreError"]

log = logging.getLogger("headgate.adapters")

#: The virtual host that clients open; it has no queues, and none can be created.
_VIRTUALHOST = "default"
SECRET = "console.secret"  # noqa: S105  (a file's name)


@dataclass(slots=True)
class _Hosted:
    """A broker that is polled and served."""

    adapter: Adapter
    observed: Observed
    records: Records
    nodes: AdaptedNodes
    polling: asyncio.Task[None]


class AdaptersService:
    """`data`: the folder of the service, for one process at a time. `port` 0: any that is free. `wait`: seconds for an
    earlier process that is just ending. Raises FolderInUse, StoreError."""

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: SteadyClock | None = None,
        wait: float = WAIT_SECONDS,
    ) -> None:
        self.data = data
        self.clock = clock or SteadyClock()
        self._lock = claim(data, wait)
        #: PEM text of the certificate of the listener; "": it has no TLS, and only this machine can reach it.
        self.certificate, tls = "", None
        try:
            if not is_loopback(host):
                files, self.certificate = own_certificate(data)
                tls = TlsAddress(files, host, port)
            self._config = ConfigStore(data / "config.sqlite3")
        except BaseException:
            self._lock.close()
            raise
        self.engine = Broker(self.clock.now())
        self._users = Users(self._config, self.engine.accounts)
        self._nodes: dict[str, Node] = {}
        self._hosted: dict[str, _Hosted] = {}
        self.container = Container(self.engine, self._users, self._nodes, self.clock.now)
        self.container.attempts.exempt.add(CONSOLE)
        self.container.again = self._again
        self.container.plan = self._plan
        self._alarm = Alarm(self._on_alarm)
        self._listeners: set[Listener] = set()
        hosts = [] if tls else [host]
        self.listening = Listening(self.container, self._listeners, lambda _: None, hosts=hosts, port=port, tls=tls)
        self._ticking: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port; with port 0, the assigned one after the start."""
        return self.listening.tls_port if self.certificate else self.listening.port

    @property
    def secret(self) -> Path:
        """The file with the password of the user `console`."""
        return self.data / SECRET

    @property
    def password(self) -> str:
        """The password of the user `console`, after the start."""
        return self.secret.read_text().strip()

    @property
    def names(self) -> list[str]:
        """The names of the brokers that are hosted."""
        return list(self._hosted)

    @property
    def failed(self) -> list[str]:
        """The names of brokers of which something could not be stored: they have to be removed and added again."""
        return [name for name, hosted in self._hosted.items() if hosted.records.failed or hosted.polling.done()]

    async def start(self) -> None:
        """Listen. Raises CannotListen, StoreError."""
        self.container.begin()
        self._users.ensure_console_user(self.secret)
        self.engine.create_virtualhost(_VIRTUALHOST).create_on_attach = False
        self._config.commit()
        await self.listening.start()
        self.container.finish()
        self._ticking = asyncio.create_task(self._tick())

    def add(self, name: str, adapter: Adapter, records: Records | None = None) -> None:
        """Poll and serve a broker. `name`: its slug, which is part of the addresses of its nodes. `records`: what is
        stored of it, closed by `remove`; None: files in the service's folder. Raises StoreError."""
        records = records or FileRecords(self.data / name)
        observed = Observed(adapter, records, self.time_of_day)
        broker = AdaptedBroker(observed, adapter)
        nodes = AdaptedNodes(name, broker, observed, self._in_turn, self.engine.accounts.rights)
        self._nodes.update(nodes.by_address)
        poller = Poller(adapter, observed, clock=time.monotonic)
        polling = asyncio.create_task(in_background(poller.run(), broker=name), name=f"poll {name}")
        self._hosted[name] = _Hosted(adapter, observed, records, nodes, polling)

    async def remove(self, name: str) -> None:
        """Stop polling and serving a broker; what is stored of it stays."""
        hosted = self._hosted.pop(name)
        hosted.polling.cancel()
        await asyncio.wait([hosted.polling])
        for address in hosted.nodes.by_address:
            del self._nodes[address]
        hosted.nodes.close()
        await hosted.adapter.close()
        hosted.records.close()

    async def stop(self) -> None:
        for name in self.names:
            await self.remove(name)
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
        self.container.plan = _nothing
        self._alarm.stop()
        self.listening.close()
        self.container.begin()
        for connection in list(self.container.connections):
            connection.end("amqp:connection:forced", "the process is shutting down", orderly=True)
        self.container.finish()
        await asyncio.gather(*(listener.shut() for listener in list(self._listeners)))
        self._config.close()
        self._lock.close()

    # -- turns and timers -----------------------------------------------------------------------------------------

    def _in_turn(self, call: Callable[[], None]) -> None:
        self.container.begin()
        call()
        self.container.finish()

    def _again(self) -> None:
        asyncio.get_running_loop().call_soon(self._in_turn, _nothing)

    def _plan(self) -> None:
        """Plan to continue with what waits: followers that catch up, and connections that are ticked often."""
        if self.container.ticked_often or any(hosted.nodes.is_behind for hosted in self._hosted.values()):
            now = self.engine.turn.now
            self._alarm.plan(now, now + IDLE_CREDIT_MS)

    def _on_alarm(self) -> None:
        self._in_turn(self._continue)

    def _continue(self) -> None:
        now = time.monotonic_ns() // 1_000_000
        for connection in list(self.container.ticked_often):
            connection.tick(now)
        for hosted in self._hosted.values():
            hosted.nodes.go_on()

    async def _tick(self) -> None:
        pruned = 0.0
        while True:
            await asyncio.sleep(1.0)
            self._look_at_clock()
            self._in_turn(self._tick_connections)
            now = time.monotonic()
            if now - pruned >= 60:
                pruned = now
                for hosted in self._hosted.values():
                    with contextlib.suppress(StoreError):  # then the broker is `failed`
                        hosted.records.prune(self.time_of_day())

    def _tick_connections(self) -> None:
        now = time.monotonic_ns() // 1_000_000
        for connection in list(self.container.connections):
            connection.tick(now)

    def _look_at_clock(self) -> None:
        if step := self.clock.look():
            way = "forward" if step > 0 else "back"
            log.warning(
                "the clock was set %s by %.1f s; what lasts goes on as if it had not been", way, abs(step) / 1000
            )
            for hosted in self._hosted.values():
                with contextlib.suppress(StoreError):  # then the broker is `failed`
                    hosted.observed.clock_set(step)

    def time_of_day(self) -> int:
        """ms since the epoch, for adapters: of the clock as it was last looked at. Its steps are passed on to them."""
        return self.clock.now() + self.clock.ahead


def _nothing() -> None:
    """Do nothing."""
