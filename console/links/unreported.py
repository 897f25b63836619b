"""Which brokers do not report blocked producers by queue: figures of those in the history are unknown, not 0.

Such a broker's queues have no attribute `blocked_producers` in its model. Brokers that this console does not have, such
as those of imported logs, are not affected.
"""

from __future__ import annotations

from console.links.visible import visible_links
from console.permissions.rights import Rights


def brokers_without_producers(rights: Rights) -> tuple[str, ...]:
    """Return the slugs of the visible brokers that do not report the blocked producers of queues."""
    return tuple(
        link.slug
        for link in visible_links(rights)
        if (queues := link.types.get("Queue")) is not None and queues.attribute("blocked_producers") is None
    )
