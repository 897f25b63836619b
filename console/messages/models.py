"""Message jobs. Only `console/messages/jobs.py` writes this table.

`after` and `until` are the broker's cursor and mark: the next batch begins at `after`, and messages that arrived after
`until` are not touched. `unconfirmed` is written before a batch is sent and cleared with its counts, in one update, so
that a job whose worker was killed knows that its last batch may have been done.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from console.leases.leased_row import LeasedRow


class State(models.TextChoices):
    """RUNNING: owned by a worker, waiting, or stalled. INTERRUPTED: by an error or a user."""

    RUNNING = "running", "running"
    INTERRUPTED = "interrupted", "interrupted"
    DONE = "done", "done"


class MessageJob(LeasedRow):
    """`action`: of `console.operations.message_acts.ACTIONS`. `token_number`: of the API token with which it was begun;
    None: without one. `blocked`: why it waits. `error`: why it was interrupted. `waits`: consecutive attempts that did
    nothing. `at_least`: the counts may miss a batch. `depth`: that of the queue when it began, messages; None: not
    known. `searched`: a message that a blocked target refused is searched again."""

    created = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    user_name = models.CharField(max_length=150)
    token_number = models.BigIntegerField(null=True)
    source_address = models.CharField(max_length=64, blank=True)
    broker = models.CharField(max_length=64)
    virtualhost = models.CharField(max_length=255)
    object = models.CharField(max_length=1024)
    action = models.CharField(max_length=16)
    to = models.CharField(max_length=255, blank=True)
    match = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    error = models.TextField(blank=True)
    blocked = models.TextField(blank=True)
    waits = models.PositiveIntegerField(default=0)
    after = models.TextField(null=True)
    until = models.TextField(null=True)
    messages = models.BigIntegerField(default=0)
    bytes = models.BigIntegerField(default=0)
    skipped = models.BigIntegerField(default=0)
    depth = models.BigIntegerField(null=True)
    searched = models.BigIntegerField(default=0)
    unconfirmed = models.PositiveIntegerField(default=0)
    at_least = models.BooleanField(default=False)
    worker = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ()

    @property
    def percent(self) -> int | None:
        """The part of the depth that it has searched, percent, 100 only when it is done; None: not known. Messages that
        leave the queue meanwhile are not searched, so that it may end early."""
        if self.state == State.DONE:
            return 100
        if self.depth is None or self.searched > self.depth:
            return None
        return min(99, 100 * self.searched // self.depth) if self.depth else 0

    def __str__(self) -> str:
        return f"message job {self.pk} by {self.user_name}: {self.state}"
