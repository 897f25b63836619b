"""Changes of the console's own objects (role assignments, selections): each attempt writes one audit entry.

`console/operations/attempt.py` is the same for changes of a broker's objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.permissions.rights import Grant, Role


@dataclass
class Change:
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""
    scope: Grant = field(default_factory=lambda: Grant(Role.ADMIN))


@contextmanager
def audited(by: Actor, what: str, operation: str, *, reason: str = "", scope: Grant | None = None) -> Iterator[Change]:
    """Write an audit entry about the block, whatever its outcome. `what`: the object in words; `scope`: users with a
    role in this scope may read the entry; None: administrators of all brokers."""
    row, outcome = Change(scope=scope or Grant(Role.ADMIN)), Outcome.FAILED
    try:
        yield row
        outcome = Outcome.DONE
    except (PermissionDenied, AdminError) as error:
        outcome, row.detail = Outcome.REFUSED, str(error)
        raise
    finally:
        AuditEntry(
            user=by.user if isinstance(by.user, User) else None,
            user_name=by.name,
            source_address=by.address,
            broker=row.scope.broker,
            virtualhost=row.scope.virtualhost,
            object=what[:1024],
            operation=operation,
            reason=reason.strip(),
            before=row.before,
            after=row.after,
            outcome=outcome,
            detail=row.detail,
        ).save()
