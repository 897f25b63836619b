"""Each run of the pipeline or of a maintenance job as a row for people: its step, its result, or why it failed."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Protocol

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from console.history.models import HistoryRun, JobRequest
from console.leases.process import me

#: Runs that went well are kept for a day, others for a month.
KEEP_DONE, KEEP_FAILED = dt.timedelta(days=1), dt.timedelta(days=30)


class Report(Protocol):
    """What a run tells of itself, as `run.Report` does."""

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
    """The row of a run that goes on."""

    def __init__(self, row: HistoryRun) -> None:
        self._row = row

    def step(self, name: str) -> None:
        """It begins this step."""
        self._row.step = name
        with contextlib.suppress(DatabaseError):  # it is for people, the run goes on without
            self._row.save(update_fields=["step"])

    def report(self, report: Report) -> None:
        row = self._row
        row.files, row.rows, row.seconds = report.files, report.rows, report.seconds
        row.newest, row.unreadable = report.newest, dict(report.unreadable)
        if report.newest is not None:
            # Imported logs tell of the past: how late they are is no property of the pipeline.
            row.lag_ms = max(0, round((timezone.now() - report.newest).total_seconds() * 1000))


@contextlib.contextmanager
def recorded(work: str = HistoryRun.RUN) -> Iterator[Recorded]:
    """Record what goes on in the block; an exception that leaves it is the reason of a failure."""
    row = HistoryRun.objects.create(work=work, holder=me(), started=timezone.now())
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
    """The first line of what went wrong: Spark's messages go on with plans and stacks of Java, and what it was that
    Java could not do stands in the last cause."""
    if (java := getattr(error, "java_exception", None)) is not None:
        with contextlib.suppress(Exception):  # Java may be gone
            while java.getCause() is not None:
                java = java.getCause()
            name = java.getClass().getSimpleName()
            return f"{name}: {java.getMessage() or 'no more is said'}".splitlines()[0][:2000]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else ""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "it was stopped"
    return f"{type(error).__name__}: {said}"[:2000] if said else type(error).__name__


def abandon_dead_runs() -> int:
    """Runs of processes that were killed have no end: say so. Call it while holding the lease."""
    dead = HistoryRun.objects.filter(finished=None)
    return dead.update(finished=timezone.now(), error="the process ended in the middle of it")


def forget_old_runs() -> None:
    now = timezone.now()
    HistoryRun.objects.filter(finished__lt=now - KEEP_FAILED).delete()
    HistoryRun.objects.filter(finished__lt=now - KEEP_DONE, error="").delete()
    JobRequest.objects.filter(
        Q(finished__lt=now - KEEP_FAILED) | Q(requested__lt=now - KEEP_FAILED, polled=None)
    ).delete()
