"""The Brokers page: brokers of other kinds, for administrators. Add, test, edit, pause and remove.

Each form posts one action, which `console/operations/brokers.py` checks, makes and audits. Removal requires a
confirmation first. A password is never rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from brokers.adapters.kinds import KINDS
from brokers.admin import AdminError, InvalidValue, NotFound
from console.access.actor import Actor
from console.access.user_rights import request_rights
from console.brokers.configured import configured
from console.brokers.models import ForeignBroker
from console.brokers.stops_left import StopsInForce, in_words, stops_of
from console.links.visible import visible_links
from console.operations import brokers as operations
from console.pages.access_questions import Question
from console.pages.frame import frame
from console.permissions.rights import Role

_ACTIONS = ("test", "save", "pause", "resume", "remove")


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def brokers(request: HttpRequest) -> HttpResponse:
    rights = request_rights(request)
    if not rights.allows_everywhere(Role.ADMIN):
        raise PermissionDenied("This page requires the role of administrator of all brokers.")
    edited = _edited(request)
    given = _stored(edited) if edited else {"kind": next(iter(KINDS))}
    question: Question | None = None
    result: dict[str, Any] | None = None
    wrong: Mapping[str, str] = {}
    status, stays = 200, False
    if request.method == "POST":
        action, slug = request.POST.get("action", ""), str(request.POST.get("slug", "")).strip()
        try:
            confirmed = request.POST.get("confirmed") == "1"
            if action == "remove" and not confirmed:
                question = _question(operations.broker_of(slug))
            elif action == "pause" and not confirmed and stops_of(slug):
                question = _pause_question(operations.broker_of(slug))
            elif action == "test":
                given = {**given, **_fields(request.POST)}
                known = edited.slug if edited else ""
                result = operations.probe_broker(Actor.of(request), _tested(request.POST, edited), known)
            else:
                if action == "save":
                    given = {**given, **_fields(request.POST)}
                messages.success(request, _act(request, action, slug, edited))
                return redirect("brokers")
        except InvalidValue as error:
            wrong, status = error.errors, 400
        except AdminError as error:
            wrong, status = {"": f"{str(error)[:1].upper()}{str(error)[1:]}."}, 409
            stays = isinstance(error, StopsInForce)
    links = {link.slug: link for link in visible_links(rights)}
    context = {
        **frame(request, "brokers", "Brokers"),
        "rows": [_row(entry, links.get(entry["slug"])) for entry in configured()],
        "kinds": [(slug, kind.title) for slug, kind in KINDS.items()],
        "example": KINDS.get(str(given.get("kind")), KINDS["rabbitmq"]).url,
        "edited": edited,
        "given": given,
        "result": result,
        # The broker works, though something is missing.
        "answers": result is not None and not all(each["fault"] for each in result["findings"]),
        "wrong": wrong,
        "question": question,
        "question_fields": [
            ("action", request.POST.get("action", "")),
            ("slug", request.POST.get("slug", "")),
            # Only for the stops that the question lists: one that is made meanwhile is refused first.
            *([("leave_stops", "1")] if question and stops_of(str(request.POST.get("slug", ""))) else []),
        ],
        "stays": stays,
    }
    return render(request, "console/brokers.html", context, status=status)


def _edited(request: HttpRequest) -> ForeignBroker | None:
    """Return the broker of `?edit=`. Raises Http404."""
    slug = request.GET.get("edit", "")
    if not slug:
        return None
    try:
        return operations.broker_of(slug)
    except NotFound as error:
        raise Http404(str(error)) from None


def _row(entry: dict[str, Any], link: Any) -> dict[str, Any]:
    kind = KINDS.get(entry.get("kind", ""))
    return {
        **entry,
        "added": "kind" in entry,
        "kind_title": kind.title if kind else entry.get("kind", "Headgate"),
        "connected": link is not None and link.connected,
        "error": "" if link is None else link.status.error,
    }


def _stored(row: ForeignBroker) -> dict[str, Any]:
    return {"slug": row.slug, **row.for_audit(), "tags": " ".join(row.tags)}


def _fields(given: QueryDict) -> dict[str, str]:
    """Return the fields of the form as text, without the password."""
    names = ("slug", "title", "kind", "url", "username", "authority", "tags")
    return {name: str(given[name]).strip() for name in names if name in given}


def _changes(given: QueryDict, edited: ForeignBroker | None) -> dict[str, Any]:
    """Return the values of the form for the operation. An empty password of an edited broker means unchanged."""
    values: dict[str, Any] = _fields(given)
    if "tags" in values:
        values["tags"] = values["tags"].replace(",", " ").split()
    if not values.get("title"):
        values.pop("title", None)
    password = given.get("password", "")
    if password or edited is None:
        values["password"] = password
    if edited is not None:
        values.pop("slug", None)
        values.pop("kind", None)
    return values


def _tested(given: QueryDict, edited: ForeignBroker | None) -> dict[str, Any]:
    """Return the values that a test uses."""
    values = {"kind": "", "url": "", **_changes(given, edited)} if edited is None else _changes(given, edited)
    return {
        name: value for name, value in values.items() if name in ("kind", "url", "username", "password", "authority")
    }


def _act(request: HttpRequest, action: str, slug: str, edited: ForeignBroker | None) -> str:
    """Make the change and return a message. Raises AdminError, InvalidValue."""
    by, leave = Actor.of(request), request.POST.get("leave_stops") == "1"
    if action == "save" and edited is not None:
        changed = operations.change_broker(by, edited.slug, _changes(request.POST, edited), leave_stops=leave)
        return f"{changed.title} is changed."
    if action == "save":
        required = {"slug": "", "kind": "", "url": ""}
        return f"{operations.add_broker(by, {**required, **_changes(request.POST, None)}).title} is added."
    if action in ("pause", "resume"):
        row = operations.change_broker(by, slug, {"paused": action == "pause"}, leave_stops=leave)
        return f"{row.title} is {'paused' if row.paused else 'polled again'}."
    if action == "remove":
        operations.remove_broker(by, slug, leave_stops=leave)
        return f"The broker {slug} is removed."
    raise InvalidValue({"action": f"action is {action!r}: it must be one of {', '.join(_ACTIONS)}"})


def _question(row: ForeignBroker) -> Question:
    stops = stops_of(row.slug)
    return Question(
        f"Remove {row.title} from the console?",
        (
            *(f"Stopped: {in_words(stop)}." for stop in stops),
            "These producers stay stopped, and Headgate no longer has what a start restores. Start them first."
            if stops
            else "On the broker itself nothing changes. No producers are stopped there by Headgate.",
            "Its password is deleted here. History, events and audit trail stay.",
        ),
        "Remove broker, leave its producers stopped" if stops else "Remove broker",
    )


def _pause_question(row: ForeignBroker) -> Question:
    return Question(
        f"Pause {row.title}?",
        (
            *(f"Stopped: {in_words(stop)}." for stop in stops_of(row.slug)),
            "These producers stay stopped while it is paused, and no stop ends automatically.",
        ),
        "Pause, leave its producers stopped",
    )
