"""Visibility of alerts: by object; rules and silences only with permission for their whole scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from brokers.model import ObjectName
from console.alerts.models import Notification, Rule, Silence
from console.brokers.configured import slugs
from console.operations.console_changes import sees_scope
from console.permissions.rights import Rights, Role, host_of


def can_see_object(rights: Rights, broker: str, name: str) -> bool:
    return rights.allows(Role.VIEWER, broker, host_of(ObjectName.parse(name)))


def can_see_rule(rights: Rights, scope: Rule | Silence) -> bool:
    if isinstance(scope, Silence) and scope.rule is not None:
        return can_see_rule(rights, scope.rule)
    return sees_scope(rights, scope.broker, scope.virtualhost)


def can_see_receivers(rights: Rights) -> bool:
    """Return whether the user may see URLs and addresses: editing receivers requires an operator of all brokers."""
    return all(rights.allows(Role.OPERATOR, slug) for slug in slugs())


def visible_items(rights: Rights, notification: Notification) -> list[dict[str, Any]]:
    return [item for item in notification.items if can_see_object(rights, notification.broker, item["object"])]


def can_see_all(rights: Rights) -> bool:
    return sees_scope(rights)


def visible_notifications(rights: Rights, rows: Iterable[Notification]) -> Iterator[Notification]:
    """Yield notifications with a visible item; test messages only for users who can see all scopes."""
    for notification in rows:
        if visible_items(rights, notification) or (notification.phase == "test" and can_see_all(rights)):
            yield notification
