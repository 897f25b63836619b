"""`manage.py adapters`: poll the brokers of other kinds, and serve them to the console's other processes.

A second process of the same data folder stands by until the first has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.management.ready import require_database

#: Seconds between two attempts to take over the data folder.
RETRY = 1.0


class Command(BaseCommand):
    help = "Poll the added brokers (RabbitMQ and others), and serve them to the console."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        configured = settings.HEADGATE_ADAPTERS
        parser.add_argument("--host", default=configured["host"], help="address to listen on (default: %(default)s)")
        parser.add_argument(
            "--port", type=int, default=configured["port"], help="port to listen on (default: %(default)s; 0: any)"
        )

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        if not 0 <= port < 1 << 16:
            self.stderr.write(f"--port is {port}: it must be from 0 to 65535")
            sys.exit(1)
        require_database()
        sys.exit(asyncio.run(self._run(host, port)))

    async def _run(self, host: str, port: int) -> int:
        from brokers.adapters.service import FolderInUse, StoreError

        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        waiting = False
        while not ended.is_set():
            try:
                await self._serve(host, port, ended)
            except FolderInUse:
                if not waiting:
                    self._say("another process serves these brokers: standing by")
                waiting = True
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), RETRY)
            except (StoreError, OSError) as error:
                self.stderr.write(str(error))
                return 1
        return 0

    async def _serve(self, host: str, port: int, ended: asyncio.Event) -> None:
        """Serve until `ended`. Raises FolderInUse, StoreError, OSError."""
        from brokers.adapters.service import AdaptersService
        from console.brokers.hosting import Hosting

        data = Path(settings.HEADGATE_ADAPTERS["data"])
        service = AdaptersService(data, host=host, port=port)
        hosting = Hosting(service, service.clock.now, self._hosts)
        try:
            await service.start()
            self._write_port(data / "port", service.port)
            running, stopping = asyncio.ensure_future(hosting.run()), asyncio.ensure_future(ended.wait())
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            stopping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        finally:
            await service.stop()

    def _write_port(self, path: Path, port: int) -> None:
        new = path.with_name(".port")
        new.write_text(f"{port}\n")
        new.replace(path)

    def _hosts(self, slugs: list[str]) -> None:
        self._say(f"polling {', '.join(slugs)}" if slugs else "no brokers to poll")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
