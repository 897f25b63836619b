"""Permissions of users and requests, read from the role assignments in the database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q
from django.http import HttpRequest

from console.access.models import RoleGrant
from console.permissions.rights import Grant, Rights, Role

_NOTHING = Rights()
_EVERYTHING = Rights((Grant(Role.ADMIN),))


def user_rights(user: AbstractBaseUser | AnonymousUser | None) -> Rights:
    """Return the current permissions of a user: all for a superuser, none for an inactive user."""
    if not isinstance(user, User) or not user.is_active:
        return _NOTHING
    if user.is_superuser:
        return _EVERYTHING
    if user.pk is None:
        return _NOTHING
    rows = RoleGrant.objects.filter(Q(user=user) | Q(group__user=user))
    return Rights.of(_grants(rows))


def _grants(rows: Iterable[RoleGrant]) -> Iterable[Grant]:
    known = set(Role)
    return (row.grant for row in rows if row.role in known)


def request_rights(request: HttpRequest | Any) -> Rights:
    """Return the permissions of a request, read once for each request; with a token (`request.auth`) restricted to
    it."""
    known: tuple[object, Rights] | None = getattr(request, "_headgate_rights", None)
    user, auth = request.user, getattr(request, "auth", None)
    if known is not None and known[0] == (user, auth):
        return known[1]
    found = user_rights(user)
    limit = getattr(auth, "limit", None)
    if isinstance(limit, Rights):
        found = found.intersection(limit)
    setattr(request, "_headgate_rights", ((user, auth), found))  # noqa: B010 - cached on the request
    return found
