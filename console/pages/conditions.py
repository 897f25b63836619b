"""The page of all active conditions of a broker."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.conditions.detectors import DETECTORS
from console.pages.frame import frame


@require_safe
def conditions(request: HttpRequest) -> HttpResponse:
    kinds = {kind: detector.title for kind, detector in DETECTORS.items()}
    context = frame(request, "conditions", "Conditions", kinds=kinds)
    return render(request, "console/conditions.html", {**context, "page": "overview", "kinds": kinds})
