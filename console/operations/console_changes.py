"""Changes to the console's own objects (alerts, schedules): check the permission, and write one audit row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.brokers.configured import slugs
from console.permissions.rights import Need, Rights, Role

#: Required permissions: (slug of a broker, permission at that broker).
Needs = Iterable[tuple[str, Need]]


def needs_of_scope(broker: str = "", virtualhost: str = "") -> list[tuple[str, Need]]:
    """Return the permissions to configure alerts of a scope: operator of all of it. An empty `broker` or `virtualhost`
    means all."""
    need = Need((Role.OPERATOR,), (virtualhost or None,))
    return [(slug, need) for slug in ([broker] if broker else slugs())]


def sees_scope(rights: Rights, broker: str = "", virtualhost: str = "") -> bool:
    """Return whether `rights` include visibility of a whole scope."""
    wanted = [broker] if broker else slugs()
    return all(rights.allows(Role.VIEWER, slug, virtualhost or None) for slug in wanted)


@dataclass
class Change:
    """A change in progress, with the values for its audit row."""

    object: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""


@contextmanager
def console_change(
    by: Actor,
    what: str,
    operation: str,
    needs: Needs = (),
    *,
    administer: str = "",
    slug: str = "",
    virtualhost: str = "",
    reason: str = "",
) -> Iterator[Change]:
    """Check the permission, run the block, and write the audit row. `what`: the changed object, such as `alert-rule
    stuck orders`. `administer`: the action, if it requires an administrator of all brokers. `slug`, `virtualhost`:
    scope of the audit row. Raises PermissionDenied; re-raises every error of the block after it has been recorded."""
    this = Change(what)
    outcome = Outcome.FAILED
    try:
        for broker, need in needs:
            by.check(broker, need, what)
        if administer and not by.rights.allows_everywhere(Role.ADMIN):
            raise PermissionDenied(f"{by.name} may not {administer}: that needs the role of administrator everywhere")
        yield this
        outcome = Outcome.DONE
    except (PermissionDenied, AdminError) as error:
        outcome = Outcome.REFUSED
        this.detail = f"{error} {this.detail}".strip()
        raise
    except Exception as error:
        this.detail = f"{type(error).__name__}: {error}"
        raise
    finally:
        AuditEntry.objects.create(
            user=by.user if isinstance(by.user, User) else None,
            user_name=by.name,
            source_address=by.address,
            broker=slug if slug in slugs() else slugs()[0],
            virtualhost=virtualhost[:255],
            object=this.object[:1024],
            operation=operation,
            reason=reason.strip(),
            before=None if this.before is None else dict(this.before),
            after=None if this.after is None else dict(this.after),
            outcome=outcome,
            detail=this.detail,
        )
