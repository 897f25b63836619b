"""The brokers as users may see them: the one place from which the code that answers requests gets links.

`console/links/registry.py` has the links themselves, for code that acts for the console and not for a user.
"""

from __future__ import annotations

from console.links.link import BrokerLink
from console.links.registry import UnknownBroker, link, links
from console.links.visibility import as_visible
from console.permissions.rights import Rights, Role

__all__ = ["UnknownBroker", "visible_link", "visible_links"]


def visible_links(rights: Rights) -> list[BrokerLink]:
    """Every broker that they see any of, each as far as they see it; the default one first."""
    return [as_visible(each, rights.hosts(Role.VIEWER, each.slug)) for each in links() if rights.sees(each.slug)]


def visible_link(rights: Rights, slug: str = "") -> BrokerLink:
    """One broker; no slug: the first one that they see. Raises UnknownBroker for one that they do not see, as for one
    that is not there."""
    if not slug:
        found = visible_links(rights)
        if not found:
            raise UnknownBroker("there is no broker that you may see")
        return found[0]
    if not rights.sees(slug):
        known = ", ".join(each.slug for each in visible_links(rights))
        raise UnknownBroker(f"there is no broker {slug!r}: there is {known}")
    return as_visible(link(slug), rights.hosts(Role.VIEWER, slug))
