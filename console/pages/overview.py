"""The overview: all queues of a broker, the most severe states first, and the live event feed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from brokers.model import QUEUE_STATES
from console.pages.frame import frame


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "console/overview.html", frame(request, "overview", "Overview", states=QUEUE_STATES))
