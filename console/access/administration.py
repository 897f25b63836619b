"""Administration of access: role assignments, users, groups and tokens. Each attempt is audited, also if it is refused.

Administrators assign and revoke roles within their own scope. Users, groups and passwords require an administrator of
all brokers, since setting a password allows signing in with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.input_checks import label_fault
from console.access.actor import Actor
from console.access.audited_changes import attempted, audited
from console.access.models import ApiToken, RoleGrant
from console.access.tokens import digest_of, new_secret, visible_prefix
from console.permissions.rights import Grant, Rights, Role

#: Longest validity of a token, in days; longest name, in characters.
LONGEST, LONGEST_TOKEN_NAME = 366, 40


def _check_full_administrator(by: Actor) -> None:
    if not by.rights.allows_everywhere(Role.ADMIN):
        raise PermissionDenied(f"{by.name} may not do that: it needs the role of administrator for every broker")


def _check_can_assign(by: Actor, grant: Grant) -> None:
    if not by.rights.can_assign(grant):
        raise PermissionDenied(f"{by.name} may not assign or revoke {grant}: that needs the role of administrator")


def _has_full_administrator() -> bool:
    """Return whether there is an active administrator of all brokers."""
    grant = {"role": Role.ADMIN.value, "broker": "", "virtualhost": ""}
    direct, by_group = (
        {f"{way}__{key}": value for key, value in grant.items()} for way in ("role_grants", "groups__role_grants")
    )
    administers = Q(is_superuser=True) | Q(**direct) | Q(**by_group)
    return User.objects.filter(administers, is_active=True).exists()


@contextmanager
def _keeping_an_administrator() -> Iterator[None]:
    """Roll back and raise InvalidValue if the block removes the last active administrator of all brokers."""
    before = _has_full_administrator()
    with transaction.atomic():
        yield
        if before and not _has_full_administrator():
            raise InvalidValue(
                {
                    "administrator": "this would leave no active administrator of every broker, and so no user who"
                    " could assign the role again: assign it to another user first"
                }
            )


# -- grants -----------------------------------------------------------------------------------------------------------


def assign_role(by: Actor, holder: User | Group, grant: Grant, *, reason: str = "") -> RoleGrant:
    """Assign a role to a user or group. Raises PermissionDenied, AlreadyExists, InvalidValue."""
    who = _holder(holder)
    with audited(by, who, "give-role", reason=reason, scope=grant) as row:
        _check_can_assign(by, grant)
        if grant.virtualhost and not grant.broker:
            raise InvalidValue(
                {"broker": "give the broker of the virtual host: other brokers may have one of the same name"}
            )
        key = {"user": holder} if isinstance(holder, User) else {"group": holder}
        made, new = RoleGrant.objects.get_or_create(
            **key, role=grant.role.value, broker=grant.broker, virtualhost=grant.virtualhost
        )
        if not new:
            raise AlreadyExists(f"{who} already has the role of {grant}")
        row.after = {"role": str(grant)}
        return made


def revoke_role(by: Actor, assignment: RoleGrant, *, reason: str = "") -> None:
    """Revoke a role. Raises PermissionDenied, and InvalidValue for the last administrator."""
    with audited(by, assignment.holder, "take-role", reason=reason, scope=assignment.grant) as row:
        _check_can_assign(by, assignment.grant)
        row.before = {"role": str(assignment.grant), "grants": _json_grants([assignment])}
        row.after = {"role": None}
        with _keeping_an_administrator():
            assignment.delete()


def _json_grants(rows: Iterable[RoleGrant]) -> list[list[str]]:
    """Return assignments as lists of role, broker and virtual host, for the audit trail, from which undo restores
    them."""
    return [[row.role, row.broker, row.virtualhost] for row in rows]


def _holder(holder: User | Group) -> str:
    return f"user {holder.get_username()}" if isinstance(holder, User) else f"group {holder.name}"


# -- users and groups -------------------------------------------------------------------------------------------------


def create_user(by: Actor, name: str) -> tuple[User, str]:
    """Create a user without a role, and return the user and the generated password. Raises PermissionDenied,
    AlreadyExists, InvalidValue."""
    with attempted(by, f"user {name}", "create-user") as row:
        _check_full_administrator(by)
        wrong = [character for character in name if not (character.isalnum() or character in "@.+-_")]
        if not name or wrong or len(name) > 150:
            raise InvalidValue({"name": f"name is {name!r}: it must have 1 to 150 letters, digits and @ . + - _"})
        if User.objects.filter(username__iexact=name).exists():
            raise AlreadyExists(f"the user {name} already exists")
        password = secrets.token_urlsafe(12)
        user = User(username=User.normalize_username(name))
        user.set_password(password)  # its digest takes long, and the transaction excludes other writers
        with row.transaction():
            user.save(force_insert=True)
        return user, password


def renew_password(by: Actor, user: User) -> str:
    """Generate and return a new password. Raises PermissionDenied."""
    with attempted(by, _holder(user), "renew-password") as row:
        _check_full_administrator(by)
        password = secrets.token_urlsafe(12)
        user.set_password(password)
        with row.transaction():
            user.save(update_fields=["password"])
        return password


def _check_unchanged(what: str, now: str, expected: str) -> None:
    """Raise InvalidValue if something was changed again after a change that is to be undone."""
    if now != expected:
        raise InvalidValue({"undo": f"{what} changed again, from {expected} to {now}: this change is not undone"})


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _state(active: bool) -> str:
    return "active" if active else "deactivated"


def _locked(user: User) -> User:
    """Return the user as stored, which no other change of this user replaces until the transaction ends."""
    return User.objects.select_for_update().get(pk=user.pk)


def set_active(by: Actor, user: User, *, active: bool, reason: str = "", was: bool | None = None) -> None:
    """Activate or deactivate a user. A deactivated user is signed out and cannot sign in, nor can the user's tokens be
    used. `was`: what is expected, for an undo. Raises PermissionDenied, InvalidValue."""
    with audited(by, _holder(user), "activate-user" if active else "deactivate-user", reason=reason) as row:
        _check_full_administrator(by)
        user.is_active = _locked(user).is_active
        if was is not None:
            _check_unchanged(f"the user {user.get_username()} was", _state(user.is_active), _state(was))
        if user == by.user and not active:
            raise InvalidValue({"user": "you cannot deactivate yourself: another administrator can"})
        row.before, row.after = {"active": user.is_active}, {"active": active}
        with _keeping_an_administrator():
            user.is_active = active
            user.save(update_fields=["is_active"])


def create_group(by: Actor, name: str, *, reason: str = "") -> Group:
    """Create a group. Raises PermissionDenied, AlreadyExists, InvalidValue."""
    with audited(by, f"group {name}", "create-group", reason=reason):
        _check_full_administrator(by)
        if fault := label_fault("name", name):
            raise InvalidValue({"name": fault})
        group, new = Group.objects.get_or_create(name=name)
        if not new:
            raise AlreadyExists(f"the group {name} already exists")
        return group


def delete_group(by: Actor, group: Group) -> None:
    """Delete a group and its role assignments. Raises PermissionDenied, and InvalidValue for the last administrator."""
    with audited(by, _holder(group), "delete-group") as row:
        _check_full_administrator(by)
        row.before = {
            "members": sorted(group.user_set.values_list("username", flat=True)),
            "roles": [str(row.grant) for row in group.role_grants.all()],
            "grants": _json_grants(group.role_grants.all()),
        }
        with _keeping_an_administrator():
            group.delete()


def set_groups(
    by: Actor, user: User, groups: Sequence[Group], *, reason: str = "", were: Iterable[str] | None = None
) -> None:
    """Set the groups of a user. `were`: what is expected, for an undo. Raises PermissionDenied, and InvalidValue for
    the last administrator."""
    with audited(by, _holder(user), "set-groups", reason=reason) as row:
        _check_full_administrator(by)
        now = sorted(_locked(user).groups.values_list("name", flat=True))
        if were is not None:
            _check_unchanged(f"the groups of {user.get_username()} were", _names(now), _names(were))
        row.before = {"groups": now}
        row.after = {"groups": sorted(group.name for group in groups)}
        with _keeping_an_administrator():
            user.groups.set(groups)


# -- tokens -----------------------------------------------------------------------------------------------------------


def create_token(by: Actor, name: str, grants: Sequence[Grant], *, days: int) -> tuple[ApiToken, str]:
    """Create a token of the user, and return it with its secret, which is not stored. Raises InvalidValue,
    PermissionDenied, AlreadyExists."""
    with audited(by, f"token {name} of user {by.name}", "create-token") as row:
        if not isinstance(by.user, User):
            raise PermissionDenied("sign in first")
        if fault := label_fault("name", name, LONGEST_TOKEN_NAME):
            raise InvalidValue({"name": fault})
        if ApiToken.objects.filter(user=by.user, name=name, revoked=None).exists():
            raise AlreadyExists(f"you already have a token {name}")
        if not grants:
            raise InvalidValue({"role": "select at least one role"})
        if not 1 <= days <= LONGEST:
            raise InvalidValue({"days": f"days is {days}: a token lasts 1 to {LONGEST} days"})
        wanted = Rights.of(grants)
        if more := [str(grant) for grant in wanted.grants if not by.rights.covers(grant)]:
            raise PermissionDenied(f"a token cannot have more permissions than you: {', '.join(more)}")
        secret = new_secret()
        token = ApiToken.objects.create(
            user=by.user,
            name=name,
            digest=digest_of(secret),
            begins=visible_prefix(secret),
            grants=[[g.role.value, g.broker, g.virtualhost] for g in wanted.grants],
            expires=timezone.now() + timedelta(days=days),
        )
        row.after = {"roles": [str(grant) for grant in wanted.grants], "expires": token.expires.isoformat()}
        return token, secret


def revoke_token(by: Actor, token: ApiToken) -> None:
    """Revoke a token. Raises PermissionDenied for another user's token, unless the user is an administrator of all
    brokers; NotFound if it is already revoked."""
    with audited(by, f"token {token.name} of user {token.user.get_username()}", "revoke-token"):
        if token.user != by.user:
            _check_full_administrator(by)
        if not ApiToken.objects.filter(pk=token.pk, revoked=None).update(revoked=timezone.now()):
            raise NotFound(f"the token {token.name} is already revoked")


# -- single sign-on ---------------------------------------------------------------------------------------------------


def sync_groups(user: User, wanted: set[str], governed: set[str], *, by: str, address: str) -> None:
    """Make the user a member of the `wanted` groups and of no other of the `governed` ones; membership in other groups
    stays. Audited if it changes anything. No permission is checked: the settings authorize the provider."""
    before = set(user.groups.values_list("name", flat=True))
    after = (before - governed) | wanted
    if after == before:
        return
    with audited(Actor(user, address), _holder(user), "set-groups", reason=f"groups from {by}") as row:
        found = list(Group.objects.filter(name__in=after))
        row.before, row.after = {"groups": sorted(before)}, {"groups": sorted(group.name for group in found)}
        if missing := after - {group.name for group in found}:
            row.detail = f"there is no group {', '.join(sorted(missing))}"
        user.groups.set(found)
