"""The pages of schedules: next runs and run history; and one schedule."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from console.access.later_rights import token_name
from console.access.user_rights import request_rights
from console.links.link import BrokerLink
from console.links.visible import visible_link
from console.operations.policies import fields_anywhere
from console.pages.frame import frame
from console.pages.policy_fields import policy_fields
from console.schedules.editing import can_see, cannot_run
from console.schedules.models import Schedule


@require_safe
def schedules(request: HttpRequest) -> HttpResponse:
    return render(request, "console/schedules.html", frame(request, "schedules", "Schedules", policy=policy_fields()))


@require_safe
def schedule(request: HttpRequest, number: int = 0) -> HttpResponse:
    """`number`: of an existing schedule; 0: a new one."""
    found = get_object_or_404(Schedule, pk=number) if number else None
    if found is not None and not can_see(request_rights(request), found):
        raise Http404(f"There is no schedule {number}.")
    context = frame(
        request,
        "schedule",
        found.name if found else "New schedule",
        slug=found.broker if found else None,
        policy=policy_fields(),
        schedule=number,
    )
    here = visible_link(request_rights(request), context["broker"]["slug"])
    scopes = ["type=Broker", *(row["object"] for row in here.hosts.values())]
    context["page_settings"] |= {"scopes": scopes, "fields": fields_anywhere(here), "effects": _effects(here)}
    return render(request, "console/schedule.html", {**context, "page": "schedules", **_owned(found)})


def _owned(found: Schedule | None) -> dict[str, object]:
    """Return the schedule with what the page says about the permissions of its runs."""
    if found is None:
        return {"schedule": None}
    return {"schedule": found, "token": token_name(found.token_number), "cannot_run": cannot_run(found)}


def _effects(here: BrokerLink) -> dict[str, dict[str, str]]:
    """Return what a stop does to producers, with a sentence, by the type of its target; only where it does not hold
    them."""
    found = {}
    for name, declared in here.types.items():
        operation = declared.operation("stop-producers")
        if operation is not None and operation.producer_effect not in ("", "hold"):
            found[name] = {"effect": operation.producer_effect, "remark": operation.remark}
    return found
