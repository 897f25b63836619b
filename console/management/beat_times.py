"""Correct the last run times of beat's tasks (django-celery-beat) that are in the future after the clock was set back.

Otherwise beat would run no task until the clock reaches these times again: no alert would be retried and no schedule
run. Interval tasks count as run now. Daily tasks do not run twice when their time of day comes again.
"""

from __future__ import annotations

import datetime as dt

from django_celery_beat.models import PeriodicTask, PeriodicTasks

_DAY = dt.timedelta(days=1)


def reset_future_run_times(now: dt.datetime) -> None:
    """Correct the times. Call it while no beat runs, since beat writes its own copy of them."""
    interval = PeriodicTask.objects.filter(interval__isnull=False, last_run_at__gt=now)
    daily = PeriodicTask.objects.filter(crontab__isnull=False, last_run_at__gt=now + _DAY)
    for tasks in (interval, daily):
        tasks.update(last_run_at=now)
    # The time of the last change of any task: beat detects only later changes.
    PeriodicTasks.objects.filter(last_update__gt=now).update(last_update=now)
