"""Schedules in the workers. Beat wakes them at the moment itself (`wakeups.py`); the sweep finds what was missed."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from console.celery import app, send
from console.schedules import carrying_out
from console.schedules.models import Run

#: How long runs that are over are kept; the audit trail keeps what they changed.
KEPT = dt.timedelta(days=365)


@app.task(name="schedules.sweep")  # type: ignore[untyped-decorator]
def sweep() -> int:
    """Carry out whatever is due now; how much that is."""
    now = timezone.now()
    carrying_out.claim_due(now)
    numbers = carrying_out.due_runs(now)
    for number in numbers:
        send(carry_out, number)
    return len(numbers)


@app.task(name="schedules.carry_out")  # type: ignore[untyped-decorator]
def carry_out(number: int) -> str:
    """One attempt at a run."""
    said = carrying_out.carry_out(number)
    carrying_out.wake_for(number)
    return said


@app.task(name="schedules.forget")  # type: ignore[untyped-decorator]
def forget() -> int:
    """Drop runs that are kept no longer."""
    return int(Run.objects.filter(finished__lt=timezone.now() - KEPT).delete()[0])
