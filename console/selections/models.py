"""A saved selection of queues of a broker: a filter, evaluated on each use, or a list of names.

Only `console/operations/selections.py` writes this table, so that each change has an audit row.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models


class SavedSelection(models.Model):
    """`queues`: texts of object names; null: the queues that match the filter, as on the overview: `search`,
    `states`, of which a queue has one, and the quick filters `only`, all of which it matches."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_selections")
    broker = models.CharField(max_length=64)
    name = models.CharField(max_length=80)
    shared = models.BooleanField(default=False)
    search = models.CharField(max_length=200, blank=True)
    states = models.JSONField(default=list)
    only = models.JSONField(default=list)
    queues = models.JSONField(null=True)
    changed = models.DateTimeField(auto_now=True)

    objects: ClassVar[models.Manager[SavedSelection]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "broker", "name"], name="selection_once")]

    def __str__(self) -> str:
        return f"selection {self.name}"

    def for_audit(self) -> dict[str, Any]:
        """Return the values for an audit row."""
        chosen = {"search": self.search, "states": self.states, "only": self.only}
        if self.queues is not None:
            chosen = {"queues": self.queues}
        return {"name": self.name, "shared": self.shared, **chosen}
