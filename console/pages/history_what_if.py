"""The page that simulates other limits for a queue from its recorded traffic."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access.user_rights import request_rights
from console.links.visible import visible_link
from console.operations.policies import fields_anywhere
from console.pages.frame import check_sees
from console.pages.history_frame import history_broker, history_frame, is_configured


@require_safe
def history_what_if(request: HttpRequest, virtualhost: str, name: str) -> HttpResponse:
    """Its script reads the range and the scenarios from the URL, `?candidate=STOP:RESUME:STOP:RESUME` (messages, then
    bytes; without a RESUME it is the STOP), and updates them there. It offers the levels that can be set; all for a
    broker of which nothing but the history is known."""
    key = {"broker": history_broker(request), "virtualhost": virtualhost, "queue": name}
    check_sees(request, key["broker"], virtualhost)
    fields = None
    if is_configured(key["broker"]):
        fields = fields_anywhere(visible_link(request_rights(request), key["broker"]))
    context = history_frame(request, "history", f"Simulate limits: {name}", key=key, fields=fields)
    return render(request, "console/history_what_if.html", {**context, "key": key})
