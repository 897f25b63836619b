"""Check the permissions for several changes before the first one is made, so that no file is applied in part.

Each change checks its own again (`attempt.py`): a permission can be revoked while the changes are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied

from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.audit.models import Outcome
from console.operations.attempt import happened
from console.permissions.rights import Need, needed

#: What a change does: object, operation, attributes.
Wanted = tuple[ObjectName, str, Mapping[str, Any]]

#: Objects of one missing permission that an error and an audit row name.
_NAMED = 20


def check_permissions(by: Actor, broker: str, changes: Sequence[Wanted], *, reason: str = "") -> None:
    """Raise PermissionDenied, which names each object and what is missing, unless the user may make all changes. Each
    missing permission has one refused audit row. `broker`: slug."""
    rights = by.rights
    refused: dict[str, tuple[Need, list[ObjectName]]] = {}
    for name, operation, attributes in changes:
        need = needed(name, operation, attributes)
        if missing := rights.missing(broker, need):
            refused.setdefault(missing, (need, []))[1].append(name)
    if not refused:
        return
    sentences = []
    for missing, (need, objects) in refused.items():
        sentences.append(f"{_listed(objects)}: needs {missing}")
        error = f"{by.name} may not make {_number(len(objects))}, so nothing was changed: {sentences[-1]}"
        scope = objects[0] if len(objects) == 1 else _scope(need)
        happened(by, broker, scope, "update", reason=reason, detail="", outcome=Outcome.REFUSED, error=error, need=need)
    count = sum(len(objects) for _, objects in refused.values())
    of_all = f"{count:,} of {_number(len(changes))}" if len(changes) > 1 else "the change"
    raise PermissionDenied(f"{by.name} may not make {of_all}, so nothing was changed: {'; '.join(sentences)}")


def _scope(need: Need) -> ObjectName:
    return object_name("VirtualHost", name=need.host) if need.host else object_name("Broker")


def _number(count: int) -> str:
    return "1 change" if count == 1 else f"{count:,} changes"


def _listed(objects: Sequence[ObjectName]) -> str:
    more = len(objects) - _NAMED
    return ", ".join(map(str, objects[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
