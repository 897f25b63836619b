"""The user's preferences: the time zone and the clock of all pages."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.frame import frame
from console.preferences.choices import time_zones


@require_safe
def preferences(request: HttpRequest) -> HttpResponse:
    context = frame(request, "preferences", "Preferences")
    return render(request, "console/preferences.html", {**context, "time_zones": time_zones()})
