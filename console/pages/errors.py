"""The pages for what went wrong: they look like the product and say what to do."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "403.html", {"title": "Not allowed", "said": _said(exception)}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "404.html", {"title": "Not found", "said": _said(exception)}, status=404)


def _said(exception: Exception | None) -> str:
    return exception.args[0] if exception and exception.args and isinstance(exception.args[0], str) else ""


def server_error(request: HttpRequest) -> HttpResponse:
    return render(request, "500.html", {"title": "Something broke"}, status=500)
