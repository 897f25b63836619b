"""Maintenance jobs that wait for the pipeline: what is asked for, how far it is; the pipeline lets it go first.

A job and the pipeline share one lease. The pipeline takes it again some seconds after each run, so a job that only
looks now and then might find it taken for ever: while a job waits, the pipeline does not begin another run.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.utils import timezone

from console.audit.models import AuditEntry, Outcome
from console.history.models import JobRequest

#: Seconds between two looks of a job whether the lease is free.
AGAIN = 7
#: A job that has not looked for so long does not hold the pipeline up: its worker has gone, or it pauses.
PATIENCE = dt.timedelta(seconds=3 * AGAIN)


def waits(now: dt.datetime | None = None) -> bool:
    """Whether a job waits for the lease at this moment."""
    now = now or timezone.now()
    # Not either one that has looked at a time that is still to come: the clock has been set back since.
    lately = (now - PATIENCE, now + PATIENCE)
    return JobRequest.objects.filter(finished=None, error="", polled__range=lately).exists()


def looks(number: int | None, work: str) -> JobRequest:
    """The request whose task begins to look for the lease: that of a person, or a new one of the schedule."""
    now = timezone.now()
    found = JobRequest.objects.filter(pk=number).first() if number is not None else None
    if found is None:
        return JobRequest.objects.create(work=work, requested=now, polled=now)
    JobRequest.objects.filter(pk=found.pk).update(polled=now, error="")
    return found


def failed(request: JobRequest, error: str, *, for_good: bool) -> None:
    """It failed with that sentence, and is tried again unless it is `for_good`."""
    JobRequest.objects.filter(pk=request.pk).update(error=error, finished=timezone.now() if for_good else None)
    if for_good:
        _audit(request, Outcome.FAILED, error)


def done(request: JobRequest) -> None:
    JobRequest.objects.filter(pk=request.pk).update(error="", finished=timezone.now())
    _audit(request, Outcome.DONE, "")


def _audit(request: JobRequest, outcome: Outcome, error: str) -> None:
    """What a person asked for is told when it has run, beside the row of the request."""
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


def shown(request: JobRequest | None) -> dict[str, Any] | None:
    """For the page of the status; `state`: queued (no worker has it yet), waiting (for the lease, or running), failed
    (and tried again, unless it is finished) or done."""
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
