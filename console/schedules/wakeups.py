"""Beat's rows (django-celery-beat) that let it look for due schedules at the very second. They decide nothing: a row
that comes late, twice or not at all changes when something is done by some seconds, never whether."""

from __future__ import annotations

import datetime as dt

from django_celery_beat.models import ClockedSchedule, PeriodicTask

TASK = "schedules.sweep"


def wake(name: str, at: dt.datetime) -> None:
    """Look for due schedules then; a name has one such moment."""
    clocked, _ = ClockedSchedule.objects.get_or_create(clocked_time=at)
    # A row that has run once is switched off by beat unless its count begins anew.
    again = {"total_run_count": 0, "last_run_at": None}
    wanted = {"task": TASK, "clocked": clocked, "one_off": True, "enabled": True, **again}
    row = PeriodicTask.objects.filter(name=_named(name)).first()
    if row is not None and row.clocked_id == clocked.pk:
        return
    PeriodicTask.objects.update_or_create(name=_named(name), defaults=wanted)
    ClockedSchedule.objects.filter(periodictask__isnull=True).delete()


def let_sleep(name: str) -> None:
    for row in PeriodicTask.objects.filter(name=_named(name)):
        row.delete()
    ClockedSchedule.objects.filter(periodictask__isnull=True).delete()


def _named(name: str) -> str:
    return f"wake for {name}"
