"""Grants of roles to users and groups, and tokens that programs sign in with.

Only `console/access/administration.py` writes here, so that each change leaves its audit row.
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
            # One for each, since a null differs from every other null.
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
    """What a program signs in with instead of a person: never more than its owner may, and only what it was given.

    The secret is random, so its SHA-256 is as good as a slow hash of it, and can be looked up."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=40)
    digest = models.CharField(max_length=64, unique=True)
    begins = models.CharField(max_length=12, help_text="The beginning of the secret, to know it by.")
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
        """What it was given; what it may is that, as far as its owner may it."""
        known = {role.value for role in rights.Role}
        return rights.Rights.of(
            rights.Grant(rights.Role(role), broker, virtualhost)
            for role, broker, virtualhost in self.grants
            if role in known
        )

    @property
    def state(self) -> str:
        """usable, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires <= timezone.now() else "usable"


class OidcIdentity(models.Model):
    """Whom an OpenID Connect provider vouches for: its issuer and its subject, which is never another one's."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="oidc_identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    objects: ClassVar[models.Manager[OidcIdentity]] = models.Manager()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="oidc_subject_once")]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"
