"""Wake-ups: rows of django-celery-beat that start the sweep at the exact time of a schedule. Correctness does not
depend on them: a late, duplicate or lost wake-up delays a run by some seconds at most.

Each name has a `ClockedSchedule` of its own, even if several have the same time, so that workers that plan schedules
concurrently do not conflict.
"""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django_celery_beat.models import ClockedSchedule, PeriodicTask

TASK = "schedules.sweep"


def set_wakeup(name: str, at: dt.datetime) -> None:
    """Start the sweep at this time. Replaces an earlier wake-up of the same name."""
    with transaction.atomic():
        row = PeriodicTask.objects.select_for_update().filter(name=_named(name)).first()
        before = row and row.clocked
        if before is not None and before.clocked_time == at:
            return
        # Beat disables a one-off row that has run, unless its count is reset.
        reset = {"total_run_count": 0, "last_run_at": None}
        clocked = ClockedSchedule.objects.create(clocked_time=at)
        wanted = {"task": TASK, "clocked": clocked, "one_off": True, "enabled": True, **reset}
        PeriodicTask.objects.update_or_create(name=_named(name), defaults=wanted)
        if before is not None:
            _delete_clocked(before.pk)


def cancel_wakeup(name: str) -> None:
    """Delete the wake-up of this name, if there is one."""
    with transaction.atomic():
        for row in PeriodicTask.objects.filter(name=_named(name)):
            row.delete()
            _delete_clocked(row.clocked_id)


def _delete_clocked(moment: int) -> None:
    """Delete the row unless another name uses it, as in earlier versions."""
    ClockedSchedule.objects.filter(pk=moment, periodictask__isnull=True).delete()


def _named(name: str) -> str:
    return f"wake for {name}"
