"""django-celery-beat's scheduler. It sends no sweep that would find nothing, and looks for saved tasks at an interval.

A sweep looks for rows that wait for a worker. Most of the time there is none, and a message, a task and their
connections cost more than a look.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from console.alerts.models import Delivery, DeliveryState
from console.bulk import models as bulk
from console.messages import models as message_jobs
from console.schedules.models import Run, RunState, Schedule

log = logging.getLogger(__name__)

#: Whether a sweep may find something. Whether it is due, and which process owns it, the sweep itself decides.
MAY_FIND: Mapping[str, Callable[[], bool]] = {
    "alerts.sweep": lambda: Delivery.objects.filter(state=DeliveryState.WAITING).exists(),
    "bulk.sweep": lambda: bulk.BulkEdit.objects.filter(state=bulk.State.RUNNING).exists(),
    "message_jobs.sweep": lambda: message_jobs.MessageJob.objects.filter(state=message_jobs.State.RUNNING).exists(),
    "schedules.sweep": lambda: (
        Schedule.objects.exists()
        or Run.objects.filter(state__in=[RunState.BEGINNING, RunState.OPEN, RunState.ENDING]).exists()
    ),
}


class Scheduler(DatabaseScheduler):  # type: ignore[misc]
    """See the module. `max_interval`: s, within which it notices a saved task. Without an interval it would look after
    each task that it has sent, and query the database twice for each."""

    #: Monotonic seconds.
    clock: Callable[[], float] = staticmethod(time.monotonic)
    _look_at = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the first due task. Return the seconds until the next tick."""
        seconds = float(super().tick(*args, **kwargs) or 0)
        return min(seconds, max(self._look_at - self.clock(), 0))

    def schedule_changed(self) -> bool:
        now = self.clock()
        if now < self._look_at:
            return False
        self._look_at = now + self.max_interval
        return bool(super().schedule_changed())

    def apply_entry(self, entry: ModelEntry, producer: Any = None) -> None:
        if _may_find(entry.task):
            super().apply_entry(entry, producer=producer)


def _may_find(task: str) -> bool:
    look = MAY_FIND.get(task)
    try:
        return look is None or look()
    except DatabaseError:
        log.exception("it is not known whether %s would find something: sending it", task)
        return True
