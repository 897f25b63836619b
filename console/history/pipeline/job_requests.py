"""Queue of requested work: runs of the pipeline and maintenance jobs. A request is a row until it has been done.

Any process that does the work fulfils the requests that were queued when it started. Requests for queued work are
joined. An attempt that fails, or whose process dies, is repeated, `MOST_ATTEMPTS` times in all. The order is that of
the rows' numbers, so the clock does not matter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.utils import timezone

from console.audit.models import AuditEntry, Outcome
from console.history.models import JobRequest
from console.history.pipeline.pipeline_leases import is_working, job_lease

#: Attempts of a request, including those whose process died.
MOST_ATTEMPTS = 5
#: The error of an attempt whose process died.
DIED = "the process ended in the middle of it"


def request_work(work: str, *, by: str = "", address: str = "") -> tuple[JobRequest, bool]:
    """Return the queued request of this work, and whether it is new. `by`: user; empty: the schedule."""
    queued = [row for row in JobRequest.objects.filter(work=work, finished=None) if not _is_running(row)]
    if queued:
        return queued[0], False
    return JobRequest.objects.create(work=work, requested=timezone.now(), requested_by=by, address=address), True


def queued_works(*, without: Collection[str] = ()) -> list[str]:
    """Return the requested works, the first requested first, that no process does now."""
    rows = JobRequest.objects.filter(finished=None).exclude(work__in=without).order_by("id")
    return list(dict.fromkeys(row.work for row in rows if not _is_running(row)))


def begin(work: str) -> list[int]:
    """Start an attempt of all requests of this work, and return their numbers. The caller owns the job's lease."""
    rows = list(JobRequest.objects.filter(work=work, finished=None))
    begun = []
    for row in rows:
        if row.attempts >= MOST_ATTEMPTS:  # their processes died, and could not record it
            _finish(row, row.error or DIED)
        else:
            begun.append(row.pk)
    for number in begun:
        row = JobRequest.objects.get(pk=number)
        JobRequest.objects.filter(pk=number).update(started=timezone.now(), attempts=row.attempts + 1)
    return begun


def put_back(numbers: Collection[int]) -> None:
    """Undo `begin`: another process owns what the work needs."""
    for row in JobRequest.objects.filter(pk__in=numbers, finished=None):
        JobRequest.objects.filter(pk=row.pk).update(started=None, attempts=max(0, row.attempts - 1))


def fail(numbers: Collection[int], error: str) -> None:
    """Record the failure of an attempt. The request is queued again unless it was the last attempt."""
    for row in JobRequest.objects.filter(pk__in=numbers, finished=None):
        if row.attempts >= MOST_ATTEMPTS:
            _finish(row, error)
        else:
            JobRequest.objects.filter(pk=row.pk).update(error=error, started=None)


def finish(numbers: Collection[int]) -> None:
    for row in JobRequest.objects.filter(pk__in=numbers, finished=None):
        _finish(row, "")


def fail_died(work: str, error: str = DIED) -> None:
    """Record that the process died which was doing this work."""
    fail([row.pk for row in JobRequest.objects.filter(work=work, finished=None).exclude(started=None)], error)


def _finish(row: JobRequest, error: str) -> None:
    """Record the result, and audit it if a user requested it, in addition to the request itself."""
    now = timezone.now()
    if not JobRequest.objects.filter(pk=row.pk, finished=None).update(error=error, finished=now):
        return
    if row.requested_by:
        waited = max(0.0, (now - row.requested).total_seconds())
        AuditEntry(
            user_name=row.requested_by,
            source_address=row.address,
            broker="",
            object="history",
            operation=row.work,
            outcome=Outcome.FAILED if error else Outcome.DONE,
            detail=f"{error or 'done'}, {waited:,.0f} s after request {row.pk}",
        ).save()


def _is_running(row: JobRequest) -> bool:
    return row.started is not None and is_working(job_lease(row.work))


def request_facts(request: JobRequest | None) -> dict[str, Any] | None:
    """Return a request for the status page. `state`: queued, running, failed (to be retried, unless it has `finished`)
    or done."""
    if request is None:
        return None
    if request.finished is None and _is_running(request):
        state = "running"
    elif request.error:
        state = "failed"
    else:
        state = "queued" if request.finished is None else "done"
    requested = int(request.requested.timestamp() * 1000)
    return {
        "work": request.work,
        "state": state,
        "requested": requested,
        "requested_by": request.requested_by,
        "asked": requested,  # deprecated name
        "asked_by": request.requested_by,  # deprecated name
        "attempts": request.attempts,
        "finished": None if request.finished is None else int(request.finished.timestamp() * 1000),
        "error": request.error,
    }
