"""The page of the recommendations for all queues."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.history_frame import history_frame


@require_safe
def history_advice(request: HttpRequest) -> HttpResponse:
    from console.history.whatif.comparison import CAVEAT  # loads the compiled replay

    return render(
        request,
        "console/history_advice.html",
        history_frame(request, "history-advice", "Recommendations", caveat=CAVEAT),
    )
