"""Celery tasks of message jobs. A task message only names a job; the job's row has its state and its worker.

So messages may be lost, duplicated or late: the lease in the row admits one worker at a time, and `sweep` sends jobs
whose worker has ended or whose pause is over. A job runs in slices, so that a long one does not occupy a worker thread.
"""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid

from django.utils import timezone

from console.celery import app, send
from console.messages.jobs import due, step
from console.messages.models import MessageJob, State

#: Retention of finished jobs; the audit trail has them for longer.
RETENTION = dt.timedelta(days=365)
#: Duration of a slice, s; other tasks run between slices.
SLICE = 2.0


@app.task(name="message_jobs.carry_out")  # type: ignore[untyped-decorator]
def carry_out(number: int, worker: str = "") -> str:
    """Process a slice of a job and return `continues` or `ends`: it is done, interrupted, waits, or another worker has
    it. `worker`: name of the worker of the previous slice."""
    worker = worker or f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
    end = time.monotonic() + SLICE
    while step(number, worker):
        if time.monotonic() >= end:
            send(carry_out, number, worker)
            return "continues"
    return "ends"


@app.task(name="message_jobs.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Send stalled jobs, and those whose pause is over, to workers; return their number."""
    numbers = due()
    for number in numbers:
        send(carry_out, number)
    return len(numbers)


@app.task(name="message_jobs.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Delete jobs past their retention and return their number."""
    return int(MessageJob.objects.filter(finished__lt=timezone.now() - RETENTION, state=State.DONE).delete()[0])
