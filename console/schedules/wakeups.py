"""Beat's rows (django-celery-beat) that let it look for due schedules at the very second. They decide nothing: a row
that comes late, twice or not at all changes when something is done by some seconds, never whether.

A name has a moment of its own, also at a time that others have: nothing is looked up by its time, so that workers who
plan several schedules of one time at once are not in each other's way.
"""

from __future__ import annotations

import datetime as dt

from django.db import transaction
from django_celery_beat.models import ClockedSchedule, PeriodicTask

TASK = "schedules.sweep"


def wake(name: str, at: dt.datetime) -> None:
    """Look for due schedules then; a name has one such moment."""
    with transaction.atomic():
        row = PeriodicTask.objects.select_for_update().filter(name=_named(name)).first()
        before = row and row.clocked
        if before is not None and before.clocked_time == at:
            return
        # A row that has run once is switched off by beat unless its count begins anew.
        again = {"total_run_count": 0, "last_run_at": None}
        clocked = ClockedSchedule.objects.create(clocked_time=at)
        wanted = {"task": TASK, "clocked": clocked, "one_off": True, "enabled": True, **again}
        PeriodicTask.objects.update_or_create(name=_named(name), defaults=wanted)
        if before is not None:
            _forget(before.pk)


def let_sleep(name: str) -> None:
    with transaction.atomic():
        for row in PeriodicTask.objects.filter(name=_named(name)):
            row.delete()
            _forget(row.clocked_id)


def _forget(moment: int) -> None:
    """Unless somebody has it still, as several names had one in earlier versions."""
    ClockedSchedule.objects.filter(pk=moment, periodictask__isnull=True).delete()


def _named(name: str) -> str:
    return f"wake for {name}"
