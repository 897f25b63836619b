"""Pieces of work of a process with a Spark session: a run for some brokers or all, or a maintenance job.

The process that executes a piece owns its leases, records it as a run, and fulfils the requests for it. Spark starts
with the first piece that needs it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.history.models import HistoryRun
from console.history.pipeline import job_requests
from console.history.pipeline.due_work import left_open
from console.history.pipeline.pipeline_leases import (
    UPGRADE,
    broker_lease,
    job_lease,
    require_no_older_run,
    session_up,
    waiting_lease,
)
from console.history.pipeline.processed_files import note_processed, processed_files
from console.history.pipeline.retention_date import due_date, record_retention
from console.history.pipeline.run_records import Recorded, forget_old_runs, reason, recorded
from console.history.storage.landing_listing import LandingListing
from console.leases.lease import Busy, Lost, lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from console.history.pipeline.run import Report
    from console.history.storage.tables import Tables

#: A run has fixed costs, which up to this many brokers share. The lease of each takes a thread and a connection to the
#: database.
MOST_TOGETHER = 10

#: Is called with the name of each step before it starts.
OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """`work`: of `HistoryRun`; `broker`: of a run; empty: all with waiting files, as requested by a user; `others`:
    further brokers of the same run."""

    work: str = HistoryRun.RUN
    broker: str = ""
    others: tuple[str, ...] = ()

    @property
    def is_request(self) -> bool:
        return self.work != HistoryRun.RUN or not self.broker

    @property
    def alone(self) -> tuple[Piece, ...]:
        """The run of each broker alone."""
        return tuple(Piece(self.work, broker) for broker in (self.broker, *self.others))


def together(brokers: Iterable[str]) -> list[Piece]:
    """Return the runs for these brokers, with up to `MOST_TOGETHER` of them each. The empty name, of files whose names
    have no broker, is left out."""
    named = [broker for broker in brokers if broker]
    several = [named[i : i + MOST_TOGETHER] for i in range(0, len(named), MOST_TOGETHER)]
    return [Piece(broker=first, others=tuple(others)) for first, *others in several]


class Unusable(Exception):
    """Spark cannot be used any more in this process, which has to be replaced."""


class Pieces:
    """Executes pieces. `start_session`: starts Spark, and is called with the function that records its steps. `advise`:
    computes the recommendations; returns their number and the seconds that it took. `say`: prints a line. `on_step`: is
    called with each step. `clock`: returns the time, UTC, that retention and compaction go by."""

    def __init__(
        self,
        url: str,
        start_session: Callable[[OnStep], SparkSession],
        advise: Callable[[Tables, OnStep], tuple[int, float]],
        *,
        say: Callable[[str], None] = print,
        on_step: OnStep = lambda _name: None,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._url = url
        self._start_session = start_session
        self._advise = advise
        self._say = say
        self._on_step = on_step
        self._clock = clock
        self.files = 0  # processed landing files
        self._tables: Tables | None = None
        self._shown = contextlib.ExitStack()

    @property
    def spark(self) -> SparkSession | None:
        """The session, once it has been started."""
        return None if self._tables is None else self._tables.spark

    def close(self) -> None:
        """Show that the session is no longer up. Spark ends with the process."""
        with contextlib.suppress(Lost):
            self._shown.close()

    def execute(self, piece: Piece) -> None:
        """Do the work. Raises Busy (another process owns a lease), Overtaken (this one has lost it), Unusable, NoJava,
        SessionFailed, LandingError, and Spark's errors."""
        require_no_older_run()
        if not piece.is_request:
            self._run([piece.broker, *piece.others])
            return
        with lease(job_lease(piece.work)), _fulfilled(piece.work):
            if piece.work == HistoryRun.RUN:
                self._run_all()
            else:
                self._maintain(piece.work)

    # -- runs -----------------------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        """Run every broker that waits; the failure of one does not affect the others. Raises the first failure, or Busy
        if another process runs one of them."""
        failures: list[Exception] = []
        waiting = self._waiting()
        pieces = together(waiting) + [Piece() for broker in waiting if not broker]
        while pieces:
            piece = pieces.pop(0)
            try:
                self._run([piece.broker, *piece.others])
            except Unusable:
                raise
            except Exception as error:
                if piece.others and not isinstance(error, Busy):
                    pieces[:0] = piece.alone
                else:
                    failures.append(error)
        if failures:
            raise min(failures, key=lambda error: isinstance(error, Busy))

    def _waiting(self) -> list[str]:
        listed = LandingListing(self._url).files()
        return sorted({file.broker for file in listed} | set(left_open(processed_files(), time.time_ns())))

    def _run(self, brokers: Sequence[str]) -> None:
        """Run these brokers together. Raises Busy if another process runs some of them, after the run of the others."""
        busy: Busy | None = None
        with contextlib.ExitStack() as leases:
            owned, lost = [], []
            for broker in brokers if all(brokers) else self._waiting():
                try:
                    lost.append(leases.enter_context(lease(broker_lease(broker))))
                except Busy as error:
                    if len(brokers) == 1:
                        raise
                    busy = error
                else:
                    owned.append(broker)
            if owned or not all(brokers):
                self._run_owned(owned if all(brokers) else [], lost)
        if busy is not None:
            raise busy

    def _run_owned(self, brokers: Sequence[str], lost: Sequence[threading.Event]) -> None:
        """`brokers`: empty for files whose names have none, which may have rows of any broker. `lost`: is set when a
        lease expires, by lease."""
        listing = LandingListing(self._url)
        before = [file for file in listing.files() if not brokers or file.broker in brokers]
        active: frozenset[str] = frozenset()
        more = True
        while more:
            with recorded(HistoryRun.RUN, *(brokers or [""])) as row, self._usable(row) as tables:
                report = self._run_once(tables, brokers, self._steps(row, lost))
                row.report(report)
                more, active = report.more, report.active
                self.files += report.files
        self._sweep()
        note_processed(before, listing.files(), brokers or [""], active)

    def _run_once(self, tables: Tables, brokers: Sequence[str], on_step: OnStep) -> Report:
        from console.history.pipeline.run import Run

        return Run(tables, on_step, brokers=brokers or None).run()

    def _sweep(self) -> None:
        from console.history.pipeline import maintenance

        maintenance.sweep(self._url, dt.datetime.now(dt.UTC))

    # -- maintenance jobs -------------------------------------------------------------------------------------------

    def _maintain(self, work: str) -> None:
        from console.history.pipeline import maintenance
        from console.history.pipeline.run import Report

        today = self._clock().date()
        with recorded(work) as row, self._usable(row) as tables:
            on_step = self._steps(row)
            if work == HistoryRun.RETAIN:
                on_step("landing")
                self._sweep()
                forget_old_runs()
                self._retain(tables, today, on_step)
                maintenance.vacuum(tables, on_step)
            elif work == HistoryRun.ADVISE:
                count, seconds = self._advise(tables, on_step)
                row.report(Report(rows={"advice": count}, seconds={"advice": seconds}))
                self._say(f"recommendations for {count:,} queues in {seconds:g} s")
            else:
                for broker in tables.brokers():
                    with waiting_lease(broker_lease(broker)):
                        maintenance.compact(tables, today, on_step, brokers=[broker])

    def _retain(self, tables: Tables, today: dt.date, on_step: OnStep) -> None:
        from console.history.pipeline import maintenance

        as_of = due_date(tables.landing, today, lambda: maintenance.newest_day(tables))
        if as_of < today:
            self._say(f"retention as of {as_of}, since the clock's date {today} is not confirmed: see the status page")
        for broker in tables.brokers():
            with waiting_lease(broker_lease(broker)):
                maintenance.retain(tables, as_of, on_step, brokers=[broker])
        record_retention(tables.landing, as_of, today)

    # -- the session --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _usable(self, row: Recorded) -> Iterator[Tables]:
        """Yield the tables; start Spark if it has not started. Raises Unusable if Spark has ended within the block."""
        from console.history.pipeline.opening import open_tables
        from console.history.pipeline.spark.session import is_alive

        if self._tables is None:
            session = self._start_session(self._steps(row))
            with waiting_lease(UPGRADE):
                self._tables = open_tables(session, self._url, self._steps(row))
            self._shown.enter_context(session_up())
        try:
            yield self._tables
        except Exception as error:
            if not is_alive(self._tables.spark):
                raise Unusable(f"Spark has ended: {reason(error)}") from error
            raise

    def _steps(self, row: Recorded, lost: Sequence[threading.Event] = ()) -> OnStep:
        """Return the function that records steps. It raises Overtaken if one of the leases is lost."""

        def step(name: str) -> None:
            if any(each.is_set() for each in lost):
                from console.history.storage.commits import Overtaken

                raise Overtaken(f"the lease has expired before the step {name}: another process may own it")
            row.step(name)
            self._on_step(name)

        return step


@contextlib.contextmanager
def _fulfilled(work: str) -> Iterator[None]:
    """Fulfil the queued requests for this work by the block."""
    numbers = job_requests.begin(work)
    try:
        yield
    except Busy:
        job_requests.put_back(numbers)
        raise
    except (KeyboardInterrupt, SystemExit):
        job_requests.put_back(numbers)  # the user or the system stopped it
        raise
    except BaseException as error:
        job_requests.fail(numbers, reason(error))
        raise
    job_requests.finish(numbers)
