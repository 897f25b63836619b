"""Bulk edits and their rows: wanted values, previous values and result of each queue.

Only `console/bulk/editing.py` writes these tables. The previous values are stored before the queue is changed, so a
job that is interrupted at any point can be resumed and undone.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Count

from console.leases.leased_row import LeasedRow


class State(models.TextChoices):
    """RUNNING: owned by a worker, or stalled if the lease has expired. INTERRUPTED: by an error or a user."""

    RUNNING = "running", "running"
    INTERRUPTED = "interrupted", "interrupted"
    DONE = "done", "done"


class RowState(models.TextChoices):
    """CHANGING: the previous values are stored, and the request to the broker is about to be sent or has been."""

    WAITING = "waiting", "waiting"
    CHANGING = "changing", "changing"
    DONE = "done", "done"
    UNCHANGED = "unchanged", "unchanged"
    FAILED = "failed", "failed"


class BulkEdit(LeasedRow):
    """`token_number`: of the API token with which it was begun; None: without one. `attributes`: policy fields for
    every queue; empty for an undo, whose rows have their own. `error`: why the job was interrupted."""

    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150)
    token_number = models.BigIntegerField(null=True)
    source_address = models.CharField(max_length=64, blank=True)
    broker = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    attributes = models.JSONField(default=dict)
    virtualhosts = models.JSONField(default=list, help_text="Those of its queues.")
    selection = models.JSONField(default=dict, help_text="The selection of queues, for people.")
    undo_of = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="undone_by")
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    error = models.TextField(blank=True)
    worker = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"bulk edit {self.pk} by {self.user_name}: {self.state}"

    def counts(self) -> dict[str, int]:
        """Return state -> number of rows."""
        found = dict(self.rows.values_list("state").annotate(Count("id")).order_by())
        return {state: found.get(state, 0) for state in RowState.values}


class BulkEditRow(models.Model):
    """One queue. `wanted`: its fields after the edit. `expected`: their required values before it; null: any."""

    edit = models.ForeignKey(BulkEdit, on_delete=models.CASCADE, related_name="rows")
    object = models.CharField(max_length=1024)
    wanted = models.JSONField()
    expected = models.JSONField(null=True)
    before = models.JSONField(null=True)
    state = models.CharField(max_length=16, choices=RowState.choices, default=RowState.WAITING)
    detail = models.TextField(blank=True)

    objects: ClassVar[models.Manager[BulkEditRow]] = models.Manager()

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        indexes = [models.Index(fields=["edit", "state", "id"], name="bulk_rows_by_state")]

    def __str__(self) -> str:
        return f"{self.object}: {self.state}"
