"""All brokers: their states and totals, queues, conditions and events together. A single broker has its overview."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from brokers.adapters.kinds import KINDS
from brokers.model import QUEUE_STATES
from console.links.queue_filter import QUICK_FILTERS
from console.pages.frame import brokers_of, fleet_frame


@require_safe
def fleet(request: HttpRequest) -> HttpResponse:
    if len(brokers_of(request)) == 1:
        return redirect("overview")
    kinds = {"headgate": "Headgate", **{name: kind.title for name, kind in KINDS.items()}}
    context = fleet_frame(
        request, "fleet", "All brokers", states=QUEUE_STATES, kinds=kinds, quickFilters=list(QUICK_FILTERS)
    )
    return render(request, "console/fleet.html", context)
