"""Say who may do what: grants, users, groups and tokens. Each attempt leaves an audit row, refused ones included.

Administrators give and take what lies within their own scope; people, groups and passwords are for those who
administer everything, since whoever sets a password may sign in with it.
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
from console.access.audited_changes import audited
from console.access.models import ApiToken, RoleGrant
from console.access.tokens import beginning_of, digest_of, new_secret
from console.permissions.rights import Grant, Rights, Role

#: Days that a token may last, and characters of its name.
LONGEST, LONGEST_TOKEN_NAME = 366, 40


def _must_administer_everything(by: Actor) -> None:
    if not by.rights.may_everywhere(Role.ADMIN):
        raise PermissionDenied(f"{by.name} may not do that: it needs the role of administrator for every broker")


def _must_be_able_to_give(by: Actor, grant: Grant) -> None:
    if not by.rights.may_give(grant):
        raise PermissionDenied(f"{by.name} may not give or take {grant}: that needs the role of administrator for it")


def _is_administered() -> bool:
    """Whether anybody who can sign in administers everything."""
    grant = {"role": Role.ADMIN.value, "broker": "", "virtualhost": ""}
    direct, by_group = (
        {f"{way}__{key}": value for key, value in grant.items()} for way in ("role_grants", "groups__role_grants")
    )
    administers = Q(is_superuser=True) | Q(**direct) | Q(**by_group)
    return User.objects.filter(administers, is_active=True).exists()


@contextmanager
def _leaving_an_administrator() -> Iterator[None]:
    """What is done within is undone, and refused with InvalidValue, if it would take away the last administrator."""
    before = _is_administered()
    with transaction.atomic():
        yield
        if before and not _is_administered():
            raise InvalidValue(
                {
                    "administrator": "this would leave no active administrator of every broker, and so no user who"
                    " could give the role back: assign it to another user first"
                }
            )


# -- grants -----------------------------------------------------------------------------------------------------------


def give(by: Actor, holder: User | Group, grant: Grant, *, reason: str = "") -> RoleGrant:
    """Raises PermissionDenied, AlreadyExists, InvalidValue."""
    who = _holder(holder)
    with audited(by, who, "give-role", reason=reason, scope=grant) as row:
        _must_be_able_to_give(by, grant)
        if grant.virtualhost and not grant.broker:
            raise InvalidValue({"broker": "name the broker of the virtual host: others may have one of that name, too"})
        key = {"user": holder} if isinstance(holder, User) else {"group": holder}
        made, new = RoleGrant.objects.get_or_create(
            **key, role=grant.role.value, broker=grant.broker, virtualhost=grant.virtualhost
        )
        if not new:
            raise AlreadyExists(f"{who} has the role of {grant} already")
        row.after = {"role": str(grant)}
        return made


def take(by: Actor, kept: RoleGrant, *, reason: str = "") -> None:
    """Raises PermissionDenied."""
    with audited(by, kept.holder, "take-role", reason=reason, scope=kept.grant) as row:
        _must_be_able_to_give(by, kept.grant)
        row.before, row.after = {"role": str(kept.grant), "grants": _stored([kept])}, {"role": None}
        with _leaving_an_administrator():
            kept.delete()


def _stored(kept: Iterable[RoleGrant]) -> list[list[str]]:
    """Grants as an audit row keeps them, so that they can be given back: role, broker, virtual host."""
    return [[row.role, row.broker, row.virtualhost] for row in kept]


def _holder(holder: User | Group) -> str:
    return f"user {holder.get_username()}" if isinstance(holder, User) else f"group {holder.name}"


# -- people and groups ------------------------------------------------------------------------------------------------


def create_user(by: Actor, name: str) -> tuple[User, str]:
    """A user without a role, and their first password, told this once. Raises PermissionDenied, AlreadyExists,
    InvalidValue."""
    with audited(by, f"user {name}", "create-user"):
        _must_administer_everything(by)
        wrong = [character for character in name if not (character.isalnum() or character in "@.+-_")]
        if not name or wrong or len(name) > 150:
            raise InvalidValue({"name": f"name is {name!r}: letters, digits and @ . + - _ make a name, 150 at most"})
        if User.objects.filter(username__iexact=name).exists():
            raise AlreadyExists(f"there is a user {name} already")
        password = secrets.token_urlsafe(12)
        return User.objects.create_user(name, password=password), password


def renew_password(by: Actor, user: User) -> str:
    """Their new password, told this once. Raises PermissionDenied."""
    with audited(by, _holder(user), "renew-password"):
        _must_administer_everything(by)
        password = secrets.token_urlsafe(12)
        user.set_password(password)
        user.save(update_fields=["password"])
        return password


def set_active(by: Actor, user: User, *, active: bool, reason: str = "") -> None:
    """Whoever is not active neither signs in nor stays signed in, and their tokens let nobody in. Raises
    PermissionDenied, InvalidValue."""
    with audited(by, _holder(user), "activate-user" if active else "deactivate-user", reason=reason) as row:
        _must_administer_everything(by)
        if user == by.user and not active:
            raise InvalidValue({"user": "you cannot deactivate yourself: another administrator can"})
        row.before, row.after = {"active": user.is_active}, {"active": active}
        with _leaving_an_administrator():
            user.is_active = active
            user.save(update_fields=["is_active"])


def create_group(by: Actor, name: str, *, reason: str = "") -> Group:
    """Raises PermissionDenied, AlreadyExists, InvalidValue."""
    with audited(by, f"group {name}", "create-group", reason=reason):
        _must_administer_everything(by)
        if fault := label_fault("name", name):
            raise InvalidValue({"name": fault})
        group, new = Group.objects.get_or_create(name=name)
        if not new:
            raise AlreadyExists(f"there is a group {name} already")
        return group


def delete_group(by: Actor, group: Group) -> None:
    """Its roles go with it. Raises PermissionDenied."""
    with audited(by, _holder(group), "delete-group") as row:
        _must_administer_everything(by)
        row.before = {
            "members": sorted(group.user_set.values_list("username", flat=True)),
            "roles": [str(kept.grant) for kept in group.role_grants.all()],
            "grants": _stored(group.role_grants.all()),
        }
        with _leaving_an_administrator():
            group.delete()


def set_groups(by: Actor, user: User, groups: Sequence[Group], *, reason: str = "") -> None:
    """Raises PermissionDenied."""
    with audited(by, _holder(user), "set-groups", reason=reason) as row:
        _must_administer_everything(by)
        row.before = {"groups": sorted(user.groups.values_list("name", flat=True))}
        row.after = {"groups": sorted(group.name for group in groups)}
        with _leaving_an_administrator():
            user.groups.set(groups)


# -- tokens -----------------------------------------------------------------------------------------------------------


def create_token(by: Actor, name: str, grants: Sequence[Grant], *, days: int) -> tuple[ApiToken, str]:
    """A token of theirs and its secret, told this once. Raises InvalidValue, PermissionDenied."""
    with audited(by, f"token {name} of user {by.name}", "create-token") as row:
        if not isinstance(by.user, User):
            raise PermissionDenied("sign in first")
        if fault := label_fault("name", name, LONGEST_TOKEN_NAME):
            raise InvalidValue({"name": fault})
        if ApiToken.objects.filter(user=by.user, name=name, revoked=None).exists():
            raise AlreadyExists(f"you have a token {name} already")
        if not grants:
            raise InvalidValue({"role": "choose at least one role: a token without one may nothing"})
        if not 1 <= days <= LONGEST:
            raise InvalidValue({"days": f"days is {days}: a token lasts 1 to {LONGEST} days"})
        wanted = Rights.of(grants)
        if more := [str(grant) for grant in wanted.grants if not by.rights.hold(grant)]:
            raise PermissionDenied(f"a token may not do more than you may: {', '.join(more)}")
        secret = new_secret()
        token = ApiToken.objects.create(
            user=by.user,
            name=name,
            digest=digest_of(secret),
            begins=beginning_of(secret),
            grants=[[g.role.value, g.broker, g.virtualhost] for g in wanted.grants],
            expires=timezone.now() + timedelta(days=days),
        )
        row.after = {"roles": [str(grant) for grant in wanted.grants], "expires": token.expires.isoformat()}
        return token, secret


def revoke_token(by: Actor, token: ApiToken) -> None:
    """Raises PermissionDenied for somebody else's, unless they administer everything; NotFound if it was already."""
    with audited(by, f"token {token.name} of user {token.user.get_username()}", "revoke-token"):
        if token.user != by.user:
            _must_administer_everything(by)
        if not ApiToken.objects.filter(pk=token.pk, revoked=None).update(revoked=timezone.now()):
            raise NotFound(f"the token {token.name} has been revoked already")


# -- what a sign-in service tells -------------------------------------------------------------------------------------


def join_as_told(user: User, wanted: set[str], governed: set[str], *, by: str, address: str) -> None:
    """In `wanted` of the `governed` groups, and no other of those; groups that are not governed stay as they are. Kept
    in the audit trail if it changes anything. Nobody need be allowed to: the settings give the service that say."""
    before = set(user.groups.values_list("name", flat=True))
    after = (before - governed) | wanted
    if after == before:
        return
    with audited(Actor(user, address), _holder(user), "set-groups", reason=f"told by {by}") as row:
        row.before, row.after = {"groups": sorted(before)}, {"groups": sorted(after)}
        found = list(Group.objects.filter(name__in=after))
        if missing := after - {group.name for group in found}:
            row.detail = f"there is no group {', '.join(sorted(missing))} here"
        user.groups.set(found)
