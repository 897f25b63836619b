"""Changes to the console's own objects (alerts, schedules): check the permission, and write one audit row, in the same
transaction as the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypedDict, Unpack

from django.core.exceptions import PermissionDenied

from console.access.actor import Actor
from console.access.audited_changes import Change, recording
from console.brokers.configured import slugs
from console.permissions.rights import Need, Rights, Role

__all__ = ["Change", "Needs", "console_attempt", "console_change", "needs_of_scope", "sees_scope"]

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


class About(TypedDict, total=False):
    """`administer`: the action, if it requires an administrator of all brokers. `slug`, `virtualhost`: scope of the
    audit row; without a broker, it is of the console as a whole."""

    administer: str
    slug: str
    virtualhost: str
    reason: str


@contextmanager
def console_attempt(
    by: Actor, what: str, operation: str, needs: Needs = (), **about: Unpack[About]
) -> Iterator[Change]:
    """As `console_change`, for blocks that do more than change the database: these make their changes of it in a
    `Change.transaction`."""
    slug, administer = about.get("slug", ""), about.get("administer")
    broker = slug if slug in slugs() else ""
    change = Change(by, what, operation, about.get("reason", ""), broker, about.get("virtualhost", ""))
    with recording(change) as this:
        for where, need in needs:
            by.check(where, need, what)
        if administer and not by.rights.allows_everywhere(Role.ADMIN):
            raise PermissionDenied(f"{by.name} may not {administer}: that needs the role of administrator everywhere")
        yield this


@contextmanager
def console_change(by: Actor, what: str, operation: str, needs: Needs = (), **about: Unpack[About]) -> Iterator[Change]:
    """Check the permission, run the block, and write the audit row in the same transaction. `what`: the changed object,
    such as `alert-rule stuck orders`. Raises PermissionDenied; re-raises every error of the block after it has been
    recorded."""
    with console_attempt(by, what, operation, needs, **about) as this, this.transaction():
        yield this
