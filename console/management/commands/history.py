"""`headgate history`: have the landing folder processed into the tables, whenever there is work, or do one job.

This process stays small: the work is done by a process with a Spark session, which runs only while there is some.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import time
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.catalog import PROGRAM
from console.history.models import HistoryRun, JobRequest
from console.history.pipeline import job_requests
from console.history.pipeline.pieces import OnStep, Piece, Pieces, Unusable
from console.history.pipeline.pipeline_leases import alive, is_process_alive
from console.history.pipeline.processed_files import processed_files
from console.history.pipeline.retention_date import confirm_clock
from console.history.pipeline.run_records import reason
from console.history.pipeline.runner import Runner
from console.history.pipeline.session_process import SessionProcess
from console.history.storage.landing_listing import LandingListing
from console.leases.lease import Busy, Lost
from console.management.progress import progress
from console.management.ready import require_database

if TYPE_CHECKING:
    from console.history.storage.tables import Tables

#: Exit status if another process works on the same.
BUSY = 75

#: Interval of checking whether an owner that seems to have died renews its lease, and how far a request is, s.
_CHECK = 1.0


class Command(BaseCommand):
    help = "Process files of the landing folder into the history's tables, when there are some, or do one job."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once",
            choices=[HistoryRun.RUN, *HistoryRun.MAINTENANCE],
            help="do one job and exit: process the backlog, compaction, retention, or recommendations for all queues."
            " A running `headgate history` does it, if there is one"
            " (exit status 75: another process is working)",
        )
        parser.add_argument(
            "--clock-is-right",
            action="store_true",
            help="with --once retain: this machine's date is right, although it is far from that of the last retention;"
            " delete as of it",
        )
        # How this command starts the process with Spark.
        parser.add_argument("--session", action="store_true", help=SUPPRESS)

    def handle(self, *args: Any, once: str | None, session: bool, clock_is_right: bool = False, **options: Any) -> None:
        if session:
            from console.history.pipeline.session_main import say, serve

            serve(lambda on_step: _pieces(say, on_step))
            return
        if clock_is_right and once != HistoryRun.RETAIN:
            raise CommandError("--clock-is-right belongs to --once retain")
        require_database()
        if clock_is_right:
            from console.history.storage.landing import Landing

            confirm_clock(Landing(settings.HEADGATE_HISTORY_URL), _today())
        os.nice(10)  # the broker has priority
        if once is None:
            self._run_continuously()
        else:
            self._do_once(once)

    def _run_continuously(self) -> None:
        ended = threading.Event()

        def on_signal(*_: object) -> None:
            ended.set()
            raise SystemExit(0)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        runner = Runner(settings.HEADGATE_HISTORY_URL, _start_session, say=self._say)
        try:
            with alive() as lost:
                runner.run_until(ended, lost)
        except Lost as error:
            self._fail(f"{error}: restarting")

    def _do_once(self, work: str) -> None:
        if is_process_alive() and self._follow(work):
            return
        from console.history.pipeline.spark import scratch

        total = _waiting_files() if work == HistoryRun.RUN else None
        try:
            with progress(work, total=total, unit="files") as bar:
                pieces = _pieces(self._say, lambda step: bar.at(pieces.files, what=step))
                while True:
                    try:
                        pieces.execute(Piece(work))
                        bar.at(pieces.files)
                        return
                    except Busy as busy:
                        if not busy.ran_out:
                            self._say(str(busy))
                            sys.exit(BUSY)
                    finally:
                        pieces.close()
                    time.sleep(_CHECK)
        except Unusable as error:
            self._fail(str(error))
        except Exception as error:  # Spark and file systems raise many types
            self._fail(reason(error))
        finally:
            scratch.leave()

    def _follow(self, work: str) -> bool:
        """Request the work and wait for its end. Return False if the process that would do it has ended."""
        request, _ = job_requests.request_work(work)
        self._say("queued for the running `headgate history`")
        shown = ""
        while is_process_alive():
            request = JobRequest.objects.get(pk=request.pk)
            if request.finished is not None:
                if request.error:
                    self._fail(request.error)
                return True
            row = HistoryRun.objects.filter(work=work, finished=None).first()
            if row is not None and row.step and row.step != shown:
                shown = row.step
                self._say(shown)
            time.sleep(_CHECK)
        return False

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _fail(self, text: str) -> None:
        self.stderr.write(text)
        sys.exit(1)


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


def _start_session() -> SessionProcess:
    return SessionProcess([*PROGRAM, "history", "--session"])


def _waiting_files() -> int:
    processed = processed_files()
    files = LandingListing(settings.HEADGATE_HISTORY_URL).files()
    return sum(file.broker not in processed or not processed[file.broker].has(file) for file in files)


def _pieces(say: Callable[[str], None], on_step: OnStep = lambda _name: None) -> Pieces:
    from console.history.pipeline.session_main import start_spark

    return Pieces(settings.HEADGATE_HISTORY_URL, start_spark, _advise, say=say, on_step=on_step)


def _advise(tables: Tables, on_step: OnStep) -> tuple[int, float]:
    from console.history.whatif.fleet_recommendations import write_recommendations
    from console.operations.kind_models import brokers_without_resume_levels

    return write_recommendations(tables, on_step, brokers_without_resume_levels())
