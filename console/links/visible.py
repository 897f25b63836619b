"""The links that a user may see: code that answers requests gets its links from here.

`console/links/registry.py` has the unrestricted links, for code that acts for the console and not for a user.
"""

from __future__ import annotations

from console.links.link import BrokerLink
from console.links.registry import UnknownBroker, link, links
from console.links.visibility import as_visible
from console.permissions.rights import Rights, Role

__all__ = ["UnknownBroker", "visible_link", "visible_links"]


def visible_links(rights: Rights) -> list[BrokerLink]:
    """Return the links of all brokers of which the user sees a part, restricted to that; the default one first."""
    return [as_visible(each, rights.hosts(Role.VIEWER, each.slug)) for each in links() if rights.can_see(each.slug)]


def visible_link(rights: Rights, slug: str = "") -> BrokerLink:
    """Return the link of one broker, restricted to what the user sees; no slug: the first visible one. Raises
    UnknownBroker, also for a broker that the user does not see."""
    if not slug:
        found = visible_links(rights)
        if not found:
            raise UnknownBroker("no broker is visible to you")
        return found[0]
    if not rights.can_see(slug):
        slugs = ", ".join(each.slug for each in visible_links(rights))
        raise UnknownBroker(f"unknown broker {slug!r}: visible are {slugs}")
    return as_visible(link(slug), rights.hosts(Role.VIEWER, slug))
