"""The pages for what went wrong: they look like the product and say what to do."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return render(request, "403.html", {"title": "Not allowed"}, status=403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    said = exception.args[0] if exception and exception.args and isinstance(exception.args[0], str) else ""
    return render(request, "404.html", {"title": "Not found", "said": said}, status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    return render(request, "500.html", {"title": "Something broke"}, status=500)
