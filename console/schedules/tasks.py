"""Celery tasks of schedules. Beat starts the sweep at the exact time (`wakeups.py`) and regularly, for missed
wake-ups."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from console.celery import app, send
from console.schedules import execution
from console.schedules.models import Run

#: How long finished runs are retained; the audit trail retains their changes.
RETENTION = dt.timedelta(days=365)


@app.task(name="schedules.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Create due runs and queue their execution. Return the number of queued runs."""
    now = timezone.now()
    execution.create_due_runs(now)
    numbers = execution.due_runs(now)
    for number in numbers:
        send(carry_out, number)
    return len(numbers)


@app.task(name="schedules.carry_out")  # type: ignore[untyped-decorator]
def carry_out(number: int) -> str:
    """Attempt a run, and return the outcome."""
    outcome = execution.execute(number)
    execution.update_end_wakeup(number)
    return outcome


@app.task(name="schedules.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Delete runs older than the retention period. Return the number of deleted rows."""
    return int(Run.objects.filter(finished__lt=timezone.now() - RETENTION).delete()[0])
