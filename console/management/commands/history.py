"""`manage.py history`: run the pipeline from the landing folder to the tables, continuously or a single job."""

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
from console.history.pipeline.spark.launcher_output import filtered_launcher_output
from console.history.pipeline.spark.session import SessionFailed, is_alive, start_session
from console.history.storage.landing import LandingError
from console.leases.lease import Busy, lease
from console.management.ready import require_database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from console.history.storage.tables import Tables

#: Exit status if another process owns the lease.
BUSY = 75

#: Interval of checking whether an owner that seems to have died renews its lease, s.
_CHECK = 1.0

#: Time that a process has after a signal to record its end in the database, s.
_GRACE = 2.0


class _End:
    """Ends the process on a signal, also during a run: the next run continues from any state. A callback of Spark may
    swallow the exception, so a timer ends the process as well."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        if not self.ended.is_set():
            self.ended.set()
            timer = threading.Timer(_GRACE, os._exit, (0,))
            timer.daemon = True
            timer.start()
        raise SystemExit(0)


class Command(BaseCommand):
    help = "Process files of the landing folder into the history's tables, every few seconds or once."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once",
            choices=["run", "compact", "retain", "advise"],
            help="run one job and exit: process the backlog, compaction, retention, or recommendations for all queues"
            " (exit status 75: another process is working)",
        )

    def handle(self, *args: Any, once: str | None, **options: Any) -> None:
        require_database()
        os.nice(10)  # the broker has priority
        try:
            self._run(once)
        except Busy as busy:
            self._say(str(busy))
            sys.exit(BUSY)
        except (NoJava, SessionFailed, LandingError) as error:
            self._fail(str(error))
        except Exception as error:  # Spark and file systems raise many types
            if once is None:
                raise
            self._fail(reason(error))
        finally:
            scratch.leave()

    def _run(self, once: str | None) -> None:
        if once is None:
            self._run_continuously()
            return
        while True:
            try:
                self._do_once(once)
                return
            except Busy as busy:
                if not busy.ran_out:
                    raise
            time.sleep(_CHECK)

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

    def _run_continuously(self) -> None:
        end = _End()
        end.listen()
        try:
            # Spark replaces our signal handlers.
            Runner(settings.HEADGATE_HISTORY_URL, self._runs(end.listen), say=self._say).run_until(end.ended)
        except Unusable as error:
            self._fail(str(error))

    def _runs(self, on_start: Callable[[], None] = lambda: None) -> OneRun:
        """Return the function that runs the pipeline once. Spark starts with the first run that has a backlog."""
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
                    raise Unusable(f"Spark has ended: {reason(error)}") from error
                raise

        return run

    def _session(self, on_step: Callable[[str], None]) -> SparkSession:
        """Start Spark. Raises NoJava, SessionFailed."""
        if jars := missing():
            on_step("fetching Delta Lake's jars")
            self._say(f"downloading {jars}: they are not on this machine")
        else:
            on_step("starting Spark")
        with filtered_launcher_output():
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
            self._say(f"recommendations for {count:,} queues in {seconds:g} s")
        else:
            maintenance.compact(tables, now.date(), on_step)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _fail(self, text: str) -> None:
        self.stderr.write(text)
        sys.exit(1)
