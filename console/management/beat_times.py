"""When beat (django-celery-beat) did its tasks last, after the clock was set back: at times that are still to come.

Beat would do nothing again until the clock has come there once more, an hour later: no alert would be tried again, no
schedule looked for. What is due every few seconds has been done now, at the latest; what is due at a time of day is not
done twice when that time comes again.
"""

from __future__ import annotations

import datetime as dt

from django_celery_beat.models import PeriodicTask, PeriodicTasks

_DAY = dt.timedelta(days=1)


def again_in_time(now: dt.datetime) -> None:
    """Call it while no beat runs: it writes the times that it knows."""
    often = PeriodicTask.objects.filter(interval__isnull=False, last_run_at__gt=now)
    daily = PeriodicTask.objects.filter(crontab__isnull=False, last_run_at__gt=now + _DAY)
    for late in (often, daily):
        late.update(last_run_at=now)
    # When any task was changed last: beat looks for later changes only.
    PeriodicTasks.objects.filter(last_update__gt=now).update(last_update=now)
