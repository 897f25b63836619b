"""Changes of what the console itself keeps (alerts, schedules): the rights are checked, one audit row is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError
from console.access.actor import Actor
from console.audit.models import AuditEntry, Outcome
from console.permissions.rights import Need, Rights, Role

#: What is needed: (slug of a broker, what of it).
Needs = Iterable[tuple[str, Need]]


def slugs() -> list[str]:
    return [entry["slug"] for entry in settings.HEADGATE_BROKERS]


def needs_of_scope(broker: str = "", virtualhost: str = "") -> list[tuple[str, Need]]:
    """To say what is told of a scope, or not told, one must be an operator of all of it; an empty `broker` or
    `virtualhost` is every one."""
    need = Need((Role.OPERATOR,), (virtualhost or None,))
    return [(slug, need) for slug in ([broker] if broker else slugs())]


def sees_scope(rights: Rights, broker: str = "", virtualhost: str = "") -> bool:
    """Whether somebody sees all of a scope."""
    wanted = [broker] if broker else slugs()
    return all(rights.may(Role.VIEWER, slug, virtualhost or None) for slug in wanted)


@dataclass
class Change:
    """What is known of a change so far, as the audit row will have it."""

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
    """`what`: what is changed, such as `alert-rule orders are stuck`. `administer`: what only administrators of
    everything may. `slug`, `virtualhost`: where the row of the audit trail belongs. Raises PermissionDenied; passes
    every error on after it has been recorded."""
    this = Change(what)
    outcome = Outcome.FAILED
    try:
        for broker, need in needs:
            by.check(broker, need, what)
        if administer and not by.rights.may_everywhere(Role.ADMIN):
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
