"""The attribute `version`, which each managed type has: optimistic locking of updates."""

from __future__ import annotations

from brokers.model.declarations import Attribute, Kind

VERSION = Attribute(
    "version", Kind.INTEGER, "Number of the object's last change; a change made from another is refused."
)
