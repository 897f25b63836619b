"""Confirmations of the pages of access and tokens before a change that removes something, with its consequences.

The server renders them as the response to a form, so that they reflect the current data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from console.access.models import ApiToken, RoleGrant

_UNDO = "You can undo this from the message that follows."


@dataclass(frozen=True, slots=True)
class Question:
    """`consequences`: a sentence each. `action`: label of the button."""

    title: str
    consequences: tuple[str, ...]
    action: str


def delete_group(group: Group) -> Question:
    roles = [str(row.grant) for row in group.role_grants.all()]
    members = sorted(group.user_set.values_list("username", flat=True))
    loses = sorted(user.get_username() for user in group.user_set.all() if not _has_another_role(user, group))
    return Question(
        f"Delete the group {group.name}?",
        (
            f"Deleted role assignments: {_list(roles)}.",
            f"Members who lose them: {_list(members)}.",
            *([f"Users without any role afterwards: {_list(loses)}."] if loses and roles else []),
            f"{_UNDO} Undoing creates the group again with its roles and members.",
        ),
        "Delete group",
    )


def revoke_role(row: RoleGrant) -> Question:
    consequences = [f"{row.holder.capitalize()} is no longer {row.grant}."]
    if row.group:
        members = sorted(row.group.user_set.values_list("username", flat=True))
        consequences.append(f"Members of the group: {_list(members)}.")
    consequences += ["API tokens of these users lose the role, too.", _UNDO]
    return Question(f"Revoke a role of {row.holder}?", tuple(consequences), "Revoke role")


def renew_password(user: User, by: object) -> Question:
    name = user.get_username()
    effect = "All your sessions end, including this one" if user == by else f"All sessions of {name} end immediately"
    return Question(
        f"Set a new password for {name}?",
        (f"{effect}. The current password no longer works.", "The new one is shown once. This cannot be undone."),
        "Set new password",
    )


def deactivate(user: User) -> Question:
    tokens = ApiToken.objects.filter(user=user, revoked=None).count()
    name = user.get_username()
    return Question(
        f"Deactivate {name}?",
        (
            f"All sessions of {name} end immediately, and {name} cannot sign in.",
            f"API tokens that stop working: {tokens}. Schedules that run with the permissions of {name} fail.",
            _UNDO,
        ),
        "Deactivate",
    )


def set_groups(user: User, wanted: Iterable[str]) -> Question | None:
    """Return None if the user leaves no group."""
    names = set(wanted)
    removed = [group for group in user.groups.order_by("name") if group.name not in names]
    if not removed:
        return None
    roles = [str(row.grant) for group in removed for row in group.role_grants.all()]
    return Question(
        f"Remove {user.get_username()} from {_list([group.name for group in removed])}?",
        (f"Revoked roles: {_list(roles)}.", _UNDO),
        "Save groups",
    )


def revoke_token(token: ApiToken) -> Question:
    used = f"last used {token.last_used:%Y-%m-%d at %H:%M} UTC" if token.last_used else "never used"
    return Question(
        f"Revoke the token {token.name} of {token.user.get_username()}?",
        (
            f"Requests with this token are refused from now on ({used}).",
            "This cannot be undone. You can create another token.",
        ),
        "Revoke token",
    )


def _has_another_role(user: User, group: Group) -> bool:
    if user.is_superuser or user.role_grants.exists():
        return True
    return RoleGrant.objects.filter(group__user=user).exclude(group=group).exists()


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"
