"""The history of all brokers: blocked time by queue and producer, and all episodes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.charts.history import heat_figure
from console.links.unreported import brokers_without_producers
from console.pages.history_frame import history_frame


@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Its script reads `?range=` or `?from=&until=`, `?broker=` and `?measure=`, and updates them in the URL."""
    unreported = brokers_without_producers(request_rights(request))
    context = history_frame(request, "history", "History", figures={"heat": heat_figure()}, unreported=unreported)
    return render(request, "console/history.html", context)
