"""What the console's database keeps of the pipeline: who runs it now, and what came of each run. No row of history."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.leases.models import Held

__all__ = ["Held", "HistoryRun", "JobRequest"]


class JobRequest(models.Model):
    """A maintenance job that was asked for, by a person or (`requested_by` is empty) by the schedule, until it has run.

    `looked`: when its task last looked whether the lease is free; None: no worker has taken it yet. `error`: why it
    failed, the last time."""

    work = models.CharField(max_length=20)
    requested = models.DateTimeField(db_index=True)
    requested_by = models.CharField(max_length=150, blank=True)
    address = models.CharField(max_length=64, blank=True)
    polled = models.DateTimeField(null=True)
    finished = models.DateTimeField(null=True)
    error = models.TextField(default="", blank=True)

    objects: ClassVar[models.Manager[JobRequest]] = models.Manager()

    class Meta:
        ordering: ClassVar = ["-id"]


class HistoryRun(models.Model):
    """One run of the pipeline, or one maintenance job. Times are UTC."""

    RUN, COMPACT, RETAIN, ADVISE = "run", "compact", "retain", "advise"
    MAINTENANCE = (COMPACT, RETAIN, ADVISE)

    work = models.CharField(max_length=20, default=RUN)
    holder = models.CharField(max_length=200)
    started = models.DateTimeField(db_index=True)
    finished = models.DateTimeField(null=True)
    #: The step that goes on, or that failed.
    step = models.CharField(max_length=40, default="")
    files = models.PositiveIntegerField(default=0)
    #: Landed rows by kind, and seconds by step.
    rows = models.JSONField(default=dict)
    seconds = models.JSONField(default=dict)
    #: The newest moment that the landed rows tell of, and how long after it they could be read.
    newest = models.DateTimeField(null=True)
    lag_ms = models.BigIntegerField(null=True)
    #: Landing files that could not be read and were left where they are, with the reason.
    unreadable = models.JSONField(default=dict)
    #: Why it failed, in a sentence; "": it did not.
    error = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["-started", "-id"]

    @property
    def state(self) -> str:
        if self.error:
            return "failed"
        return "running" if self.finished is None else "done"
