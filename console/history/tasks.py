"""Scheduled tasks of the history. They queue maintenance jobs, which the running `headgate history` does.

Without such a process the worker runs the command, in a separate process, so that a worker never contains Java.
Libraries that read Parquet are imported on use, since they take 130 MB.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

from django.conf import settings
from django.utils import timezone

from console.catalog import PROGRAM
from console.celery import app

#: Exit code of `headgate history --once` if another process owns the lease.
BUSY = 75

#: Timeout of a command, in seconds.
LONGEST = 6 * 3600


class HistoryFailed(Exception):
    """A command failed; the message is the last line of its output. The console's database has a row about it."""


class HistoryBusy(Exception):
    """Another process owns the lease."""


@app.task(name="history.run", bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def run(self: Any, *, always: bool = False) -> str:
    """Do what is queued and due unless a `headgate history` process does so. `always`: ignored; a request that is
    queued is done in any case. Retried after 30 s, 60 s…"""
    from console.history.pipeline import job_requests
    from console.history.pipeline.pipeline_leases import is_process_alive

    if is_process_alive():
        return "headgate history is running"
    works = job_requests.queued_works()
    if "run" not in works and _is_due():
        works.insert(0, "run")
    try:
        for work in works:
            command(work)
    except HistoryBusy:
        return "another process owns the lease"
    except HistoryFailed as failure:
        raise self.retry(exc=failure, countdown=30 * 2**self.request.retries) from failure
    return "done" if works else "nothing is due"


@app.task(name="history.compact")  # type: ignore[untyped-decorator]
def compact(**_: Any) -> str:
    """Compact small files."""
    return _queue("compact")


@app.task(name="history.retain")  # type: ignore[untyped-decorator]
def retain(**_: Any) -> str:
    """Delete rows beyond their retention."""
    return _queue("retain")


@app.task(name="history.advise")  # type: ignore[untyped-decorator]
def advise(**_: Any) -> str:
    """Compute the recommendations for all queues."""
    return _queue("advise")


def _queue(work: str) -> str:
    from console.history.pipeline import job_requests
    from console.history.pipeline.pipeline_leases import is_process_alive

    job_requests.request_work(work)
    if not is_process_alive():
        run.delay()
    return "queued"


def _is_due() -> bool:
    """Return whether a run would be due at once in a process that has just started."""
    from console.history.pipeline.due_work import QUIET, DueWork
    from console.history.pipeline.processed_files import processed_files
    from console.history.storage.landing_listing import LandingListing

    now = timezone.now()
    files = LandingListing(settings.HEADGATE_HISTORY_URL).files()
    processed = processed_files()
    since = [0.0]
    due = DueWork(lambda: int(now.timestamp() * 1e9), lambda: since[0])
    due.find(files, processed)
    since[0] = QUIET
    return any(work.is_due for work in due.find(files, processed))


def command(work: str) -> None:
    """Run `headgate history --once WORK`. Raises HistoryBusy, HistoryFailed."""
    environment = os.environ | {
        "HEADGATE_DATA": str(settings.DATA),
        "HEADGATE_HISTORY_URL": settings.HEADGATE_HISTORY_URL,
    }
    try:
        done = subprocess.run(  # noqa: S603 -- a command of this project
            [*PROGRAM, "history", "--once", work],
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
