"""The timeline: events and audit rows, with a search that its URL preserves."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from brokers.model import NOTIFICATIONS, TYPES
from console.pages.frame import frame

#: Operations of the audit trail: those that change something.
OPERATIONS = sorted(
    {o.name for t in TYPES.values() for o in t.operations if o.effect != "read"} | {"create", "update", "delete"}
)


@require_safe
def timeline(request: HttpRequest) -> HttpResponse:
    context = frame(request, "timeline", "Timeline")
    return render(
        request,
        "console/timeline.html",
        {
            **context,
            "kinds": sorted(NOTIFICATIONS),
            "operations": OPERATIONS,
            "download_url": reverse("timeline-download"),
        },
    )
