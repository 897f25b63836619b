"""The brokers of a fleet, as a user sees them: each with its link and what the console knows of it besides."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from console.brokers.configured import configured
from console.links.link import BrokerLink
from console.links.state import CONNECTING
from console.links.visible import UnknownBroker, visible_links
from console.permissions.rights import Rights

#: States of the connection to a broker.
STATES = ("connected", "connecting", "disconnected", "paused")


@dataclass(frozen=True, slots=True)
class Member:
    """`link`: restricted to what the user sees. `kind`: of broker. `tags`: in the order in which they were given.
    `paused`: an administrator has suspended the connection."""

    link: BrokerLink
    kind: str = "headgate"
    tags: tuple[str, ...] = ()
    paused: bool = False

    @property
    def slug(self) -> str:
        return self.link.slug

    @property
    def title(self) -> str:
        return self.link.title

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.paused:
            return "paused"
        status = self.link.status
        if status.connected:
            return "connected"
        return "connecting" if self.link.as_of is None and status.error == CONNECTING else "disconnected"


@dataclass(frozen=True, slots=True)
class MemberFilter:
    """Which brokers: slugs, tags and kinds. A broker matches if it has one of each of those that are given."""

    brokers: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def matching(self, members: Iterable[Member]) -> list[Member]:
        return [
            member
            for member in members
            if (not self.brokers or member.slug in self.brokers)
            and (not self.tags or not self.tags.isdisjoint(member.tags))
            and (not self.kinds or member.kind in self.kinds)
        ]

    def check(self, members: Collection[Member]) -> None:
        """Raise UnknownBroker for the slug of a broker that is not among them."""
        slugs = [member.slug for member in members]
        for slug in sorted(self.brokers):
            if slug not in slugs:
                raise UnknownBroker(f"unknown broker {slug!r}: visible are {', '.join(slugs)}")


def members_of(rights: Rights) -> list[Member]:
    """Return all brokers that the user sees, in the order of the configuration."""
    entries = {entry["slug"]: entry for entry in configured()}
    found = []
    for link in visible_links(rights):
        entry = entries.get(link.slug, {})
        kind, tags = entry.get("kind", "headgate"), tuple(entry.get("tags", ()))
        found.append(Member(link, kind, tags, bool(entry.get("paused", False))))
    return found
