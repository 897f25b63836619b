"""The object browser: the tree of managed objects with their attributes, operations and notifications."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.frame import frame


@require_safe
def objects(request: HttpRequest) -> HttpResponse:
    return render(request, "console/objects.html", frame(request, "objects", "Objects"))
