"""A named selection of queues of a broker: a filter, looked at anew each time, or queues by their names.

Only `console/operations/selections.py` writes here, so that each change leaves its audit row.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models


class SavedSelection(models.Model):
    """`queues`: texts of object names; null: whatever `search` and `states` find, as on the overview."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_selections")
    broker = models.CharField(max_length=64)
    name = models.CharField(max_length=80)
    shared = models.BooleanField(default=False)
    search = models.CharField(max_length=200, blank=True)
    states = models.JSONField(default=list)
    queues = models.JSONField(null=True)
    changed = models.DateTimeField(auto_now=True)

    objects: ClassVar[models.Manager[SavedSelection]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "broker", "name"], name="selection_once")]

    def __str__(self) -> str:
        return f"selection {self.name}"

    def told(self) -> dict[str, Any]:
        """What an audit row tells of it."""
        chosen = {"queues": self.queues} if self.queues is not None else {"search": self.search, "states": self.states}
        return {"name": self.name, "shared": self.shared, **chosen}
