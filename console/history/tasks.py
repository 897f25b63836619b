"""The history's work by the clock: runs that the warm process did not do, compaction, retention.

Each task is a command in a process of its own, so that a worker never holds a Java; what reads Parquet is imported when
it is needed, 130 MB of it. One at a time is the lease's matter: a task that finds it taken has nothing to do, or waits
for it (`pipeline/job_requests.py`).
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from console.celery import app

MANAGE = Path(__file__).resolve().parent.parent.parent / "manage.py"

#: The exit code of `manage.py history --once` when another process is at it.
BUSY = 75

#: Files that have waited for so long are not being taken by the warm process: it is not there, or fails.
OVERDUE = dt.timedelta(minutes=2)

#: Times that a job is tried which fails; waiting for the lease is no failure.
MOST_FAILURES = 5

#: Seconds that one command may take.
LONGEST = 6 * 3600


class HistoryFailed(Exception):
    """A command failed; the message is the last line that it said. The console's database has the record."""


class HistoryBusy(Exception):
    """Another process was at it."""


@app.task(name="history.run", bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def run(self: Any, *, always: bool = False) -> str:
    """Run the pipeline if files wait and nobody takes them; `always`: whatever waits. Tried again after 30 s, 60 s…"""
    from console.history.storage.backlog import find_backlog

    if not always:
        oldest = find_backlog(settings.HEADGATE_HISTORY_URL).oldest
        if oldest is None or timezone.now() - oldest < OVERDUE:
            return "nothing is overdue"
    try:
        command("run")
    except HistoryBusy:
        return "another process is at it"
    except HistoryFailed as failure:
        raise self.retry(exc=failure, countdown=30 * 2**self.request.retries) from failure
    return "done"


@app.task(name="history.compact", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def compact(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Put small files together."""
    return _job(self, "compact", request, failures)


@app.task(name="history.retain", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def retain(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Drop what is kept no longer."""
    return _job(self, "retain", request, failures)


@app.task(name="history.advise", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def advise(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Work out the advice for every queue."""
    return _job(self, "advise", request, failures)


@app.task(name="history.sweep")  # type: ignore[untyped-decorator]
def sweep_landing() -> int:
    """Remove landing files that are in the tables."""
    from console.history.pipeline.maintenance import sweep

    return sweep(settings.HEADGATE_HISTORY_URL, timezone.now())


def _job(task: Any, work: str, number: int | None, failures: int) -> str:
    """Wait for the lease however long it takes; a job that fails is tried `MOST_FAILURES` times. `number`: of the
    `JobRequest`."""
    from console.history.pipeline import job_requests

    request = job_requests.looks(number, work)
    try:
        command(work)
    except HistoryBusy as busy:
        again = {"request": request.pk, "failures": failures}
        raise task.retry(exc=busy, countdown=job_requests.AGAIN, kwargs=again) from busy
    except HistoryFailed as failure:
        job_requests.failed(request, str(failure), for_good=failures + 1 >= MOST_FAILURES)
        if failures + 1 >= MOST_FAILURES:
            raise
        again = {"request": request.pk, "failures": failures + 1}
        raise task.retry(exc=failure, countdown=300, kwargs=again) from failure
    job_requests.done(request)
    return "done"


def command(work: str) -> None:
    """`manage.py history --once WORK`. Raises HistoryBusy, HistoryFailed."""
    environment = os.environ | {
        "HEADGATE_DATA": str(settings.DATA),
        "HEADGATE_HISTORY_URL": settings.HEADGATE_HISTORY_URL,
    }
    try:
        done = subprocess.run(  # noqa: S603 -- our own command
            [sys.executable, str(MANAGE), "history", "--once", work],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HistoryFailed(f"history --once {work} took longer than {LONGEST} s and was ended") from None
    if done.returncode == BUSY:
        raise HistoryBusy(done.stdout.strip())
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise HistoryFailed(lines[-1] if lines else f"history --once {work} ended with {done.returncode}")
