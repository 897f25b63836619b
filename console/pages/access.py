"""The Access page: role assignments, users, groups and tokens. Administrators see and change those of their scope.

Each form posts one change, which `console/access/administration.py` checks, makes and audits. A change that removes
something requires a confirmation first (`access_questions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from brokers.admin import AdminError, InvalidValue
from brokers.input_checks import shortened, whole_number
from console.access import administration as operations
from console.access.actor import Actor
from console.access.administration_undo import is_undoable, undo
from console.access.models import ApiToken, RoleGrant
from console.access.user_rights import request_rights
from console.audit.models import AuditEntry
from console.brokers.configured import configured, slugs
from console.history.query.catalog import brokers
from console.history.storage.reader import HistoryBroken, NothingRecorded, reader_of
from console.pages import access_questions
from console.pages.access_questions import Question
from console.pages.frame import frame
from console.pages.tokens import known_hosts
from console.permissions.rights import Grant, Rights, Role

#: What each role allows, for people.
PERMISSIONS = {
    Role.VIEWER: "sees queues, events, history and audit of its scope, and messages without their bodies",
    Role.MESSAGE_READER: "also reads the bodies of messages",
    Role.PUBLISHER: "also publishes test messages",
    Role.OPERATOR: "also stops and starts producers, moves and deletes messages, purges, creates and deletes",
    Role.POLICY_EDITOR: "also sets limits and policies",
    Role.ADMIN: "all of that, and assigns roles",
}


@require_http_methods(["GET", "HEAD", "POST"])
def access(request: HttpRequest) -> HttpResponse:
    rights = request_rights(request)
    if not rights.can_assign_any:
        raise PermissionDenied("This page requires the role of administrator.")
    generated, question, wrong, status = None, None, "", 200
    if request.method == "POST":
        try:
            question = _question(Actor.of(request), request.POST)
            generated = _act(request) if question is None else None
        except InvalidValue as error:
            wrong, status = " ".join(error.errors.values()), 400
        except (AdminError, PermissionDenied) as error:
            wrong, status = str(error), 403 if isinstance(error, PermissionDenied) else 409
        else:
            if generated is None and question is None:
                return redirect(request.get_full_path())
    everything = rights.allows_everywhere(Role.ADMIN)
    grants = RoleGrant.objects.select_related("user", "group")
    context = {
        **frame(request, "access", "Access"),
        "grants": [row for row in grants if rights.can_assign(row.grant)],
        "everything": everything,
        "people": User.objects.order_by("username").prefetch_related("groups") if everything else [],
        "groups": Group.objects.order_by("name").prefetch_related("user_set"),
        "names": User.objects.order_by("username").values_list("username", flat=True),
        "roles": [(role, role.words, PERMISSIONS[role]) for role in Role],
        "scopes": [broker for broker in configured() if _administers(rights, broker["slug"])],
        "past": _only_in_the_history(rights),
        "hosts": known_hosts(rights),
        "tokens": ApiToken.objects.select_related("user").filter(revoked=None)[:500] if everything else [],
        "generated": generated,
        "question": question,
        "question_fields": fields_of(request.POST),
        "wrong": wrong,
    }
    answer = render(request, "console/access.html", context, status=status)
    if generated:
        answer["Cache-Control"] = "no-store"
    return answer


def _administers(rights: Rights, broker: str) -> bool:
    return rights.hosts(Role.ADMIN, broker) != frozenset()


def _only_in_the_history(rights: Rights) -> list[str]:
    """Return brokers that only the history has, from imported logs or earlier settings; roles can name them, too."""
    known = set(slugs())
    try:
        recorded = [row["broker"] for row in brokers(reader_of(settings.HEADGATE_HISTORY_URL))]
    except (NothingRecorded, HistoryBroken):  # the pages of the history report it
        return []
    return [slug for slug in recorded if slug not in known and _administers(rights, slug)]


def fields_of(given: QueryDict) -> list[tuple[str, str]]:
    """Return the fields of a form, to be sent again with the confirmation."""
    own = ("csrfmiddlewaretoken", "confirmed")
    return [(name, str(value)) for name, values in given.lists() if name not in own for value in values]


def _question(by: Actor, given: QueryDict) -> Question | None:
    """Return the confirmation that an action requires; None if it requires none, is confirmed, or will be refused for
    lack of permission."""
    action = given.get("action", "")
    ask = _QUESTIONS.get(action)
    if ask is None or given.get("confirmed") == "1":
        return None
    may = by.rights.allows_everywhere(Role.ADMIN)
    if not may and action == "take":
        may = by.rights.can_assign(_named(RoleGrant, pk=_number(given)).grant)
    return ask(by, given) if may else None


def _act(request: HttpRequest) -> dict[str, str] | None:
    """Make the change of a form. Return a generated secret to show once; otherwise None, after adding a message."""
    by, given = Actor.of(request), request.POST
    act = _ACTIONS.get(given.get("action", ""))
    if act is None:
        raise InvalidValue({"action": f"action is {given.get('action')!r}: it must be one of {', '.join(_ACTIONS)}"})
    done = act(by, given)
    if not isinstance(done, str):
        return done
    row = AuditEntry.objects.filter(user=request.user).first() if isinstance(request.user, User) else None
    undoable = row is not None and given.get("action") != "undo" and is_undoable(row)
    messages.success(request, done, extra_tags=str(row.pk) if row is not None and undoable else "")
    return None


def _give(by: Actor, given: QueryDict) -> str:
    kind, _, name = given.get("holder", "").partition(":")
    holder: User | Group = _named(Group, name=name) if kind == "group" else _named(User, username=name)
    role = given.get("role", "")
    if role not in set(Role):
        raise InvalidValue({"role": f"role is {role!r}: it must be one of {', '.join(Role)}"})
    grant = Grant(Role(role), given.get("broker", "").strip(), given.get("virtualhost", "").strip())
    operations.assign_role(by, holder, grant)
    return f"{name} is {grant} now."


def _take(by: Actor, given: QueryDict) -> str:
    row = _named(RoleGrant, pk=_number(given))
    operations.revoke_role(by, row)
    return f"{row.holder.capitalize()} is no longer {row.grant}."


def _create_user(by: Actor, given: QueryDict) -> dict[str, str]:
    user, password = operations.create_user(by, given.get("name", "").strip())
    return {"what": f"The password of {user.get_username()}", "secret": password}


def _renew(by: Actor, given: QueryDict) -> dict[str, str]:
    user = _named(User, pk=_number(given))
    return {"what": f"The new password of {user.get_username()}", "secret": operations.renew_password(by, user)}


def _activate(by: Actor, given: QueryDict) -> str:
    user, active = _named(User, pk=_number(given)), given.get("active") == "1"
    operations.set_active(by, user, active=active)
    return f"{user.get_username()} {'can sign in again' if active else 'is deactivated'}."


def _set_groups(by: Actor, given: QueryDict) -> str:
    user, groups = _named(User, pk=_number(given)), list(Group.objects.filter(name__in=given.getlist("group")))
    operations.set_groups(by, user, groups)
    return f"Groups of {user.get_username()}: {', '.join(sorted(group.name for group in groups)) or 'none'}."


def _create_group(by: Actor, given: QueryDict) -> str:
    return f"The group {operations.create_group(by, given.get('name', '').strip()).name} is created."


def _delete_group(by: Actor, given: QueryDict) -> str:
    group = _named(Group, pk=_number(given))
    name = group.name
    operations.delete_group(by, group)
    return f"The group {name} is deleted."


def _revoke(by: Actor, given: QueryDict) -> str:
    token = _named(ApiToken, pk=_number(given))
    operations.revoke_token(by, token)
    return f"The token {token.name} of {token.user.get_username()} is revoked."


def _undo(by: Actor, given: QueryDict) -> str:
    entry = AuditEntry.objects.as_visible(by.rights).filter(pk=_number(given)).first()
    if entry is None:
        raise Http404("The audit entry does not exist.")
    return undo(by, entry)


_QUESTIONS: dict[str, Callable[[Actor, QueryDict], Question | None]] = {
    "take": lambda by, given: access_questions.revoke_role(_named(RoleGrant, pk=_number(given))),
    "renew-password": lambda by, given: access_questions.renew_password(_named(User, pk=_number(given)), by.user),
    "activate": lambda by, given: (
        None if given.get("active") == "1" else access_questions.deactivate(_named(User, pk=_number(given)))
    ),
    "set-groups": lambda by, given: access_questions.set_groups(
        _named(User, pk=_number(given)), given.getlist("group")
    ),
    "delete-group": lambda by, given: access_questions.delete_group(_named(Group, pk=_number(given))),
    "revoke-token": lambda by, given: access_questions.revoke_token(_named(ApiToken, pk=_number(given))),
}

#: Each makes one change and returns a message, or a generated secret to show once.
_ACTIONS: dict[str, Callable[[Actor, QueryDict], dict[str, str] | str]] = {
    "give": _give,
    "take": _take,
    "create-user": _create_user,
    "renew-password": _renew,
    "activate": _activate,
    "set-groups": _set_groups,
    "create-group": _create_group,
    "delete-group": _delete_group,
    "revoke-token": _revoke,
    "undo": _undo,
}


def _number(given: QueryDict) -> int:
    text = given.get("id", "")
    number = whole_number(text)
    if number is None:
        raise InvalidValue({"id": f"id is {shortened(text)!r}: it must be a number"})
    return number


def _named(model: Any, **key: Any) -> Any:
    found = model.objects.filter(**key).first()
    if found is None:
        raise Http404(f"{model._meta.verbose_name.capitalize()} {next(iter(key.values()))} does not exist.")
    return found
