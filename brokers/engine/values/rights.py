"""The permissions of a user, as a value: publish, consume and manage, per virtual host; or manage the whole broker.

A grant is written `VIRTUALHOST:RIGHT,RIGHT`, such as `default:publish,consume`; `*` stands for every virtual host, also
future ones. A user with `manage` sees and changes all objects of the virtual host. An administrator manages the broker
itself, its users, and every virtual host, but needs a grant to publish and consume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

PUBLISH, CONSUME, MANAGE = RIGHTS = ("publish", "consume", "manage")

#: Every virtual host.
EVERY = "*"

Grants = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Rights:
    """`grants`: virtual host (or `EVERY`) -> rights."""

    administrator: bool = False
    grants: Grants = field(default_factory=dict)

    def may(self, right: str, virtualhost: str) -> bool:
        """Return whether the user has this right. `virtualhost` "": the broker itself, which only administrators
        manage."""
        if right == MANAGE and self.administrator:
            return True
        here = self.grants.get(virtualhost, frozenset()) | self.grants.get(EVERY, frozenset())
        return bool(virtualhost) and right in here

    @property
    def manages_something(self) -> bool:
        return self.administrator or any(MANAGE in rights for rights in self.grants.values())

    def without(self, virtualhost: str) -> Rights:
        """Return the rights without those for a deleted virtual host."""
        return Rights(self.administrator, {host: given for host, given in self.grants.items() if host != virtualhost})

    def as_texts(self) -> list[str]:
        """Return the grants as texts, sorted by virtual host."""
        return [f"{host}:{','.join(r for r in RIGHTS if r in given)}" for host, given in sorted(self.grants.items())]


NO_RIGHTS = Rights()
ALL = Rights(administrator=True, grants={EVERY: frozenset(RIGHTS)})


def parse_grants(texts: Iterable[object], *, known: Callable[[str], bool] = lambda virtualhost: True) -> Grants:
    """Parse grants; several for one virtual host add up. `known`: whether there is such a virtual host. Raises
    ValueError with a sentence that names the wrong one."""
    grants: dict[str, frozenset[str]] = {}
    for text in texts:
        if not isinstance(text, str) or ":" not in text:
            raise ValueError(f"{text!r} is not a grant such as default:publish,consume")
        virtualhost, _, listed = text.rpartition(":")  # a virtual host's name may have a colon, a right has none
        rights = [right.strip() for right in listed.split(",")]
        if unknown := [right for right in rights if right not in RIGHTS]:
            raise ValueError(f"{text!r}: {unknown[0]!r} is not one of {', '.join(RIGHTS)}")
        if virtualhost != EVERY and not known(virtualhost):
            raise ValueError(f"{text!r}: there is no virtual host {virtualhost!r}")
        grants[virtualhost] = grants.get(virtualhost, frozenset()) | frozenset(rights)
    return grants
