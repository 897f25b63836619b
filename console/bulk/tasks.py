"""Bulk edits in the workers. A message says that there is something to do; what, and who does it, the job's row says.

So a message may be lost, come twice or come late: the lease in the row lets one worker at a time do it, and `sweep`
finds jobs whose worker has gone. A job is done in slices, lest one of ten thousand queues keep a thread for itself.
"""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid
from typing import Any

from django.utils import timezone

from brokers.admin import BrokerUnreachable
from console.bulk.editing import give_up, stalled, step
from console.bulk.models import BulkEdit, State
from console.celery import app, send

#: How long jobs that are done are kept; the audit trail keeps what they changed.
KEPT = dt.timedelta(days=365)
#: Seconds of work before other tasks have their turn.
SLICE = 2.0
#: How often a broker that is away is asked again, after 2, 4, 8… seconds, before the job is interrupted.
PATIENCE = 6


@app.task(name="bulk.carry_out", bind=True, max_retries=PATIENCE)  # type: ignore[untyped-decorator]
def carry_out(self: Any, number: int, worker: str = "") -> str:
    """Do a slice of a job. `worker`: who did the slice before and goes on."""
    worker = worker or f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
    end = time.monotonic() + SLICE
    try:
        while step(number, worker, patient=True):
            if time.monotonic() >= end:
                send(carry_out, number, worker)
                return "goes on"
    except BrokerUnreachable as away:
        tried = self.request.retries
        if tried >= PATIENCE:
            give_up(number, worker, str(away))
            return "interrupted"
        raise self.retry(args=(number, worker), countdown=2 ** (tried + 1)) from away
    return "nothing is left"


@app.task(name="bulk.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Take up jobs whose worker has gone; how many there are."""
    numbers = stalled()
    for number in numbers:
        send(carry_out, number)
    return len(numbers)


@app.task(name="bulk.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Drop jobs that are kept no longer, and with them what an undo would need; an undo before what it undid."""
    dropped = 0
    over = BulkEdit.objects.filter(finished__lt=timezone.now() - KEPT, state=State.DONE, undone_by=None)
    while count := over.delete()[0]:
        dropped += count
    return dropped
