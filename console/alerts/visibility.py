"""What people see of alerts: of each object that they may see, and of rules and silences whose whole scope they see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from brokers.model import ObjectName
from console.alerts.models import Notification, Rule, Silence
from console.operations.console_changes import sees_scope, slugs
from console.permissions.rights import Rights, Role, host_of


def can_see_object(rights: Rights, broker: str, name: str) -> bool:
    return rights.may(Role.VIEWER, broker, host_of(ObjectName.parse(name)))


def can_see_rule(rights: Rights, scope: Rule | Silence) -> bool:
    if isinstance(scope, Silence) and scope.rule is not None:
        return can_see_rule(rights, scope.rule)
    return sees_scope(rights, scope.broker, scope.virtualhost)


def can_see_receivers(rights: Rights) -> bool:
    """Whether URLs and addresses are theirs to see: who may change receivers must be an operator everywhere."""
    return all(rights.may(Role.OPERATOR, slug) for slug in slugs())


def visible_items(rights: Rights, told: Notification) -> list[dict[str, Any]]:
    return [item for item in told.items if can_see_object(rights, told.broker, item["object"])]


def can_see_all(rights: Rights) -> bool:
    return sees_scope(rights)


def visible_notifications(rights: Rights, rows: Iterable[Notification]) -> Iterator[Notification]:
    """Notifications that tell something that they see; tests, whoever sees everything."""
    for told in rows:
        if visible_items(rights, told) or (told.phase == "test" and can_see_all(rights)):
            yield told
