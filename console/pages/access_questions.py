"""The questions that the pages of access and tokens ask before a change that takes something away: what it comes to.

They are asked by the server, as the page that a form leads to, so that they are of what is there at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from console.access.models import ApiToken, RoleGrant

_UNDO = "It can be undone from the message that follows."


@dataclass(frozen=True, slots=True)
class Question:
    """`says`: the consequences, a sentence each. `action`: what the button says."""

    title: str
    says: tuple[str, ...]
    action: str


def delete_group(group: Group) -> Question:
    roles = [str(row.grant) for row in group.role_grants.all()]
    members = sorted(group.user_set.values_list("username", flat=True))
    loses = sorted(user.get_username() for user in group.user_set.all() if not _has_another_role(user, group))
    return Question(
        f"Delete the group {group.name}?",
        (
            f"Roles that go with it: {_list(roles)}.",
            f"Members that lose them: {_list(members)}.",
            *([f"Left without any role: {_list(loses)}."] if loses and roles else []),
            f"{_UNDO} The group is then created again with its roles and members.",
        ),
        "Delete group",
    )


def revoke_role(kept: RoleGrant) -> Question:
    says = [f"{kept.holder.capitalize()} is no longer {kept.grant}."]
    if kept.group:
        members = sorted(kept.group.user_set.values_list("username", flat=True))
        says.append(f"Members of the group: {_list(members)}.")
    says += ["API tokens of those users lose it, too.", _UNDO]
    return Question(f"Revoke a role of {kept.holder}?", tuple(says), "Revoke role")


def renew_password(user: User, by: object) -> Question:
    name = user.get_username()
    whose = "You are signed out everywhere, here too" if user == by else f"{name} is signed out everywhere at once"
    return Question(
        f"Set a new password for {name}?",
        (f"{whose}; the present password no longer works.", "The new one is shown once. This cannot be undone."),
        "Set new password",
    )


def deactivate(user: User) -> Question:
    tokens = ApiToken.objects.filter(user=user, revoked=None).count()
    name = user.get_username()
    return Question(
        f"Deactivate {name}?",
        (
            f"{name} is signed out at once and cannot sign in.",
            f"API tokens that stop working: {tokens}. Schedules that run with the permissions of {name} fail.",
            _UNDO,
        ),
        "Deactivate",
    )


def set_groups(user: User, wanted: Iterable[str]) -> Question | None:
    """None if nothing is taken away."""
    kept = set(wanted)
    lost = [group for group in user.groups.order_by("name") if group.name not in kept]
    if not lost:
        return None
    roles = [str(row.grant) for group in lost for row in group.role_grants.all()]
    return Question(
        f"Remove {user.get_username()} from {_list([group.name for group in lost])}?",
        (f"Roles that go with it: {_list(roles)}.", _UNDO),
        "Save groups",
    )


def revoke_token(token: ApiToken) -> Question:
    used = f"last used {token.last_used:%Y-%m-%d at %H:%M} UTC" if token.last_used else "never used"
    return Question(
        f"Revoke the token {token.name} of {token.user.get_username()}?",
        (
            f"Programs that sign in with it are refused from now on ({used}).",
            "This cannot be undone: create another token instead.",
        ),
        "Revoke token",
    )


def _has_another_role(user: User, group: Group) -> bool:
    if user.is_superuser or user.role_grants.exists():
        return True
    return RoleGrant.objects.filter(group__user=user).exclude(group=group).exists()


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"
