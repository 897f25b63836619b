"""The rights of work that runs after the request that ordered it: jobs and schedules.

Such work stores its user and, if it was ordered with an API token, the number of the token. It has no more permissions
than both have at that time, and none if the token has been revoked or deleted or has expired.
"""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied

from console.access.actor import Actor
from console.access.models import ApiToken
from console.access.user_rights import user_rights


def token_number(by: Actor) -> int | None:
    """Return the number of the API token to store with the work; None: ordered without one."""
    return None if by.token is None else by.token.pk


def token_name(number: int | None) -> str:
    """Return the name of a stored token; empty: none, or it has been deleted."""
    return "" if number is None else ApiToken.objects.filter(pk=number).values_list("name", flat=True).first() or ""


def later_actor(
    user: AbstractBaseUser | None, user_name: str, token: int | None, address: str, *, ordered: str
) -> Actor:
    """Return who acts now, with the permissions of the user and of the token at this moment. `ordered`: what was done
    with the token, such as `the job was begun`. Raises PermissionDenied if the account or the token is gone."""
    if user is None:
        raise PermissionDenied(f"the account of {user_name} no longer exists")
    if token is None:
        return Actor(user, address)
    found = ApiToken.objects.filter(pk=token, user_id=user.pk).first()
    if found is None:
        raise PermissionDenied(f"the API token with which {ordered} no longer exists")
    if found.state != "usable":
        raise PermissionDenied(f"the API token {found.name}, with which {ordered}, is {found.state}")
    return Actor(user, address, user_rights(user).intersection(found.limit), found)
