"""The only module that decides about permissions. Pure: grants in, yes or no out.

A grant is a role on a scope: a virtual host of a broker, a whole broker, or all brokers. The rights of a user are the
sum of the user's grants; those of a token are the intersection of its own and its owner's, so that a token loses a
permission with its owner.

`needed` returns what an action requires: roles, and the virtual hosts (or the broker as a whole) that it affects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from brokers.model import POLICY, TYPES, ObjectName


class Role(StrEnum):
    """VIEWER: read, but no bodies of messages. MESSAGE_READER: also these. PUBLISHER: also publish test messages.
    OPERATOR: also stop, start, purge, create and delete, and move messages. POLICY_EDITOR: also set limits and
    policies. ADMIN: all of these, and assign roles."""

    VIEWER = "viewer"
    MESSAGE_READER = "message-reader"
    PUBLISHER = "publisher"
    OPERATOR = "operator"
    POLICY_EDITOR = "policy-editor"
    ADMIN = "admin"

    @property
    def words(self) -> str:
        return "administrator" if self is Role.ADMIN else self.value.replace("-", " ")


_INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.MESSAGE_READER: frozenset({Role.VIEWER, Role.MESSAGE_READER}),
    Role.PUBLISHER: frozenset({Role.VIEWER, Role.PUBLISHER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.OPERATOR}),
    Role.POLICY_EDITOR: frozenset({Role.VIEWER, Role.POLICY_EDITOR}),
    Role.ADMIN: frozenset(Role),
}

#: Names of virtual hosts; None: all virtual hosts and the broker as a whole.
Hosts = frozenset[str] | None
_NO_HOST: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A role on a scope. `broker`: slug, "" for all brokers; `virtualhost`: name, "" for all and the broker as a
    whole."""

    role: Role
    broker: str = ""
    virtualhost: str = ""

    def includes(self, role: Role) -> bool:
        return role in _INCLUDED[self.role]

    def applies_to(self, broker: str) -> bool:
        return self.broker in ("", broker)

    @property
    def scope(self) -> str:
        """The scope in words, such as virtual host default of broker local."""
        where = f"broker {self.broker}" if self.broker else "every broker"
        return f"virtual host {self.virtualhost} of {where}" if self.virtualhost else where

    def __str__(self) -> str:
        return f"{self.role.words} of {self.scope}"


@dataclass(frozen=True, slots=True)
class Need:
    """What an action requires: all `roles` on all `hosts`, where None is the broker as a whole."""

    roles: tuple[Role, ...]
    hosts: tuple[str | None, ...]

    @property
    def host(self) -> str:
        """The virtual host of the action; "" for several or the broker as a whole."""
        return self.hosts[0] or "" if len(self.hosts) == 1 else ""


@dataclass(frozen=True, slots=True)
class Rights:
    """The permissions of a user or token."""

    grants: tuple[Grant, ...] = ()

    @classmethod
    def of(cls, grants: Iterable[Grant]) -> Rights:
        return cls(tuple(sorted(set(grants))))

    def hosts(self, role: Role, broker: str) -> Hosts:
        """Return the virtual hosts of a broker on which the role is granted; empty: none."""
        mine = [grant.virtualhost for grant in self.grants if grant.includes(role) and grant.applies_to(broker)]
        return None if "" in mine else frozenset(mine)

    def allows(self, role: Role, broker: str, virtualhost: str | None = None) -> bool:
        """Return whether the role is granted on a virtual host; None: on the broker as a whole."""
        hosts = self.hosts(role, broker)
        return hosts is None or (virtualhost is not None and virtualhost in hosts)

    def can_see(self, broker: str) -> bool:
        """Return whether any part of the broker is visible."""
        return self.hosts(Role.VIEWER, broker) != _NO_HOST

    def allows_everywhere(self, role: Role) -> bool:
        return any(grant.includes(role) and not grant.broker and not grant.virtualhost for grant in self.grants)

    def can_assign(self, grant: Grant) -> bool:
        """Return whether the grant may be assigned and revoked: by administrators, within their scope."""
        return any(g.includes(Role.ADMIN) and _covers(g, grant) for g in self.grants)

    def covers(self, grant: Grant) -> bool:
        """Return whether these rights include everything that the grant includes."""
        return all(any(g.includes(role) and _covers(g, grant) for g in self.grants) for role in _INCLUDED[grant.role])

    @property
    def can_assign_any(self) -> bool:
        """Whether any grant may be assigned."""
        return any(grant.includes(Role.ADMIN) for grant in self.grants)

    def missing(self, broker: str, need: Need) -> str:
        """Return the missing role and scope in words; "" if the action is permitted."""
        for role in need.roles:
            for host in need.hosts:
                if not self.allows(role, broker, host):
                    return f"the role of {role.words} for {f'virtual host {host}' if host else f'broker {broker}'}"
        return ""

    def intersection(self, limit: Rights) -> Rights:
        """Return the rights that both include."""
        found = {grant for mine in self.grants for other in limit.grants for grant in _common(mine, other)}
        return Rights.of(g for g in found if not any(_covers(o, g) and o.includes(g.role) for o in found - {g}))


