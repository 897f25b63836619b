"""Which queues the scopes of stops cover. Pure.

A request can name thousands of queues, each of which is a scope: those are looked up, and only a wide scope walks all
queues. All of this runs in the event loop that polls every broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from brokers.admin import NotFound
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName


def covered_by(scopes: Iterable[Scope], objects: Collection[ObjectName]) -> dict[Scope, list[ObjectName]]:
    """Return the queues that each scope covers. `objects`: all that there are, in which a name is quickly looked up.
    Raises NotFound for a named queue that is not there."""
    found: dict[Scope, list[ObjectName]] = {}
    queues: list[ObjectName] | None = None
    for scope in scopes:
        if scope.queue:
            if scope.object not in objects:
                raise NotFound(f"there is no {scope.object}")
            found[scope] = [scope.object]
            continue
        if queues is None:
            queues = [name for name in objects if name.type == "Queue"]
        found[scope] = [name for name in queues if scope.covers(name["virtualhost"], name["name"])]
    return found


def within(scope: Scope, queues: Collection[ObjectName]) -> list[ObjectName]:
    """Return those of the queues that a scope covers."""
    if scope.queue:
        return [scope.object] if scope.object in queues else []
    return [name for name in queues if scope.covers(name["virtualhost"], name["name"])]
