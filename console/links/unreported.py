"""Which brokers do not report blocked producers by queue: figures of those in the history are unknown, not 0.

Such a broker's queues have no attribute `blocked_producers` in its model, or its model is not known yet. Brokers that
this console does not have, such as those of imported logs, are not affected.
"""

from __future__ import annotations

from console.links.link import BrokerLink
from console.links.visible import visible_links
from console.permissions.rights import Rights


def brokers_without_producers(rights: Rights) -> tuple[str, ...]:
    """Return the slugs of the visible brokers that do not report the blocked producers of queues, or of which
    that is not known."""
    return tuple(link.slug for link in visible_links(rights) if not _reports(link))


def _reports(link: BrokerLink) -> bool:
    queues = link.types.get("Queue")
    return link.types_known and (queues is None or queues.attribute("blocked_producers") is not None)
