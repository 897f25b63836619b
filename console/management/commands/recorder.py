"""`manage.py recorder`: record all configured brokers into the landing folder of the history."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.history.record.recorder import Recorder, Timing
from console.history.storage.landing import Landing, LandingError
from console.links.registry import connector


class Command(BaseCommand):
    help = "Record events and samples of all configured brokers into the landing folder of the history."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rotate", type=float, default=Timing().rotate, help="seconds between landing files")

    def handle(self, *args: Any, rotate: float, **options: Any) -> None:
        if not 0 < rotate <= 3600:
            self.stderr.write(f"--rotate is {rotate:g}: it must be above 0 and at most 3600 seconds")
            sys.exit(1)
        # Two recorders would store every sample twice.
        with (settings.DATA / "recorder.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.stderr.write(f"another recorder uses the data folder {settings.DATA}")
                sys.exit(1)
            try:
                landing = Landing(settings.HEADGATE_HISTORY_URL)
            except LandingError as error:
                self.stderr.write(str(error))
                sys.exit(1)
            recorders = [
                Recorder(entry["slug"], connector(entry), landing, timing=Timing(rotate=rotate))
                for entry in settings.HEADGATE_BROKERS
            ]
            asyncio.run(_run(recorders, self._say))

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


async def _run(recorders: Sequence[Recorder], say: Callable[[str], None]) -> None:
    """Record until a signal, then publish the buffered data."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    tasks = [asyncio.ensure_future(recorder.run()) for recorder in recorders]
    waiting = asyncio.ensure_future(ended.wait())
    say(f"recording {', '.join(recorder.slug for recorder in recorders)}")
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    waiting.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
