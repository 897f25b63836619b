"""Schedules and their runs.

A schedule has an action and its times in a time zone (`times.py`). Each time is a row, `Run`, with a copy of the action
and the previous values, so that its end does not depend on the schedule.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from console.leases.leased_row import LeasedRow


class Action(models.TextChoices):
    STOP = "stop", "stop producers"
    START = "start", "start producers"
    POLICY = "policy", "set policy fields"


class RunState(models.TextChoices):
    """BEGINNING: due, not executed yet. OPEN: executed, to be reverted at the end of its window. ENDING: the revert is
    due. FAILED: refused, or failed for good. MISSED: no worker executed it in time."""

    BEGINNING = "beginning", "beginning"
    OPEN = "open", "open"
    ENDING = "ending", "ending"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    MISSED = "missed", "missed"


class Schedule(models.Model):
    """`target`: an object name as text; `pattern` restricts a stop to matching queues; `effect`: what the stop does to
    producers, as its owner has confirmed; empty: it holds them. `once`: local time in `zone`;
    else `minute` to `weekdays` are cron fields. `lasts`: minutes of local time until the change is reverted, 0: never.
    `user`: the owner, whose permissions apply at each run; `token_number`: of the API token with which it was saved,
    whose permissions apply, too; None: without one. `next`: next run, UTC; null: none."""

    name = models.CharField(max_length=100, unique=True)
    broker = models.CharField(max_length=64)
    action = models.CharField(max_length=16, choices=Action.choices)
    target = models.CharField(max_length=1024)
    pattern = models.CharField(max_length=255, blank=True)
    attributes = models.JSONField(default=dict)
    effect = models.CharField(max_length=16, blank=True)
    reason = models.TextField(blank=True)
    zone = models.CharField(max_length=64)
    once = models.CharField(max_length=16, blank=True)
    minute = models.CharField(max_length=100, default="0")
    hour = models.CharField(max_length=100, default="*")
    days = models.CharField(max_length=100, default="*")
    months = models.CharField(max_length=100, default="*")
    weekdays = models.CharField(max_length=100, default="*")
    lasts = models.PositiveIntegerField(default=0)
    paused = models.BooleanField(default=False)
    next = models.DateTimeField(null=True, db_index=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150)
    token_number = models.BigIntegerField(null=True)
    version = models.PositiveIntegerField(default=1)

    objects: ClassVar[models.Manager[Schedule]] = models.Manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class Run(LeasedRow):
    """One run of a schedule. `before` and `after`: the fields that it set, with previous and new values. `due`, `ends`:
    UTC. `retry_at`: time of the next attempt; `lease_…`: see `console/leases/`."""

    schedule = models.ForeignKey(Schedule, on_delete=models.SET_NULL, null=True, related_name="runs")
    schedule_name = models.CharField(max_length=100)
    broker = models.CharField(max_length=64)
    action = models.CharField(max_length=16, choices=Action.choices)
    target = models.CharField(max_length=1024)
    pattern = models.CharField(max_length=255, blank=True)
    attributes = models.JSONField(default=dict)
    effect = models.CharField(max_length=16, blank=True)
    reason = models.TextField(blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150)
    token_number = models.BigIntegerField(null=True)
    due = models.DateTimeField(db_index=True)
    ends = models.DateTimeField(null=True)
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.BEGINNING)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    began = models.DateTimeField(null=True)
    finished = models.DateTimeField(null=True)
    begin_said = models.TextField(blank=True)
    end_said = models.TextField(blank=True)
    tries = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField()

    class Meta:
        ordering = ["-due", "-id"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["schedule", "due"], name="schedules_run_once")]
        indexes = [models.Index(fields=["state", "retry_at"], name="schedules_runs_due")]
