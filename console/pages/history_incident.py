"""An incident: a page for any time range, with a stable URL: `?from=&until=&broker=&virtualhost=&queue=`."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.charts.history import queue_figure
from console.links.unreported import brokers_without_producers
from console.pages.history_frame import history_frame


@require_safe
def history_incident(request: HttpRequest) -> HttpResponse:
    figures = {"messages": queue_figure("messages"), "bytes": queue_figure("bytes")}
    unreported = brokers_without_producers(request_rights(request))
    context = history_frame(request, "history-incident", "Incident", figures=figures, unreported=unreported)
    return render(request, "console/history_incident.html", context)
