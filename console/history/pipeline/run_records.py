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
    def of(self, broker: str) -> Report: ...


class Recorded:
    """The row of the current run, or those of its brokers."""

    def __init__(self, *rows: HistoryRun) -> None:
        self._rows = rows

    def step(self, name: str) -> None:
        """Record the start of a step."""
        for row in self._rows:
            row.step = name
        with contextlib.suppress(DatabaseError):  # informational: the run continues
            HistoryRun.objects.bulk_update(self._rows, ["step"])

    def report(self, report: Report) -> None:
        for row in self._rows:
            self._report(row, report if len(self._rows) == 1 else report.of(row.broker))

    def _report(self, row: HistoryRun, report: Report) -> None:
        row.files, row.rows, row.seconds = report.files, report.rows, report.seconds
        row.newest, row.unreadable = report.newest, dict(report.unreadable)
        if report.newest is not None:
            # For imported logs this is the age of their rows, not a latency of the pipeline.
            row.lag_ms = max(0, round((timezone.now() - report.newest).total_seconds() * 1000))


@contextlib.contextmanager
def recorded(work: str = HistoryRun.RUN, *brokers: str) -> Iterator[Recorded]:
    """Record the block as a run, for each of the brokers if there are some; an exception that leaves it is recorded as
    its error. Only the failure of several brokers is not: each of them is then run alone. The caller owns the leases,
    so an unfinished row of the same work and broker is that of a dead process."""
    brokers = brokers or ("",)
    end_dead_runs(HistoryRun.objects.filter(work=work, broker__in=brokers))
    started = timezone.now()
    rows = [
        HistoryRun.objects.create(work=work, broker=broker, holder=this_process(), started=started)
        for broker in brokers
    ]
    error = ""
    try:
        yield Recorded(*rows)
    except BaseException as raised:
        error = reason(raised)
        if len(rows) > 1 and isinstance(raised, Exception):
            HistoryRun.objects.filter(pk__in=[row.pk for row in rows]).delete()
            rows = []
        raise
    finally:
        for row in rows:
            row.finished, row.error = timezone.now(), error
            if not error:
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
