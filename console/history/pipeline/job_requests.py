"""Requests of maintenance jobs and their states. The pipeline yields to waiting jobs.

A job and the pipeline share one lease. The pipeline acquires it again seconds after each run, so a job that only polls
for it might never get it: while a job waits, the pipeline starts no other run.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.utils import timezone

from console.audit.models import AuditEntry, Outcome
from console.history.models import JobRequest

#: Seconds between two attempts of a job to acquire the lease.
POLL_SECONDS = 7
#: A job that has not polled for this long does not delay the pipeline: its worker has ended, or it pauses.
POLL_TIMEOUT = dt.timedelta(seconds=3 * POLL_SECONDS)


def is_job_waiting(now: dt.datetime | None = None) -> bool:
    """Return whether a job waits for the lease now."""
    now = now or timezone.now()
    # A time in the future does not count either: the clock has been set back since.
    recent = (now - POLL_TIMEOUT, now + POLL_TIMEOUT)
    return JobRequest.objects.filter(finished=None, error="", polled__range=recent).exists()


def start_polling(number: int | None, work: str) -> JobRequest:
    """Return the request of a task that polls for the lease: that of a user, or a new one of the schedule."""
    now = timezone.now()
    found = JobRequest.objects.filter(pk=number).first() if number is not None else None
    if found is None:
        return JobRequest.objects.create(work=work, requested=now, polled=now)
    JobRequest.objects.filter(pk=found.pk).update(polled=now, error="")
    return found


def fail(request: JobRequest, error: str, *, is_final: bool) -> None:
    """Record a failure with its message; unless it `is_final`, the job will be retried."""
    JobRequest.objects.filter(pk=request.pk).update(error=error, finished=timezone.now() if is_final else None)
    if is_final:
        _audit(request, Outcome.FAILED, error)


def finish(request: JobRequest) -> None:
    JobRequest.objects.filter(pk=request.pk).update(error="", finished=timezone.now())
    _audit(request, Outcome.DONE, "")


def _audit(request: JobRequest, outcome: Outcome, error: str) -> None:
    """Audit the result of a user's request, in addition to the request itself."""
    if not request.requested_by:
        return
    waited = (timezone.now() - request.requested).total_seconds()
    AuditEntry(
        user_name=request.requested_by,
        source_address=request.address,
        broker="",
        object="history",
        operation=request.work,
        outcome=outcome,
        detail=f"{error or 'done'}, {waited:,.0f} s after request {request.pk}",
    ).save()


def request_facts(request: JobRequest | None) -> dict[str, Any] | None:
    """Return a request for the status page. `state`: queued (no worker has started it), waiting (for the lease, or
    running), failed (to be retried, unless it has `finished`) or done."""
    if request is None:
        return None
    if request.error:
        state = "failed"
    elif request.finished is not None:
        state = "done"
    else:
        state = "queued" if request.polled is None else "waiting"
    requested = int(request.requested.timestamp() * 1000)
    return {
        "state": state,
        "requested": requested,
        "requested_by": request.requested_by,
        "asked": requested,  # deprecated name
        "asked_by": request.requested_by,  # deprecated name
        "finished": None if request.finished is None else int(request.finished.timestamp() * 1000),
        "error": request.error,
    }
