"""The brokers as people may see them: the one place where whoever answers a request gets links from.

`console/brokers.py` has the links themselves, for those who act for the console and not for somebody.
"""

from __future__ import annotations

from console.access.rights import Rights, Role
from console.brokers import UnknownBroker, link, links
from console.links.link import BrokerLink
from console.links.seen import seen_by

__all__ = ["UnknownBroker", "link_seen", "links_seen"]


def links_seen(rights: Rights) -> list[BrokerLink]:
    """Every broker that they see any of, each as far as they see it; the default one first."""
    return [seen_by(each, rights.hosts(Role.VIEWER, each.slug)) for each in links() if rights.sees(each.slug)]


def link_seen(rights: Rights, slug: str = "") -> BrokerLink:
    """One broker; no slug: the first one that they see. Raises UnknownBroker for one that they do not see, as for one
    that is not there."""
    if not slug:
        found = links_seen(rights)
        if not found:
            raise UnknownBroker("there is no broker that you may see")
        return found[0]
    if not rights.sees(slug):
        known = ", ".join(each.slug for each in links_seen(rights))
        raise UnknownBroker(f"there is no broker {slug!r}: there is {known}")
    return seen_by(link(slug), rights.hosts(Role.VIEWER, slug))
