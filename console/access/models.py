"""Assignments of roles to users and groups, and API tokens.

Only `console/access/administration.py` writes them, so that each change is audited.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

from console.permissions import rights

ROLES = [(role.value, role.words) for role in rights.Role]


class RoleGrant(models.Model):
    """A role of either a user or a group. Its scope is as in `rights.Grant`."""

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
            # One constraint for each, since nulls are never equal.
            models.UniqueConstraint(fields=["user", "role", "broker", "virtualhost"], name="grant_once_to_user"),
            models.UniqueConstraint(fields=["group", "role", "broker", "virtualhost"], name="grant_once_to_group"),
        ]

    def __str__(self) -> str:
        return f"{self.holder}: {self.grant}"

    @property
    def holder(self) -> str:
        return f"group {self.group.name}" if self.group else f"user {self.user.get_username() if self.user else '?'}"

    @property
    def grant(self) -> rights.Grant:
        return rights.Grant(rights.Role(self.role), self.broker, self.virtualhost)


class ApiToken(models.Model):
    """An API token. Its permissions are its own grants, restricted to the current permissions of its owner.

    The secret is random, so SHA-256 is as secure as a slow hash, and can be looked up."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=40)
    digest = models.CharField(max_length=64, unique=True)
    begins = models.CharField(max_length=12, help_text="First characters of the secret, to recognize it.")
    grants = models.JSONField(help_text="Lists of role, broker and virtual host.")
    created = models.DateTimeField(auto_now_add=True)
    expires = models.DateTimeField()
    last_used = models.DateTimeField(null=True)
    revoked = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager[ApiToken]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name

    @property
    def limit(self) -> rights.Rights:
        """The token's own grants, which are an upper limit: its owner's permissions restrict them further."""
        known = {role.value for role in rights.Role}
        return rights.Rights.of(
            rights.Grant(rights.Role(role), broker, virtualhost)
            for role, broker, virtualhost in self.grants
            if role in known
        )

    @property
    def state(self) -> str:
        """State of the token: usable, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires <= timezone.now() else "usable"


class OidcIdentity(models.Model):
    """A user's identity at an OpenID Connect provider: issuer and subject, which is never reused."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="oidc_identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    objects: ClassVar[models.Manager[OidcIdentity]] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="oidc_subject_once")]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
