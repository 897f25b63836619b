"""django-celery-beat's scheduler, which sends no sweep that would find nothing.

A sweep looks for rows that wait for a worker. Most of the time there is none, and a message, a task and their
connections cost more than a look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from console.alerts.models import Delivery, DeliveryState
from console.bulk import models as bulk
from console.schedules.models import Run, RunState, Schedule

log = logging.getLogger(__name__)

#: Whether a sweep may find something. Whether it is due, and which process owns it, the sweep itself decides.
MAY_FIND: Mapping[str, Callable[[], bool]] = {
    "alerts.sweep": lambda: Delivery.objects.filter(state=DeliveryState.WAITING).exists(),
    "bulk.sweep": lambda: bulk.BulkEdit.objects.filter(state=bulk.State.RUNNING).exists(),
    "schedules.sweep": lambda: (
        Schedule.objects.exists()
        or Run.objects.filter(state__in=[RunState.BEGINNING, RunState.OPEN, RunState.ENDING]).exists()
    ),
}


class Scheduler(DatabaseScheduler):  # type: ignore[misc]
    """See the module."""

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
