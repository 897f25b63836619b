"""The history of a queue: depth and limits over time, episodes, and operators' actions."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.charts.history import queue_figure, rates_figure
from console.links.unreported import brokers_without_producers
from console.pages.frame import check_sees
from console.pages.history_frame import history_broker, history_frame, is_configured


@require_safe
def history_queue(request: HttpRequest, virtualhost: str, name: str) -> HttpResponse:
    """The page exists for any name; its script requests the data."""
    broker = history_broker(request)
    check_sees(request, broker, virtualhost)
    key = {"broker": broker, "virtualhost": virtualhost, "queue": name}
    figures = {"messages": queue_figure("messages"), "bytes": queue_figure("bytes"), "rates": rates_figure()}
    unreported = broker in brokers_without_producers(request_rights(request))
    title = f"{name}, history"
    context = history_frame(request, "history", title, key=key, figures=figures, unreported=unreported)
    live = ""
    if is_configured(broker):
        live = reverse("queue", args=(virtualhost, name))
        live += f"?{urlencode({'broker': broker})}" if "broker" in request.GET else ""
    return render(request, "console/history_queue.html", {**context, "key": key, "live_url": live})
