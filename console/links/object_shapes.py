"""The two JSON shapes of a managed object. Pure.

A row is flat, as tables, pages and the calls about queues have it. The calls about objects of any type have the
attributes apart from name and version, since a type may declare an attribute of either name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from brokers.admin import ManagedObject
from brokers.model import ObjectName


@lru_cache(maxsize=50_000)
def text_of(name: ObjectName) -> str:
    """The object name as text; the names of queues come by every second."""
    return str(name)


def row_of(thing: ManagedObject) -> dict[str, Any]:
    """`object` (its name as text), its attributes, `version`."""
    return {"object": text_of(thing.name), **thing.attributes, "version": thing.version}


def rows_of(things: Iterable[ManagedObject]) -> list[dict[str, Any]]:
    return [row_of(thing) for thing in things]


def object_of(thing: ManagedObject) -> dict[str, Any]:
    """`name` (as text), `version`, `attributes`."""
    return {"name": text_of(thing.name), "version": thing.version, "attributes": dict(thing.attributes)}
