"""Who may do what, decided here and nowhere else. Pure: grants in, yes or no out.

A grant gives a role on a scope: a virtual host of a broker, a whole broker, or everything. Rights are the sum of
somebody's grants; a token's are what its owner's and its own have in common, so that no token outlives a right.

What an action needs is told by `needed`: roles, and the virtual hosts (or the broker as a whole) that it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from brokers.model import POLICY, TYPES, ObjectName


class Role(StrEnum):
    """VIEWER sees. OPERATOR also acts: stops, starts, purges, creates and deletes. POLICY_EDITOR also sets limits and
    policies. ADMIN may all that, and says who may do what."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    POLICY_EDITOR = "policy-editor"
    ADMIN = "admin"

    @property
    def words(self) -> str:
        return "administrator" if self is Role.ADMIN else self.value.replace("-", " ")


_INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.OPERATOR}),
    Role.POLICY_EDITOR: frozenset({Role.VIEWER, Role.POLICY_EDITOR}),
    Role.ADMIN: frozenset(Role),
}

#: Names of virtual hosts; None: all of them, and the broker itself.
Hosts = frozenset[str] | None
_NO_HOST: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """`broker`: its slug, "" for every broker; `virtualhost`: its name, "" for every one and the broker as a whole."""

    role: Role
    broker: str = ""
    virtualhost: str = ""

    def gives(self, role: Role) -> bool:
        return role in _INCLUDED[self.role]

    def reaches(self, broker: str) -> bool:
        return self.broker in ("", broker)

    @property
    def scope(self) -> str:
        """The scope in words."""
        where = f"broker {self.broker}" if self.broker else "every broker"
        return f"virtual host {self.virtualhost} of {where}" if self.virtualhost else where

    def __str__(self) -> str:
        return f"{self.role.words} of {self.scope}"


@dataclass(frozen=True, slots=True)
class Need:
    """What an action needs: every one of `roles` on every one of `hosts`, of which None is the broker as a whole."""

    roles: tuple[Role, ...]
    hosts: tuple[str | None, ...]

    @property
    def host(self) -> str:
        """The virtual host that the action is about, if it is about one; else ""."""
        return self.hosts[0] or "" if len(self.hosts) == 1 else ""


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may."""

    grants: tuple[Grant, ...] = ()

    @classmethod
    def of(cls, grants: Iterable[Grant]) -> Rights:
        return cls(tuple(sorted(set(grants))))

    def hosts(self, role: Role, broker: str) -> Hosts:
        """The virtual hosts of a broker on which they have the role; empty: none."""
        mine = [grant.virtualhost for grant in self.grants if grant.gives(role) and grant.reaches(broker)]
        return None if "" in mine else frozenset(mine)

    def may(self, role: Role, broker: str, virtualhost: str | None = None) -> bool:
        """None: on the broker as a whole."""
        hosts = self.hosts(role, broker)
        return hosts is None or (virtualhost is not None and virtualhost in hosts)

    def sees(self, broker: str) -> bool:
        """Whether they see any of it."""
        return self.hosts(Role.VIEWER, broker) != _NO_HOST

    def may_everywhere(self, role: Role) -> bool:
        return any(grant.gives(role) and not grant.broker and not grant.virtualhost for grant in self.grants)

    def may_give(self, grant: Grant) -> bool:
        """Whether they may give or take that grant: administrators do, within their own scope."""
        return any(g.gives(Role.ADMIN) and _covers(g, grant) for g in self.grants)

    def hold(self, grant: Grant) -> bool:
        """Whether all that this grant gives is theirs."""
        return all(any(g.gives(role) and _covers(g, grant) for g in self.grants) for role in _INCLUDED[grant.role])

    @property
    def administers(self) -> bool:
        """Whether there is any grant that they may give."""
        return any(grant.gives(Role.ADMIN) for grant in self.grants)

    def missing(self, broker: str, need: Need) -> str:
        """What they lack of what is needed, in words; "" if they may."""
        for role in need.roles:
            for host in need.hosts:
                if not self.may(role, broker, host):
                    return f"the role of {role.words} for {f'virtual host {host}' if host else f'broker {broker}'}"
        return ""

    def within(self, limit: Rights) -> Rights:
        """What both allow."""
        found = {grant for mine in self.grants for other in limit.grants for grant in _common(mine, other)}
        return Rights.of(g for g in found if not any(_covers(o, g) and o.gives(g.role) for o in found - {g}))


def _covers(outer: Grant, inner: Grant) -> bool:
    return outer.broker in ("", inner.broker) and outer.virtualhost in ("", inner.virtualhost)


def _common(one: Grant, other: Grant) -> list[Grant]:
    if one.broker and other.broker and one.broker != other.broker:
        return []
    if one.virtualhost and other.virtualhost and one.virtualhost != other.virtualhost:
        return []
    broker, host = one.broker or other.broker, one.virtualhost or other.virtualhost
    both = _INCLUDED[one.role] & _INCLUDED[other.role]
    # The highest of the roles that both include say the rest.
    most = [role for role in both if not any(role != other and role in _INCLUDED[other] for other in both)]
    return [Grant(role, broker, host) for role in most]


def host_of(name: ObjectName) -> str | None:
    """The virtual host that an object is in, or is; None for what belongs to the broker as a whole."""
    return name["name"] if name.type == "VirtualHost" else name.get("virtualhost") or None


_POLICY_FIELDS = frozenset(attribute.name for attribute in POLICY)
_POLICIES = frozenset({"Policy", "SlowConsumerPolicy"})


def needed(name: ObjectName, operation: str, arguments: Mapping[str, Any] | None = None) -> Need:
    """What it takes to `create`, `update` or `delete` that object, or to call one of its operations. `arguments`:
    attributes or arguments."""
    given = arguments or {}
    hosts: tuple[str | None, ...] = (host_of(name),)
    if name.type == "User":
        # Whoever may change these could give themselves everything else.
        return Need((Role.ADMIN,), (None,))
    if name.type == "VirtualHost" and (given.get("anonymous") or (operation == "update" and "anonymous" in given)):
        # It says who gets in.
        return Need((Role.ADMIN,), hosts if operation == "update" else (None,))
    if operation == "update":
        return Need((Role.POLICY_EDITOR,), hosts)
    if operation in ("create", "delete"):
        if name.type in _POLICIES:
            return Need((Role.POLICY_EDITOR,), hosts)
        limits = any(field in _POLICY_FIELDS for field in given)
        roles = (Role.OPERATOR, Role.POLICY_EDITOR) if limits else (Role.OPERATOR,)
        # Virtual hosts come and go with the say of who has the broker.
        return Need(roles, (None,) if name.type == "VirtualHost" else hosts)
    declared = TYPES[name.type].operation(operation)
    if declared is not None and declared.effect == "read":
        return Need((Role.VIEWER,), hosts)
    queues = given.get("queues")
    if name.type == "Broker" and isinstance(queues, list | tuple):
        # Queues that are named one by one: it touches them, and not the broker.
        hosts = tuple(sorted({_host_in(text) for text in queues}, key=lambda host: host or "")) or (None,)
    return Need((Role.OPERATOR,), hosts)


def _host_in(text: object) -> str | None:
    try:
        return host_of(ObjectName.parse(str(text)))
    except ValueError:
        return None
