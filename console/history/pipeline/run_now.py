"""Start a run of the pipeline or of a maintenance job on a user's request.

A run changes no broker, but uses the machine's processors and covers all brokers: it requires the role of operator of
every broker, and writes an audit row without a broker.
"""

from __future__ import annotations

import datetime as dt

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from brokers.admin import AdminError
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.celery import app
from console.history.models import HistoryRun, JobRequest
from console.permissions.rights import Role

#: Work -> its task and the task's arguments.
HISTORY_WORKS = {
    "run": ("history.run", {"always": True}),
    "compact": ("history.compact", {}),
    "retain": ("history.retain", {}),
    "advise": ("history.advise", {}),
}
#: A request to run the pipeline expires after this, in seconds; requests of jobs do not expire.
EXPIRES = 600


class QueueUnreachable(AdminError):
    """The task could not be queued: Celery's broker does not respond."""


def run_history(by: Actor, work: str, reason: str = "") -> None:
    """Queue the work, one of `HISTORY_WORKS`, for Celery's worker. Raises PermissionDenied, QueueUnreachable."""
    entry = AuditEntry(
        user=by.user if isinstance(by.user, User) else None,
        user_name=by.name,
        source_address=by.address,
        broker="",
        object="history",
        operation=f"request-{work}",
        reason=reason.strip(),
        outcome=Outcome.FAILED,
    )
    try:
        if not by.rights.allows_everywhere(Role.OPERATOR):
            entry.outcome = Outcome.REFUSED
            raise PermissionDenied(
                f"{by.name} may not run the history: that needs the role of operator of every broker"
            )
        task, arguments = HISTORY_WORKS[work]
        if work not in HistoryRun.MAINTENANCE:
            app.send_task(task, kwargs=arguments, expires=EXPIRES)
            entry.outcome, entry.detail = Outcome.DONE, f"queued for the worker as {task}"
            return
        recent = [timezone.now() + sign * dt.timedelta(seconds=EXPIRES) for sign in (-1, 1)]
        waiting = Q(requested__range=recent) | Q(polled__range=recent)
        same = JobRequest.objects.filter(waiting, work=work, finished=None).first()
        if same is not None:
            entry.outcome, entry.detail = Outcome.DONE, f"request {same.pk} is queued already"
            return
        request = JobRequest.objects.create(
            work=work, requested=timezone.now(), requested_by=by.name, address=by.address
        )
        try:
            app.send_task(task, kwargs={**arguments, "request": request.pk}, expires=None)
        except (OperationalError, OSError):
            request.delete()
            raise
        entry.outcome, entry.detail = Outcome.DONE, f"request {request.pk}, queued for the worker as {task}"
    except PermissionDenied as error:
        entry.detail = str(error)
        raise
    except (OperationalError, OSError) as error:
        entry.detail = f"the worker's queue cannot be reached: {error}"
        raise QueueUnreachable(f"The worker's queue cannot be reached: {error}") from error
    finally:
        entry.save()
