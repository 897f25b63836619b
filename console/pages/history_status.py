"""How the history's pipeline is: what runs, ran, waits and failed, and what to do about it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.history_frame import history_frame


@require_safe
def history_status(request: HttpRequest) -> HttpResponse:
    """Its script asks for the status every few seconds."""
    return render(request, "console/history_status.html", history_frame(request, "history-status", "Status"))
