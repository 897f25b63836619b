"""What a broker has left of its memory and store, for recommendations: from the attributes that its link has last
read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.links.visible import UnknownBroker, visible_link
from console.permissions.rights import Rights

if TYPE_CHECKING:
    from console.history.whatif.recommend import Room


def rooms_of(rights: Rights, slug: str) -> tuple[Room, ...]:
    """Return the room below each limit that the broker has; empty if the broker is not connected or not visible to the
    user."""
    from console.history.whatif.recommend import Room

    try:
        link = visible_link(rights, slug)
    except UnknownBroker:
        return ()
    attributes = link.broker if link.connected else None
    rooms = []
    for what in ("memory", "store"):
        limit, used = ((attributes or {}).get(f"{what}_{of}_bytes") for of in ("limit", "used"))
        if limit and used is not None:
            rooms.append(Room(what, float(limit) - float(used)))
    return tuple(rooms)