def _covers(outer: Grant, inner: Grant) -> bool:
    return outer.broker in ("", inner.broker) and outer.virtualhost in ("", inner.virtualhost)


def _common(one: Grant, other: Grant) -> list[Grant]:
    if one.broker and other.broker and one.broker != other.broker:
        return []
    if one.virtualhost and other.virtualhost and one.virtualhost != other.virtualhost:
        return []
    broker, host = one.broker or other.broker, one.virtualhost or other.virtualhost
    both = _INCLUDED[one.role] & _INCLUDED[other.role]
    # The highest common roles include the others.
    most = [role for role in both if not any(role != other and role in _INCLUDED[other] for other in both)]
    return [Grant(role, broker, host) for role in most]


def host_of(name: ObjectName) -> str | None:
    """Return the virtual host of an object, or that it is; None for objects of the broker as a whole."""
    return name["name"] if name.type == "VirtualHost" else name.get("virtualhost") or None


_POLICY_FIELDS = frozenset(attribute.name for attribute in POLICY)
_POLICIES = frozenset({"Policy", "SlowConsumerPolicy"})


def needed(name: ObjectName, operation: str, arguments: Mapping[str, Any] | None = None) -> Need:
    """Return what is required to `create`, `update` or `delete` an object, or to call one of its operations.
    `arguments`: the attributes, or the arguments of the operation."""
    given = arguments or {}
    hosts: tuple[str | None, ...] = (host_of(name),)
    if name.type == "User":
        # Editing users allows gaining all other permissions.
        return Need((Role.ADMIN,), (None,))
    if name.type == "VirtualHost" and (given.get("anonymous") or (operation == "update" and "anonymous" in given)):
        # It controls who can connect.
        return Need((Role.ADMIN,), hosts if operation == "update" else (None,))
    if operation == "update":
        return Need((Role.POLICY_EDITOR,), hosts)
    if operation in ("create", "delete"):
        if name.type in _POLICIES:
            return Need((Role.POLICY_EDITOR,), hosts)
        limits = any(field in _POLICY_FIELDS for field in given)
        roles = (Role.OPERATOR, Role.POLICY_EDITOR) if limits else (Role.OPERATOR,)
        # Creating and deleting virtual hosts requires the role for the whole broker.
        return Need(roles, (None,) if name.type == "VirtualHost" else hosts)
    declared = TYPES[name.type].operation(operation)
    if declared is not None and declared.role:
        return Need((_role_of(declared.role),), hosts)
    if declared is not None and declared.effect == "read":
        return Need((Role.VIEWER,), hosts)
    queues = given.get("queues")
    if name.type == "Broker" and isinstance(queues, list | tuple):
        # With named queues, the operation affects these and not the whole broker.
        hosts = tuple(sorted({_host_in(text) for text in queues}, key=lambda host: host or "")) or (None,)
    return Need((Role.OPERATOR,), hosts)


def _role_of(declared: str) -> Role:
    """Return the role that an operation declares; ADMIN for one that this console does not know."""
    return Role(declared) if declared in set(Role) else Role.ADMIN


def _host_in(text: object) -> str | None:
    try:
        return host_of(ObjectName.parse(str(text)))
    except ValueError:
        return None
