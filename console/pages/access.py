"""Who may do what: grants, people and groups, for administrators; each sees and changes what lies in their own scope.

Plain forms: what a page posts is one change, which `console/operations/access.py` checks, makes and audits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from brokers.admin import AdminError, InvalidValue
from console.access.models import ApiToken, RoleGrant
from console.access.people import rights_in
from console.access.rights import Grant, Rights, Role
from console.history.known import brokers
from console.history.reader import HistoryBroken, NothingRecorded, reader_of
from console.operations import Actor
from console.operations import access as operations
from console.pages.frame import frame
from console.pages.tokens import known_hosts

#: What a role lets people do, for the page.
SAYS = {
    Role.VIEWER: "sees queues, events, history and audit of its scope",
    Role.OPERATOR: "also stops and starts producers, purges, creates and deletes",
    Role.POLICY_EDITOR: "also sets limits and policies",
    Role.ADMIN: "may all of that, and says who may do what",
}


@require_http_methods(["GET", "HEAD", "POST"])
def access(request: HttpRequest) -> HttpResponse:
    rights = rights_in(request)
    if not rights.administers:
        raise PermissionDenied("Who may do what is for administrators to see.")
    told, wrong, status = None, "", 200
    if request.method == "POST":
        try:
            told = _act(Actor.of(request), request.POST)
        except InvalidValue as error:
            wrong, status = " ".join(error.errors.values()), 400
        except (AdminError, PermissionDenied) as error:
            wrong, status = str(error), 403 if isinstance(error, PermissionDenied) else 409
        else:
            if told is None:
                return redirect(request.get_full_path())
    everything = rights.may_everywhere(Role.ADMIN)
    kept = RoleGrant.objects.select_related("user", "group")
    context = {
        **frame(request, "access", "Access"),
        "grants": [row for row in kept if rights.may_give(row.grant)],
        "everything": everything,
        "people": User.objects.order_by("username").prefetch_related("groups") if everything else [],
        "groups": Group.objects.order_by("name").prefetch_related("user_set"),
        "names": User.objects.order_by("username").values_list("username", flat=True),
        "roles": [(role, role.words, SAYS[role]) for role in Role],
        "scopes": [broker for broker in settings.HEADGATE_BROKERS if _administers(rights, broker["slug"])],
        "past": _only_in_the_history(rights),
        "hosts": known_hosts(rights),
        "tokens": ApiToken.objects.select_related("user").filter(revoked=None)[:500] if everything else [],
        "told": told,
        "wrong": wrong,
    }
    answer = render(request, "console/access.html", context, status=status)
    if told:
        answer["Cache-Control"] = "no-store"
    return answer


def _administers(rights: Rights, broker: str) -> bool:
    return rights.hosts(Role.ADMIN, broker) != frozenset()


def _only_in_the_history(rights: Rights) -> list[str]:
    """Brokers that are known from logs or from before: who may look at their past is said here, too."""
    configured = {broker["slug"] for broker in settings.HEADGATE_BROKERS}
    try:
        known = [row["broker"] for row in brokers(reader_of(settings.HEADGATE_HISTORY_URL))]
    except (NothingRecorded, HistoryBroken):  # the history's own pages say so
        return []
    return [slug for slug in known if slug not in configured and _administers(rights, slug)]


def _act(by: Actor, given: QueryDict) -> dict[str, str] | None:
    """Do what a form asks for; what is told this once, if anything is."""
    act = _ACTIONS.get(given.get("action", ""))
    if act is None:
        raise InvalidValue({"action": f"action is {given.get('action')!r}: it must be one of {', '.join(_ACTIONS)}"})
    return act(by, given)


def _give(by: Actor, given: QueryDict) -> None:
    kind, _, name = given.get("holder", "").partition(":")
    holder: User | Group = _named(Group, name=name) if kind == "group" else _named(User, username=name)
    role = given.get("role", "")
    if role not in set(Role):
        raise InvalidValue({"role": f"role is {role!r}: it must be one of {', '.join(Role)}"})
    grant = Grant(Role(role), given.get("broker", "").strip(), given.get("virtualhost", "").strip())
    operations.give(by, holder, grant)


def _take(by: Actor, given: QueryDict) -> None:
    operations.take(by, _named(RoleGrant, pk=_number(given)))


def _create_user(by: Actor, given: QueryDict) -> dict[str, str]:
    user, password = operations.create_user(by, given.get("name", "").strip())
    return {"what": f"The password of {user.get_username()}", "secret": password}


def _renew(by: Actor, given: QueryDict) -> dict[str, str]:
    user = _named(User, pk=_number(given))
    return {"what": f"The new password of {user.get_username()}", "secret": operations.renew_password(by, user)}


def _activate(by: Actor, given: QueryDict) -> None:
    operations.set_active(by, _named(User, pk=_number(given)), active=given.get("active") == "1")


def _set_groups(by: Actor, given: QueryDict) -> None:
    groups = Group.objects.filter(name__in=given.getlist("group"))
    operations.set_groups(by, _named(User, pk=_number(given)), list(groups))


def _create_group(by: Actor, given: QueryDict) -> None:
    operations.create_group(by, given.get("name", "").strip())


def _delete_group(by: Actor, given: QueryDict) -> None:
    operations.delete_group(by, _named(Group, pk=_number(given)))


def _revoke(by: Actor, given: QueryDict) -> None:
    operations.revoke_token(by, _named(ApiToken, pk=_number(given)))


_ACTIONS: dict[str, Callable[[Actor, QueryDict], dict[str, str] | None]] = {
    "give": _give,
    "take": _take,
    "create-user": _create_user,
    "renew-password": _renew,
    "activate": _activate,
    "set-groups": _set_groups,
    "create-group": _create_group,
    "delete-group": _delete_group,
    "revoke-token": _revoke,
}


def _number(given: QueryDict) -> int:
    text = given.get("id", "")
    if not text.isdecimal():
        raise InvalidValue({"id": f"id is {text!r}: it must be a number"})
    return int(text)


def _named(model: Any, **key: Any) -> Any:
    found = model.objects.filter(**key).first()
    if found is None:
        raise Http404(f"There is no {model._meta.verbose_name} {next(iter(key.values()))} any more.")
    return found
