"""The audit entry of what an actor did: who, and from where, as every entry records it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from console.access.actor import Actor
from console.audit.models import AuditEntry


def entry_of(by: Actor, *, reason: str = "", **values: Any) -> AuditEntry:
    """Return an entry that is not saved yet. `values`: its other columns."""
    user = by.user if isinstance(by.user, User) and by.user.pk else None
    return AuditEntry(user=user, user_name=by.name, source_address=by.address, reason=reason.strip(), **values)
