"""The user's API tokens: create and revoke them, with the time of last use."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from brokers.admin import AdminError, InvalidValue
from brokers.input_checks import whole_number
from console.access import administration as operations
from console.access.actor import Actor
from console.access.models import ApiToken
from console.access.user_rights import request_rights
from console.links.visible import visible_links
from console.pages.access_questions import revoke_token
from console.pages.frame import brokers_of, frame
from console.permissions.rights import Grant, Rights, Role

#: Choices of a token's lifetime, days.
DAYS = (1, 7, 30, 90, 365)


@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    rights = request_rights(request)
    made = secret = None
    question = None
    wrong, status = "", 200
    if request.method == "POST":
        try:
            if request.POST.get("action") == "revoke":
                token = _own_token(request)
                if request.POST.get("confirmed") == "1":
                    operations.revoke_token(Actor.of(request), token)
                    messages.success(request, f"The token {token.name} is revoked.")
                    return redirect("tokens")
                question = revoke_token(token)
            else:
                made, secret = _create(request)
        except InvalidValue as error:
            wrong, status = " ".join(error.errors.values()), 400
        except (AdminError, PermissionDenied) as error:
            wrong, status = str(error), 403 if isinstance(error, PermissionDenied) else 409
    roles = [role for role in Role if any(grant.includes(role) for grant in rights.grants)]
    context = {
        **frame(request, "tokens", "API tokens"),
        "tokens": ApiToken.objects.filter(user=_owner(request))[:200],
        "roles": [(role, role.words) for role in roles],
        "days": DAYS,
        "scopes": brokers_of(request),
        "hosts": known_hosts(rights),
        "address": request.build_absolute_uri("/"),
        "question": question,
        "question_fields": [("action", "revoke"), ("id", request.POST.get("id", ""))],
        "made": made,
        "secret": secret,
        "wrong": wrong,
        "given": request.POST,
        "chosen": request.POST.getlist("role") or ["viewer"],
    }
    answer = render(request, "console/tokens.html", context, status=status)
    if secret:
        answer["Cache-Control"] = "no-store"
    return answer


def known_hosts(rights: Rights) -> list[str]:
    """Return the names of visible virtual hosts, to suggest them."""
    return sorted({name for link in visible_links(rights) for name in link.hosts})


def _owner(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the middleware requires a user
    return request.user


def _own_token(request: HttpRequest) -> ApiToken:
    number = whole_number(request.POST.get("id", ""))
    found = ApiToken.objects.filter(user=_owner(request), pk=number or 0).first()
    if found is None:
        raise Http404("You have no such token.")
    return found


def _create(request: HttpRequest) -> tuple[ApiToken, str]:
    given = request.POST
    days = given.get("days", "")
    roles = [role for role in Role if role in given.getlist("role")]
    broker, host = given.get("broker", "").strip(), given.get("virtualhost", "").strip()
    if host and not broker:
        raise InvalidValue(
            {"broker": "set the broker of the virtual host: several may have a virtual host of that name"}
        )
    return operations.create_token(
        Actor.of(request),
        given.get("name", "").strip(),
        [Grant(role, broker, host) for role in roles],
        days=whole_number(days) or 0,
    )
