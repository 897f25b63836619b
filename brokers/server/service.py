"""The running broker: engine, container, nodes, stores and journal put together, and its timers.

`start` recovers the stored state and listens; `stop` ends it. Tests run one inside their own loop.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from brokers.admin import AdminError
from brokers.amqp.container import MOST_UNOPENED, Container
from brokers.engine.broker import Broker
from brokers.engine.flow.credit import IDLE_CREDIT_MS
from brokers.engine.flow.usage import Resource
from brokers.engine.management.requests import Management
from brokers.engine.values.message import NEVER
from brokers.model import object_name
from brokers.server.alarm import Alarm
from brokers.server.change_log import ChangeLog
from brokers.server.config_store import ConfigStore, StoreError
from brokers.server.data_lock import claim
from brokers.server.event_journal import EventJournal
from brokers.server.event_node import EventNode
from brokers.server.first_start import first_start
from brokers.server.journal.journal_store import SEGMENT_BYTES
from brokers.server.later_turn import LaterTurn
from brokers.server.lineage import Lineage
from brokers.server.listener import Listener
from brokers.server.listening import CannotListen, Listening, TlsAddress
from brokers.server.machine import memory
from brokers.server.management_node import EngineAnswers, ManagementNode
from brokers.server.message_groups import Written
from brokers.server.opening import open_folder
from brokers.server.operators_first import OperatorsFirst
from brokers.server.sample_node import SampleNode
from brokers.server.store_folder import remove_converted, remove_unfinished
from brokers.server.store_survey import FOLDER
from brokers.server.tls import TlsError
from brokers.server.users import CONSOLE, Users
from brokers.server.virtualhost_stores import TEMP, VirtualHostStores
from brokers.steady_clock import SteadyClock

VERSION = "0.1.0"
#: Interval of the checks for changed TLS files, s.
TLS_LOOK_SECONDS = 60.0
SECRET = "console.secret"  # noqa: S105  (a file's name)

#: Default limits as parts of each resource; a configured limit, including 0 for none, takes precedence. The stores
#: leave part of the disk to the journal and to other programs.
DEFAULT_LIMITS = {Resource.MEMORY: "40%", Resource.STORE: "80%", Resource.TEMP: "15%"}

log = logging.getLogger("headgate.broker")


class Service:
    """`data`: folder of the stores, the journal and the console's secret. `clock`: the engine's time.
    `segment_bytes`: size of the files of each virtual host's store, see `journal_store.py`."""

    def __init__(
        self,
        data: Path,
        *,
        host: str | Sequence[str] = "127.0.0.1",
        port: int = 5672,
        tls: TlsAddress | None = None,
        demo: bool = False,
        clock: SteadyClock | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.data = data
        self.demo = demo
        self.clock = clock or SteadyClock()
        self._lock = claim(data)
        try:
            self.store, self.lineage, self.journal = _open(data)
        except BaseException:
            self._lock.close()
            raise
        self.messages = VirtualHostStores(data / FOLDER, self._written, self.lineage, segment_bytes=segment_bytes)
        self.broker = Broker(self.clock.now(), version=VERSION, stores=self.messages)
        self.broker.last_event, self.broker.journal = self.journal.last, self.journal.identity
        self.users = Users(self.store, self.broker.accounts)
        self.events = EventNode(self.journal, self.broker.accounts.rights)
        self.changes = ChangeLog(
            self.broker, store=self.store, journal=self.journal, messages=self.messages, followers=self.events
        )
        management = Management(self.broker)
        self._publish_more = LaterTurn(partial(self._timed_turn, self._publish))
        self.samples = SampleNode(self.broker, management, self._publish_more.plan)
        self.management = ManagementNode(
            EngineAnswers(management, self.broker.accounts.rights, self.broker.turn), self._in_turn
        )
        self.container = Container(
            self.broker,
            self.users,
            {"$management": self.management, "$events": self.events, "$samples": self.samples},
            self.clock.now,
        )
        self.container.attempts.exempt.add(CONSOLE)
        self.container.most_unopened = most_unopened()
        self.container.settle = self.changes.settle
        self.container.commit = self.messages.commit
        self.container.again = self._again
        self.container.plan = self._plan
        self._alarm = Alarm(self._on_alarm)
        self.selector: OperatorsFirst | None = None  # of the loop, if it has one of this kind
        self._swept = 0
        self._release_more = LaterTurn(partial(self._timed_turn, self._release))
        self._free_more = LaterTurn(partial(self._timed_turn, self._free))
        self._memory = memory()
        self.broker.shortages.defaults.update(DEFAULT_LIMITS)
        self.broker.shortages.wholes = {
            Resource.MEMORY: self._memory.what,
            Resource.STORE: "the disk's size",
            Resource.TEMP: "the disk's size",
        }
        self._timers: list[asyncio.Task[None]] = []
        self._listeners: set[Listener] = set()
        hosts = [host] if isinstance(host, str) else list(host)
        self.listening = Listening(self.container, self._listeners, self._prefer, hosts=hosts, port=port, tls=tls)

    @property
    def port(self) -> int:
        """The port without TLS; with port 0, the assigned one after the start."""
        return self.listening.port

    @property
    def tls_port(self) -> int:
        return self.listening.tls_port

    async def start(self) -> None:
        """Recover and listen. Raises CannotListen and TlsError, which name the address and the file; StoreError if the
        store cannot be read or written."""
        self.container.begin()
        try:
            self.broker.restore(self.store.load())
        except AdminError as error:
            raise StoreError(str(error)) from error
        registry = self.broker.registry
        registry.last_store_id = max(registry.last_store_id, self.lineage.last_queue)
        self.users.ensure_console_user(self.data / SECRET)
        self._recover()
        self.broker.shortages.measure(self._available())
        if not self.broker.virtualhosts:
            first_start(self.broker, demo=self.demo)
        self.changes.put(self.broker.turn.take_records())
        self.store.commit()
        try:
            await self.listening.start()
        except (CannotListen, TlsError):
            self.journal.close()
            self.store.close()
            self._lock.close()
            raise
        # Their journals have been opened. It may take some time.
        await asyncio.get_running_loop().run_in_executor(None, remove_converted, self.data / FOLDER)
        words = f"Ready : {', '.join(self.addresses())}"
        self.broker.turn.add_fact("broker-ready", object_name("Broker"), "broker", words, {})
        self.container.finish()
        self._timers = [
            asyncio.create_task(self._every(1.0, self._second)),
            asyncio.create_task(self._every(60.0, self._minute)),
            asyncio.create_task(self._renew_tls()),
        ]

    def addresses(self) -> list[str]:
        """Return the addresses of all listeners, as text."""
        tls = self.listening.tls
        clear = [f"{host}:{self.port}" for host in self.listening.hosts]
        return [*clear, *([f"{tls.host}:{self.tls_port} (TLS)"] if tls else [])]

    def _recover(self) -> None:
        """Recover the stored messages, with the log lines of Qpid's Java broker."""
        for host in self.broker.virtualhosts.values():
            if host.store is None:
                continue
            add_fact = partial(
                self.broker.turn.add_fact, name=host.object_name, subject=f"vh(/{host.name})/ms(Journal)"
            )
            add_fact("store-recovery-start", words="Recovery Start", attributes={})
            count = self.broker.recover(
                host, self.messages.recover(host.name), incomplete=self.messages.is_incomplete(host.name)
            )
            add_fact("store-recovered", words=f"Recovered {count:,} messages", attributes={"messages": count})
            add_fact("store-recovery-complete", words="Recovery Complete", attributes={})

    async def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)
        self.container.plan = lambda: None
        self._alarm.stop()
        self.listening.close()
        self.container.begin()
        for connection in list(self.container.connections):
            connection.end("amqp:connection:forced", "the broker is shutting down", orderly=True)
        self.container.finish()
        await asyncio.gather(*(listener.shut() for listener in list(self._listeners)))
        await self.messages.close()
        self.journal.close()
        self.store.close()
        self._lock.close()

    # -- after a turn -------------------------------------------------------------------------------------------

    def _written(self, virtualhost: str, written: Written) -> None:
        """Continue after a group of messages was written or refused."""
        self.container.begin()
        if virtualhost == TEMP:
            self.broker.spooled(written.ticket, stored=written.fault is None)
        else:
            self.broker.committed(
                virtualhost,
                written.ticket,
                stored=written.fault is None,
                removed=written.removed,
                refused=written.refused,
            )
        if written.fault is not None or written.refused:
            self.broker.shortages.measure()
        self.container.finish()

    def _again(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._in_turn(lambda: None)

    def _in_turn(self, call: Callable[[], None]) -> None:
        self.container.begin()
        call()
        self.container.finish()

    # -- timers -----------------------------------------------------------------------------------------------

    async def _every(self, seconds: float, call: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._timed_turn(call)

    def _timed_turn(self, call: Callable[[], None]) -> None:
        try:
            self.container.begin()
            call()
            self.container.finish()
        except Exception:
            log.exception("a timer failed; the broker goes on")
            self._plan()  # the turn has not come to it

    def _plan(self) -> None:
        """Plan the next sweep, after each turn. At most one each `IDLE_CREDIT_MS`, whatever is due."""
        broker = self.broker
        now, agenda = broker.turn.now, broker.agenda
        if agenda.freeing:
            self._free_more.plan()
        if agenda.watched or self.events.is_behind or self.container.ticked_often:
            self._alarm.plan(now, now + IDLE_CREDIT_MS)
        elif agenda.release_at != NEVER:
            self._alarm.plan(now, max(agenda.release_at, now + IDLE_CREDIT_MS))

    def _free(self) -> None:
        self.broker.agenda.free_some()  # the turn plans the next one if there is more

    def _publish(self) -> None:
        self.samples.publish_some()

    def _on_alarm(self) -> None:
        self._timed_turn(self._sweep)

    async def _renew_tls(self) -> None:
        while True:
            await asyncio.sleep(TLS_LOOK_SECONDS)
            await self.listening.renew_tls(only_if_changed=True)

    def _prefer(self, fileobj: object) -> None:
        if self.selector is not None:
            self.selector.prefer(fileobj)

    def _sweep(self) -> None:
        # Under load an answer may be unread in its socket: deadlines of clients apply only after all input was read.
        if self.broker.agenda.watched and (self.selector is None or self.selector.all_read_since(self._swept)):
            self._swept = self.selector.polls if self.selector is not None else 0
            self.broker.sweep()
        self._release()
        self.events.go_on()
        if self.container.ticked_often:
            now = time.monotonic_ns() // 1_000_000
            for connection in list(self.container.ticked_often):
                connection.tick(now)

    def _release(self) -> None:
        if self.broker.release():
            self._release_more.plan()

    def _second(self) -> None:
        now = time.monotonic_ns() // 1_000_000
        self._look_at_clock()
        self._alarm.look(self.broker.turn.now)
        for connection in list(self.container.connections):
            connection.tick(now)
        if self.changes.failed:
            self.changes.save()
        self.broker.expire()
        # Each turn measures the queues that it touches. Of ten thousand queues all would take tens of ms.
        self.broker.shortages.measure(self._available(), self.broker.agenda.changed)
        self.broker.transactions.sweep()
        self.samples.publish(self.broker.sample())

    def _look_at_clock(self) -> None:
        if step := self.clock.look():
            self.broker.clock_set(self.clock.ahead)
            way = "forward" if step > 0 else "back"
            log.warning(
                "the clock was set %s by %.1f s; what lasts goes on as if it had not been", way, abs(step) / 1000
            )

    def _available(self) -> dict[Resource, int]:
        """Return the total bytes of each resource that the broker's limits refer to."""
        try:
            free = shutil.disk_usage(self.data).free
        except OSError:
            return {Resource.MEMORY: self._memory.size}  # for the disk, the earlier measurement remains
        used = self.broker.shortages.used
        return {
            Resource.MEMORY: self._memory.size,
            Resource.STORE: free + used(Resource.STORE),
            Resource.TEMP: free + used(Resource.TEMP),
        }

    def _minute(self) -> None:
        self.broker.sweep()
        self.broker.shortages.measure()
        self.journal.prune(self.broker.turn.time_of_day)


def _open(data: Path) -> tuple[ConfigStore, Lineage, EventJournal]:
    """Open the files of the broker, repair damaged ones, and convert those of an earlier release. Raises StoreError."""
    events = data / "events.sqlite3"
    with open_folder(data, (events,)) as (config, stores, found):
        for text in found:
            log.error("%s", text)
        remove_unfinished(data / FOLDER)
        return config, Lineage(config, stores), EventJournal(events)


def most_unopened() -> int:
    """Return the maximum number of connections before their open: the others have half of the descriptors."""
    return max(16, min(MOST_UNOPENED, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
