"""The two JSON shapes of a managed object. Pure.

Tables, pages and API calls about queues use flat rows. API calls about objects of any type separate the attributes
from name and version, since a type may declare attributes with these names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from brokers.admin import ManagedObject


def row_of(thing: ManagedObject) -> dict[str, Any]:
    """Return a flat row: `object` (the name as text), the attributes, `version`."""
    return {"object": str(thing.name), **thing.attributes, "version": thing.version}


def rows_of(things: Iterable[ManagedObject]) -> list[dict[str, Any]]:
    return [row_of(thing) for thing in things]


def object_of(thing: ManagedObject) -> dict[str, Any]:
    """Return {`name` (as text), `version`, `attributes`}."""
    return {"name": str(thing.name), "version": thing.version, "attributes": dict(thing.attributes)}
