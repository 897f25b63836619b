"""A bulk edit and its rows: what is wanted of each queue, what it was before, and what came of it.

Only `console/bulk/editing.py` writes here. A row tells what it was before it is changed, so that a job which was
interrupted at any moment can go on, and be undone.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Count

from console.leases.leased_row import LeasedRow


class State(models.TextChoices):
    """RUNNING: somebody works on it, or did until its lease ran out. INTERRUPTED: by an error or a person."""

    RUNNING = "running", "running"
    INTERRUPTED = "interrupted", "interrupted"
    DONE = "done", "done"


class RowState(models.TextChoices):
    """CHANGING: what it was before is kept, and the broker has been asked or is about to be."""

    WAITING = "waiting", "waiting"
    CHANGING = "changing", "changing"
    DONE = "done", "done"
    UNCHANGED = "unchanged", "unchanged"
    FAILED = "failed", "failed"


class BulkEdit(LeasedRow):
    """`attributes`: policy fields for every queue; of an undo empty, since each row has its own. `error`: why it was
    interrupted."""

    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150)
    source_address = models.CharField(max_length=64, blank=True)
    broker = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    attributes = models.JSONField(default=dict)
    virtualhosts = models.JSONField(default=list, help_text="Those of its queues.")
    selection = models.JSONField(default=dict, help_text="What was asked for, for people.")
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
        """State of rows -> how many there are."""
        found = dict(self.rows.values_list("state").annotate(Count("id")).order_by())
        return {state: found.get(state, 0) for state in RowState.values}


class BulkEditRow(models.Model):
    """One queue. `wanted`: its fields after the edit; `expected`: what they must be now, where that is asked for."""

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
