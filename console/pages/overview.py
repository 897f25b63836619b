"""The overview: all queues of a broker, the most severe states first, and the live event feed.

Of several brokers, the console's first page is that of all; the overview of one has it in its address.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from brokers.model import QUEUE_STATES
from console.links.queue_filter import QUICK_FILTERS
from console.pages.frame import brokers_of, frame


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    if not request.GET and len(brokers_of(request)) > 1:
        return redirect("fleet")
    return render(
        request,
        "console/overview.html",
        frame(request, "overview", "Overview", states=QUEUE_STATES, quickFilters=list(QUICK_FILTERS)),
    )
