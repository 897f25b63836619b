"""Database rows of runs of the pipeline and of maintenance jobs: step, result or error."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Protocol

from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils import timezone

from console.history.models import HistoryRun, JobRequest
from console.history.pipeline.job_requests import DIED
from console.leases.process import this_process

#: Retention of successful and of other runs.
KEEP_DONE, KEEP_FAILED = dt.timedelta(days=1), dt.timedelta(days=30)


class Report(Protocol):
    """The result of a run, as `run.Report`."""

    @property
    def files(self) -> int: ...
    @property
    def rows(self) -> dict[str, int]: ...
    @property
    def seconds(self) -> dict[str, float]: ...
    @property
    def newest(self) -> dt.datetime | None: ...
    @property
    def unreadable(self) -> Mapping[str, str]: ...


class Recorded:
    """The row of the current run."""

    def __init__(self, row: HistoryRun) -> None:
        self._row = row

    def step(self, name: str) -> None:
        """Record the start of a step."""
        self._row.step = name
        with contextlib.suppress(DatabaseError):  # informational: the run continues
            self._row.save(update_fields=["step"])

    def report(self, report: Report) -> None:
        row = self._row
        row.files, row.rows, row.seconds = report.files, report.rows, report.seconds
        row.newest, row.unreadable = report.newest, dict(report.unreadable)
        if report.newest is not None:
            # For imported logs this is the age of their rows, not a latency of the pipeline.
            row.lag_ms = max(0, round((timezone.now() - report.newest).total_seconds() * 1000))


@contextlib.contextmanager
def recorded(work: str = HistoryRun.RUN, broker: str = "") -> Iterator[Recorded]:
    """Record the block as a run; an exception that leaves it is recorded as its error. The caller owns the lease, so an
    unfinished row of the same work and broker is that of a dead process."""
    end_dead_runs(HistoryRun.objects.filter(work=work, broker=broker))
    row = HistoryRun.objects.create(work=work, broker=broker, holder=this_process(), started=timezone.now())
    try:
        yield Recorded(row)
    except BaseException as error:
        row.error = reason(error)
        raise
    finally:
        row.finished = timezone.now()
        if not row.error:
            row.step = ""
        row.save()


def reason(error: BaseException) -> str:
    """Return the first line of an error. Messages of Spark continue with plans and stack traces of Java, and the last
    cause has the actual error."""
    if (java := getattr(error, "java_exception", None)) is not None:
        with contextlib.suppress(Exception):  # Java may have ended
            while java.getCause() is not None:
                java = java.getCause()
            name = java.getClass().getSimpleName()
            return f"{name}: {java.getMessage() or 'no message'}".splitlines()[0][:2000]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else ""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "it was stopped"
    return f"{type(error).__name__}: {message}"[:2000] if message else type(error).__name__


def end_dead_runs(rows: QuerySet[HistoryRun], error: str = DIED) -> int:
    """Record the end of unfinished runs whose process was killed; return their number."""
    return rows.filter(finished=None).update(finished=timezone.now(), error=error)


def forget_old_runs() -> None:
    now = timezone.now()
    HistoryRun.objects.filter(finished__lt=now - KEEP_FAILED).delete()
    HistoryRun.objects.filter(finished__lt=now - KEEP_DONE, error="").delete()
    JobRequest.objects.filter(finished__lt=now - KEEP_FAILED).delete()
