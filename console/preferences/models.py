"""The stored preferences of a user: only what differs from the defaults.

They change how this user's pages look, for no other user, so that changes are not in the audit trail.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models


class UserPreferences(models.Model):
    """`values`: name -> value, as `choices.py` describes."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preferences"
    )
    values = models.JSONField(default=dict)

    objects: ClassVar[models.Manager[UserPreferences]] = models.Manager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"preferences of user {self.pk}"
