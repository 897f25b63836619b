"""`manage.py history`: the pipeline from the landing folder to the tables, kept warm, or one piece of its work."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand

from console.history.models import HistoryRun
from console.history.pipeline.run_records import Recorded, abandon_dead_runs, forget_old_runs, reason, recorded
from console.history.pipeline.runner import LEASE, MoreReport, OneRun, Runner, Unusable
from console.history.pipeline.spark import scratch
from console.history.pipeline.spark.jars import missing
from console.history.pipeline.spark.java import NoJava
from console.history.pipeline.spark.launcher_output import without_the_usual
from console.history.pipeline.spark.session import SessionFailed, is_alive, start_session
from console.history.storage.landing import LandingError
from console.leases.lease import Busy, lease
from console.management.ready import require_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from console.history.storage.tables import Tables

#: Exit codes besides 0 and 1: somebody else is at it.
BUSY = 75

#: Seconds between looks whether a holder that seems to have died gives a sign of life.
_LOOK = 1.0

#: Seconds that a process which was told to end may take to say so in the database.
_GRACE = 2.0


class _End:
    """Ends the process when a signal comes, at once, also in the middle of a run: the next one finds what this one
    left, whatever it was at. The exception may be lost in a callback of Spark's, so the clock ends it as well."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        if not self.ended.is_set():
            self.ended.set()
            clock = threading.Timer(_GRACE, os._exit, (0,))
            clock.daemon = True
            clock.start()
        raise SystemExit(0)


class Command(BaseCommand):
    help = "Turn what has landed into the history's tables: every few seconds, or once."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once",
            choices=["run", "compact", "retain", "advise"],
            help="do one thing and end: run the pipeline until nothing is left, put small files together, drop what is"
            " kept no longer, or work out the advice for every queue (exit code 75: another process is at it)",
        )

    def handle(self, *args: Any, once: str | None, **options: Any) -> None:
        require_database()
        os.nice(10)  # the broker goes first
        try:
            self._work(once)
        except Busy as busy:
            self._say(str(busy))
            sys.exit(BUSY)
        except (NoJava, SessionFailed, LandingError) as error:
            self._fail(str(error))
        except Exception as error:  # what Spark and the file systems raise has many types
            if once is None:
                raise
            self._fail(reason(error))
        finally:
            scratch.leave()

    def _work(self, once: str | None) -> None:
        if once is None:
            self._keep_running()
            return
        while True:
            try:
                self._do_once(once)
                return
            except Busy as busy:
                if not busy.ran_out:
                    raise
            time.sleep(_LOOK)

    def _do_once(self, once: str) -> None:
        if once == "run":
            runner = Runner(settings.HEADGATE_HISTORY_URL, self._runs(), say=self._say)
            while runner.run_if_new():
                pass
        else:
            with lease(LEASE):
                abandon_dead_runs()
                with recorded(once) as row:
                    self._maintain(once, row)

    def _keep_running(self) -> None:
        end = _End()
        end.listen()
        try:
            # Spark puts handlers of its own in the place of ours.
            Runner(settings.HEADGATE_HISTORY_URL, self._runs(end.listen), say=self._say).run_until(end.ended)
        except Unusable as error:
            self._fail(str(error))

    def _runs(self, on_start: Callable[[], None] = lambda: None) -> OneRun:
        """What runs the pipeline once. Spark starts with the first run that there is something for."""
        tables: Tables | None = None

        def run(on_step: Callable[[str], None]) -> MoreReport:
            nonlocal tables
            from console.history.pipeline.run import Run
            from console.history.storage.tables import Tables

            if tables is None:
                tables = Tables(self._session(on_step), settings.HEADGATE_HISTORY_URL)
                on_start()
            try:
                return Run(tables, on_step).run()
            except Exception as error:
                if not is_alive(tables.spark):
                    raise Unusable(f"Spark has gone: {reason(error)}") from error
                raise

        return run

    def _session(self, on_step: Callable[[str], None]) -> SparkSession:
        """Raises NoJava, SessionFailed."""
        if jars := missing():
            on_step("fetching Delta Lake's jars")
            self._say(f"{jars} are not on this machine: fetching them, once")
        else:
            on_step("starting Spark")
        with without_the_usual():
            return start_session(scratch=settings.DATA / "spark")

    def _maintain(self, work: str, row: Recorded) -> None:
        from console.history.pipeline import maintenance
        from console.history.pipeline.run import Report
        from console.history.storage.tables import Tables
        from console.history.whatif.fleet_recommendations import write_recommendations

        on_step = row.step
        now = dt.datetime.now(dt.UTC)
        url = settings.HEADGATE_HISTORY_URL
        if work == HistoryRun.RETAIN:
            on_step("landing")
            maintenance.sweep(url, now)
            forget_old_runs()
        tables = Tables(self._session(on_step), url)
        if work == HistoryRun.RETAIN:
            maintenance.retain(tables, now.date(), on_step)
        elif work == HistoryRun.ADVISE:
            count, seconds = write_recommendations(tables, on_step)
            row.report(Report(rows={"advice": count}, seconds={"advice": seconds}))
            self._say(f"advice for {count:,} queues in {seconds:g} s")
        else:
            maintenance.compact(tables, now.date(), on_step)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _fail(self, text: str) -> None:
        self.stderr.write(text)
        sys.exit(1)
