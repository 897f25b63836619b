"""Scheduled tasks of the history: overdue runs of the pipeline, compaction, retention, recommendations.

Each task runs a command in a separate process, so that a worker never contains Java; libraries that read Parquet are
imported on use, since they take 130 MB. The lease serializes the tasks: one that cannot acquire it does nothing, or
waits for it (`pipeline/job_requests.py`).
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

#: Exit code of `manage.py history --once` if another process owns the lease.
BUSY = 75

#: Older files are not processed by the long-running process: it is not running, or fails.
OVERDUE = dt.timedelta(minutes=2)

#: Attempts of a failing job; waiting for the lease is no failure.
MOST_FAILURES = 5

#: Timeout of a command, in seconds.
LONGEST = 6 * 3600


class HistoryFailed(Exception):
    """A command failed; the message is the last line of its output. The console's database has a row about it."""


class HistoryBusy(Exception):
    """Another process owns the lease."""


@app.task(name="history.run", bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def run(self: Any, *, always: bool = False) -> str:
    """Run the pipeline if the backlog is overdue; `always`: in any case. Retried after 30 s, 60 s…"""
    from console.history.storage.backlog import find_backlog

    if not always:
        oldest = find_backlog(settings.HEADGATE_HISTORY_URL).oldest
        if oldest is None or timezone.now() - oldest < OVERDUE:
            return "nothing is overdue"
    try:
        command("run")
    except HistoryBusy:
        return "another process owns the lease"
    except HistoryFailed as failure:
        raise self.retry(exc=failure, countdown=30 * 2**self.request.retries) from failure
    return "done"


@app.task(name="history.compact", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def compact(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Compact small files."""
    return _job(self, "compact", request, failures)


@app.task(name="history.retain", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def retain(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Delete rows beyond their retention."""
    return _job(self, "retain", request, failures)


@app.task(name="history.advise", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def advise(self: Any, *, request: int | None = None, failures: int = 0) -> str:
    """Compute the recommendations for all queues."""
    return _job(self, "advise", request, failures)


@app.task(name="history.sweep")  # type: ignore[untyped-decorator]
def sweep_landing() -> int:
    """Remove processed landing files."""
    from console.history.pipeline.maintenance import sweep

    return sweep(settings.HEADGATE_HISTORY_URL, timezone.now())


def _job(task: Any, work: str, number: int | None, failures: int) -> str:
    """Run a job once it acquires the lease, without a time limit; a failing one is attempted `MOST_FAILURES` times.
    `number`: of the `JobRequest`."""
    from console.history.pipeline import job_requests

    request = job_requests.start_polling(number, work)
    try:
        command(work)
    except HistoryBusy as busy:
        arguments = {"request": request.pk, "failures": failures}
        raise task.retry(exc=busy, countdown=job_requests.POLL_SECONDS, kwargs=arguments) from busy
    except HistoryFailed as failure:
        job_requests.fail(request, str(failure), is_final=failures + 1 >= MOST_FAILURES)
        if failures + 1 >= MOST_FAILURES:
            raise
        arguments = {"request": request.pk, "failures": failures + 1}
        raise task.retry(exc=failure, countdown=300, kwargs=arguments) from failure
    job_requests.finish(request)
    return "done"


def command(work: str) -> None:
    """Run `manage.py history --once WORK`. Raises HistoryBusy, HistoryFailed."""
    environment = os.environ | {
        "HEADGATE_DATA": str(settings.DATA),
        "HEADGATE_HISTORY_URL": settings.HEADGATE_HISTORY_URL,
    }
    try:
        done = subprocess.run(  # noqa: S603 -- a command of this project
            [sys.executable, str(MANAGE), "history", "--once", work],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HistoryFailed(f"history --once {work} took longer than {LONGEST} s and was terminated") from None
    if done.returncode == BUSY:
        raise HistoryBusy(done.stdout.strip())
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise HistoryFailed(lines[-1] if lines else f"history --once {work} exited with {done.returncode}")
