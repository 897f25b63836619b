"""Grants of roles to users and groups, and tokens that programs sign in with.

Only `console/operations/access.py` writes here, so that each change leaves its audit row.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from console.access import rights

ROLES = [(role.value, role.words) for role in rights.Role]


class RoleGrant(models.Model):
    """A role for a user or for a group, one of them. Scope as `rights.Grant` has it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="role_grants")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, related_name="role_grants")
    role = models.CharField(max_length=16, choices=ROLES)
    broker = models.CharField(max_length=64, blank=True)
    virtualhost = models.CharField(max_length=255, blank=True)

    objects: ClassVar[models.Manager[RoleGrant]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["group__name", "user__username", "broker", "virtualhost", "role"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=True, group__isnull=False)
                | models.Q(user__isnull=False, group__isnull=True),
                name="grant_to_one",
            ),
            models.UniqueConstraint(
                fields=["user", "group", "role", "broker", "virtualhost"],
                name="grant_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.holder}: {self.grant}"

    @property
    def holder(self) -> str:
        return f"group {self.group.name}" if self.group else f"user {self.user.get_username() if self.user else '?'}"

    @property
    def grant(self) -> rights.Grant:
        return rights.Grant(rights.Role(self.role), self.broker, self.virtualhost)
