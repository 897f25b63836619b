"""Advice for every queue of the fleet: which limits its recorded traffic asks for."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.history_frame import history_frame


@require_safe
def history_advice(request: HttpRequest) -> HttpResponse:
    from console.history.whatif.comparison import CAVEAT  # loads the compiled replay

    return render(
        request, "console/history_advice.html", history_frame(request, "history-advice", "Advice", caveat=CAVEAT)
    )
