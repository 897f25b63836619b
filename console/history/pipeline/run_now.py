"""Start a run of the pipeline or of a maintenance job on a user's request.

A run changes no broker, but uses the machine's processors and covers all brokers: it requires the role of operator of
every broker, and writes an audit row without a broker.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
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
    entry = entry_of(
        by, broker="", object="history", operation=f"request-{work}", reason=reason, outcome=Outcome.FAILED
    )
    try:
        if not by.rights.allows_everywhere(Role.OPERATOR):
            entry.outcome = Outcome.REFUSED
            raise PermissionDenied(
                f"{by.name} may not run the history: that needs the role of operator of every broker"
            )
        request, is_new = job_requests.request_work(work, by=by.name, address=by.address)
        if not is_process_alive():
            try:
                app.send_task("history.run", expires=None)
            except (OperationalError, OSError):
                if is_new:
                    request.delete()
                raise
        entry.outcome = Outcome.DONE
        entry.detail = f"request {request.pk} is queued{'' if is_new else ' already'}"
    except PermissionDenied as error:
        entry.detail = str(error)
        raise
    except (OperationalError, OSError) as error:
        entry.detail = f"the worker's queue cannot be reached: {error}"
        raise QueueUnreachable(f"The worker's queue cannot be reached: {error}") from error
    finally:
        entry.save()
