"""Database rows about the pipeline: its lease, its runs, requests of maintenance jobs. The history itself is in
files."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.leases.models import Lease

__all__ = ["HistoryRun", "JobRequest", "Lease", "ProcessedFiles"]


class JobRequest(models.Model):
    """A requested run or maintenance job, by a user or, with an empty `requested_by`, by the schedule. It stays queued
    until it has been done, or has failed for the last time (`finished`).

    `started`: when its current attempt started; None: queued. `attempts`: number of started attempts. `error`: message
    of the last failure."""

    work = models.CharField(max_length=20)
    requested = models.DateTimeField(db_index=True)
    requested_by = models.CharField(max_length=150, blank=True)
    address = models.CharField(max_length=64, blank=True)
    started = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    finished = models.DateTimeField(null=True)
    error = models.TextField(default="", blank=True)

    objects: ClassVar[models.Manager[JobRequest]] = models.Manager()

    class Meta:
        ordering: ClassVar = ["-id"]


class ProcessedFiles(models.Model):
    """The landing files of a broker that runs have processed, so that a new process need not read the tables to find
    out. Without the row a broker gets one more run.

    `orders`: kind -> order of the last recorder's file; `others`: identities of other files that are still there, such
    as those that cannot be read (`landing_listing.LandedFile`); `is_open`: the last run left the recorder's hour
    open."""

    broker = models.CharField(max_length=255, primary_key=True)
    orders = models.JSONField(default=dict)
    others = models.JSONField(default=list)
    is_open = models.BooleanField(default=True)

    objects: ClassVar[models.Manager[ProcessedFiles]] = models.Manager()


class HistoryRun(models.Model):
    """One run of the pipeline, or one maintenance job. Times are UTC.

    `broker`: whose files it processes; empty: all. It has no default in the database: a process of a release that ran
    all brokers under one lease cannot insert its row, hence starts no run beside those of this release."""

    RUN, COMPACT, RETAIN, ADVISE = "run", "compact", "retain", "advise"
    MAINTENANCE = (COMPACT, RETAIN, ADVISE)

    work = models.CharField(max_length=20, default=RUN)
    broker = models.CharField(max_length=255, default="", blank=True)
    holder = models.CharField(max_length=200)
    started = models.DateTimeField(db_index=True)
    finished = models.DateTimeField(null=True)
    #: The current step, or the one that failed.
    step = models.CharField(max_length=40, default="")
    files = models.PositiveIntegerField(default=0)
    #: Ingested rows by kind, and seconds by step.
    rows = models.JSONField(default=dict)
    seconds = models.JSONField(default=dict)
    #: Time of the newest ingested row, and ms from then until it could be queried.
    newest = models.DateTimeField(null=True)
    lag_ms = models.BigIntegerField(null=True)
    #: Unreadable landing files, which are left in place, with the reason.
    unreadable = models.JSONField(default=dict)
    #: Error message; "": no failure.
    error = models.TextField(default="")

    class Meta:
        ordering: ClassVar = ["-started", "-id"]

    @property
    def state(self) -> str:
        if self.error:
            return "failed"
        return "running" if self.finished is None else "done"
