"""The pages of schedules: next runs and run history; and one schedule."""

from __future__ import annotations

from dataclasses import asdict

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from brokers.model import POLICY
from console.access.user_rights import request_rights
from console.links.visible import visible_link
from console.pages.frame import frame
from console.schedules.editing import can_see
from console.schedules.models import Schedule

_FIELDS = [asdict(attribute) for attribute in POLICY]
#: Queues that the form suggests.
_SUGGESTED = 500


@require_safe
def schedules(request: HttpRequest) -> HttpResponse:
    return render(request, "console/schedules.html", frame(request, "schedules", "Schedules", policy=_FIELDS))


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
        policy=_FIELDS,
        schedule=number,
    )
    state = visible_link(request_rights(request), context["broker"]["slug"])
    scopes = ["type=Broker", *(row["object"] for row in state.hosts.values())]
    scopes += [row["object"] for row in state.queues()[:_SUGGESTED]]
    context["page_settings"]["scopes"] = scopes
    return render(request, "console/schedule.html", {**context, "page": "schedules", "schedule": found})
