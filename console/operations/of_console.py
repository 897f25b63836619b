"""Changes of what the console itself keeps (alerts, schedules): the permission is checked, one audit row is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import PermissionsMixin, User
from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError
from brokers.managed import object_name
from console.audit.models import AuditEntry, Outcome
from console.operations.actor import ADMINISTER, Actor

_BROKER = object_name("Broker")


def check_may_keep(by: Actor, slug: str = "") -> None:
    """Raises PermissionDenied unless this person may change alerts and schedules about that broker (empty: any). The
    one place that decides it."""
    by.check_may_change(_BROKER)


def check_administers(by: Actor, what: str) -> None:
    """Raises PermissionDenied unless this person is an administrator."""
    if not (isinstance(by.user, PermissionsMixin) and by.user.has_perm(ADMINISTER)):
        raise PermissionDenied(f"{by.name} may not {what}: that needs the role of administrator")


@dataclass
class Change:
    """What is known of a change so far, as the audit row will have it."""

    object: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: str = ""


@contextmanager
def console_change(
    by: Actor, what: str, operation: str, *, slug: str = "", reason: str = "", administer: str = ""
) -> Iterator[Change]:
    """`what`: what is changed, such as `alert-rule orders are stuck`. `administer`: only administrators may do that.
    Raises PermissionDenied; passes every error on after it has been recorded."""
    this = Change(what)
    outcome = Outcome.FAILED
    try:
        if administer:
            check_administers(by, administer)
        else:
            check_may_keep(by, slug)
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
            broker=slug or settings.HEADGATE_BROKERS[0]["slug"],
            object=this.object[:1024],
            operation=operation,
            reason=reason.strip(),
            before=None if this.before is None else dict(this.before),
            after=None if this.after is None else dict(this.after),
            outcome=outcome,
            detail=this.detail,
        )
