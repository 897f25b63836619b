"""Start a run of the pipeline or of a maintenance job on a user's request.

A run changes no broker, but uses the machine's processors and covers all brokers: it requires the role of operator of
every broker, and writes an audit row without a broker.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import transaction
from kombu.exceptions import OperationalError

from brokers.admin import AdminError
from console.access.actor import Actor
from console.access.audit_entries import entry_of
from console.audit.models import Outcome
from console.celery import app
from console.history.models import HistoryRun
from console.history.pipeline import job_requests
from console.history.pipeline.pipeline_leases import is_process_alive
from console.permissions.rights import Role

#: What can be requested.
HISTORY_WORKS = (HistoryRun.RUN, *HistoryRun.MAINTENANCE)


class QueueUnreachable(AdminError):
    """The task could not be queued: Celery's broker does not respond."""


def run_history(by: Actor, work: str, reason: str = "") -> None:
    """Queue the work, one of `HISTORY_WORKS`; queued work is joined. Raises PermissionDenied, QueueUnreachable."""

    def record(outcome: Outcome, detail: str) -> None:
        about = {"broker": "", "object": "history", "operation": f"request-{work}"}
        entry_of(by, **about, reason=reason, outcome=outcome, detail=detail).save_or_log()

    if not by.rights.allows_everywhere(Role.OPERATOR):
        why = f"{by.name} may not run the history: that needs the role of operator of every broker"
        record(Outcome.REFUSED, why)
        raise PermissionDenied(why)
    # A process that ends in between leaves no request without its entry.
    with transaction.atomic():
        request, is_new = job_requests.request_work(work, by=by.name, address=by.address)
        record(Outcome.DONE, f"request {request.pk} is queued{'' if is_new else ' already'}")
    if is_process_alive():
        return
    try:
        app.send_task("history.run", expires=None)
    except (OperationalError, OSError) as error:
        number = request.pk
        with transaction.atomic():
            if is_new:
                request.delete()
            left = f"request {number} is {'withdrawn' if is_new else 'queued already'}"
            record(Outcome.FAILED, f"{left}: the worker's queue cannot be reached: {error}")
        raise QueueUnreachable(f"The worker's queue cannot be reached: {error}") from error
