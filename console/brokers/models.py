"""The table of the brokers that administrators added.

Only `console/operations/brokers.py` writes it, so that each change has an audit row.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from brokers.adapters.kinds import Account
from console.brokers.keys import decrypt


class ForeignBroker(models.Model):
    """`kind`: of `brokers/adapters/kinds.py`. `encrypted`: the password, see `keys.py`; never shown. `authority`: PEM
    text or path of a PEM file, "": the system's. `revision`: counts changes."""

    slug = models.SlugField(max_length=30, unique=True)
    title = models.CharField(max_length=80)
    kind = models.CharField(max_length=30)
    url = models.CharField(max_length=500)
    username = models.CharField(max_length=255, blank=True)
    encrypted = models.TextField(blank=True)
    authority = models.TextField(blank=True)
    tags = models.JSONField(default=list)
    paused = models.BooleanField(default=False)
    revision = models.PositiveIntegerField(default=1)
    changed = models.DateTimeField(auto_now=True)

    objects: ClassVar[models.Manager[ForeignBroker]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["title", "slug"]

    def __str__(self) -> str:
        return f"broker {self.slug}"

    def account(self) -> Account:
        """Return the address with the decrypted password. Raises KeyMissing."""
        return Account(self.url, self.username, decrypt(self.encrypted) if self.encrypted else "", self.authority)

    def for_audit(self) -> dict[str, Any]:
        """Return the values for an audit row: not the password."""
        return {
            "title": self.title,
            "kind": self.kind,
            "url": self.url,
            "username": self.username,
            "authority": self.authority,
            "tags": self.tags,
            "paused": self.paused,
        }
