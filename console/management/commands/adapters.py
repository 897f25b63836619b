"""`headgate adapters`: poll the brokers of other kinds, and serve them to the console's other processes.

With SQLite, what is stored of brokers is in files of the data folder, and a second process of the folder stands by
until the first has ended. With another database it is there: any number of processes on several hosts divide the
brokers among them, by leases, and take over those of one that ends or hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from console.management.ready import require_database

if TYPE_CHECKING:
    from brokers.adapters.records import Records
    from brokers.adapters.service import AdaptersService
    from console.brokers.database_thread import DatabaseThread
    from console.brokers.models import ForeignBroker

#: Seconds between two attempts to take over the data folder; and until the next one when its owner was killed.
RETRY, RETRY_KILLED = 1.0, 0.1
#: Processes of one data folder at most, with a database of several hosts.
MOST_PROCESSES = 100


class Command(BaseCommand):
    help = "Poll the added brokers (RabbitMQ and others), and serve them to the console."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        configured = settings.HEADGATE_ADAPTERS
        parser.add_argument(
            "--host",
            default=configured["host"],
            help="address to listen on, with TLS unless it is on loopback (default: %(default)s)",
        )
        parser.add_argument(
            "--port", type=int, default=configured["port"], help="port to listen on (default: %(default)s; 0: any)"
        )
        parser.add_argument(
            "--address",
            default=configured["address"],
            help="address or name by which other hosts reach it (default: that of --host, or the host's name)",
        )

    def handle(self, *args: Any, host: str, port: int, address: str, **options: Any) -> None:
        if not 0 <= port < 1 << 16:
            self.stderr.write(f"--port is {port}: it must be from 0 to 65535")
            sys.exit(1)
        require_database()
        self._in_files = connection.vendor == "sqlite"
        connection.close()
        sys.exit(asyncio.run(self._run(host, port, address or _published(host))))

    async def _run(self, host: str, port: int, address: str) -> int:
        from brokers.adapters.service import FolderInUse, StoreError

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        waiting = False
        while not ended.is_set():
            try:
                await self._serve(host, port, address, ended)
            except FolderInUse:
                if not waiting:
                    self._say("another process serves these brokers: standing by")
                waiting = True
                killed = await self._end_hung()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), RETRY_KILLED if killed else RETRY)
            except (StoreError, OSError) as error:
                self.stderr.write(str(error))
                return 1
        return 0

    async def _serve(self, host: str, port: int, address: str, ended: asyncio.Event) -> None:
        """Serve until `ended`. Raises FolderInUse, StoreError, OSError."""
        from console.brokers.database_thread import DatabaseThread
        from console.brokers.hosting import Address, Hosting

        service, thread = self._service(host, port), DatabaseThread("records")
        try:
            await service.start()
            published = Address(address, service.port, service.password, service.certificate)
            hosting = Hosting(service, service.time_of_day, self._hosts, self._opener(thread), published)
            running, stopping = asyncio.ensure_future(hosting.run()), asyncio.ensure_future(ended.wait())
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        finally:
            await service.stop()
            thread.close()

    def _service(self, host: str, port: int) -> AdaptersService:
        """Return the service in the data folder or, with records in the database, in the first folder in it that no
        process uses. Raises FolderInUse, StoreError."""
        from brokers.adapters.service import AdaptersService, FolderInUse
        from console.brokers.hung_process import write_owner

        data = Path(settings.HEADGATE_ADAPTERS["data"])
        if self._in_files:
            # A short wait: the next attempt comes soon.
            service = AdaptersService(data, host=host, port=port, wait=0)
            write_owner(data)
            return service
        for number in range(1, MOST_PROCESSES):
            with contextlib.suppress(FolderInUse):
                return AdaptersService(data / f"_process{number}", host=host, port=port, wait=0)
        return AdaptersService(data / f"_process{MOST_PROCESSES}", host=host, port=port, wait=0)

    def _opener(self, thread: DatabaseThread) -> Callable[[ForeignBroker, Callable[[], object]], Records]:
        """Return the function that opens what is stored of a broker, see `Hosting`."""
        from brokers.adapters.file_records import FileRecords
        from console.brokers.database_records import opened
        from console.brokers.hosting import lease_of
        from console.brokers.imported_files import import_files

        data = Path(settings.HEADGATE_ADAPTERS["data"])

        def open_(row: ForeignBroker, keep_alive: Callable[[], object]) -> Records:
            slug = row.slug
            if self._in_files:
                return FileRecords(data / slug, owner=str(row.pk))
            import_files(data / slug, slug, lease_of(slug), keep_alive)
            return opened(slug, lease_of(slug), thread.wait)

        return open_

    async def _end_hung(self) -> bool:
        """Kill the other process if it hangs; return whether that was done."""
        from console.brokers.hung_process import end_hung_owner

        killed = False
        with contextlib.suppress(DatabaseError):
            killed = await asyncio.to_thread(_and_disconnect, end_hung_owner, Path(settings.HEADGATE_ADAPTERS["data"]))
        if killed:
            self._say("the other process did not respond, and was killed")
        return killed

    def _hosts(self, slugs: list[str]) -> None:
        self._say(f"polling {', '.join(slugs)}" if slugs else "no brokers to poll, or other processes poll them")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _published(host: str) -> str:
    """Return the address that links connect to: the host's name for one that means all of its addresses."""
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host


def _and_disconnect(work: Callable[[Path], bool], folder: Path) -> bool:
    try:
        return work(folder)
    finally:
        connection.close()  # of this thread
