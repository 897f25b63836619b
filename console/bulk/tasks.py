"""Celery tasks of bulk edits. A task message only names a job; the job's row has its state and its worker.

So messages may be lost, duplicated or late: the lease in the row admits one worker at a time, and `sweep` restarts
stalled jobs. A job runs in slices, so that a job of 10,000 queues does not occupy a worker thread.
"""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid
from typing import Any

from django.utils import timezone

from brokers.admin import BrokerUnreachable
from console.bulk.editing import abandon, stalled, step
from console.bulk.models import BulkEdit, State
from console.celery import app, send

#: Retention of finished jobs; the audit trail has their changes for longer.
RETENTION = dt.timedelta(days=365)
#: Duration of a slice, s; other tasks run between slices.
SLICE = 2.0
#: Retries while the broker is disconnected, after 2, 4, 8… seconds, before the job is interrupted.
RETRIES = 6


@app.task(name="bulk.carry_out", bind=True, max_retries=RETRIES)  # type: ignore[untyped-decorator]
def carry_out(self: Any, number: int, worker: str = "") -> str:
    """Process a slice of a job and return `continues`, `interrupted` or `finished`. `worker`: name of the worker of
    the previous slice."""
    worker = worker or f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
    end = time.monotonic() + SLICE
    try:
        while step(number, worker, keep_on_disconnect=True):
            if time.monotonic() >= end:
                send(carry_out, number, worker)
                return "continues"
    except BrokerUnreachable as error:
        tried = self.request.retries
        if tried >= RETRIES:
            abandon(number, worker, str(error))
            return "interrupted"
        raise self.retry(args=(number, worker), countdown=2 ** (tried + 1)) from error
    return "finished"


@app.task(name="bulk.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Restart stalled jobs and return their number."""
    numbers = stalled()
    for number in numbers:
        send(carry_out, number)
    return len(numbers)


@app.task(name="bulk.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Delete jobs past their retention, an undo before the job that it undid, and return their number. A deleted job
    cannot be undone."""
    deleted = 0
    expired = BulkEdit.objects.filter(finished__lt=timezone.now() - RETENTION, state=State.DONE, undone_by=None)
    while count := expired.delete()[0]:
        deleted += count
    return deleted
