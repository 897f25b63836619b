"""`headgate recorder`: record the configured brokers into the landing folder of the history.

Several of these processes, also on several hosts, share the brokers; one more stands by for those that end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.brokers.configured import configured_now
from console.history.record.ownership import Ownership
from console.history.record.pyarrow_alone import use_pyarrow_alone
from console.history.record.recorder import Recorder, Timing
from console.history.record.recorders import Recorders
from console.history.storage.landing import Landing, LandingError
from console.links.registry import connect_to

#: Default of --publish, seconds. Each publication takes about six requests of an object store.
LOCAL, STORE = Timing().publish, 5.0


class Command(BaseCommand):
    help = "Record events and samples of all configured brokers into the landing folder of the history."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rotate", type=float, default=Timing().rotate, help="seconds between landing files")
        parser.add_argument(
            "--publish",
            type=float,
            help=f"seconds between publications (default: {LOCAL:g}; {STORE:g} on object stores)",
        )

    def handle(self, *args: Any, rotate: float, publish: float | None, **options: Any) -> None:
        if publish is None:
            publish = STORE if "://" in settings.HEADGATE_HISTORY_URL else LOCAL
        for option, seconds in (("rotate", rotate), ("publish", publish)):
            if not 0 < seconds <= 3600:
                self.stderr.write(f"--{option} is {seconds:g}: it must be above 0 and at most 3600 seconds")
                sys.exit(1)
        use_pyarrow_alone()
        timing = Timing(rotate=rotate, publish=publish)
        try:
            landing = Landing(settings.HEADGATE_HISTORY_URL)
        except LandingError as error:
            self.stderr.write(str(error))
            sys.exit(1)
        ownership = Ownership([entry["slug"] for entry in settings.HEADGATE_BROKERS])

        def start(slug: str) -> Recorder:
            may_write = partial(ownership.owns, slug)
            return Recorder(slug, partial(connect_to, slug), landing, timing=timing, may_write=may_write)

        asyncio.run(_run(Recorders(ownership, start, self._say, configured=configured_now)))

    def _say(self, slugs: list[str]) -> None:
        self.stdout.write(
            f"recording {', '.join(slugs)}" if slugs else "standing by: other processes record all brokers"
        )
        self.stdout.flush()


async def _run(recorders: Recorders) -> None:
    """Record until a signal, then publish the buffered data."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    waiting, recording = asyncio.ensure_future(ended.wait()), asyncio.ensure_future(recorders.run())
    await asyncio.wait([waiting, recording], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    recording.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await recording
