"""The page that simulates other limits for a queue from its recorded traffic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.frame import check_sees
from console.pages.history_frame import history_broker, history_frame


@require_safe
def history_what_if(request: HttpRequest, virtualhost: str, name: str) -> HttpResponse:
    """Its script reads the range and the scenarios from the URL, `?candidate=STOP:RESUME:STOP:RESUME` (messages, then
    bytes), and updates them there."""
    key = {"broker": history_broker(request), "virtualhost": virtualhost, "queue": name}
    check_sees(request, key["broker"], virtualhost)
    context = history_frame(request, "history", f"Simulate limits: {name}", key=key)
    return render(request, "console/history_what_if.html", {**context, "key": key})
