"""The answers for what went wrong outside of a view: pages that look like the product and say what to do, and JSON for
everything below the HTTP interface's path."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from brokers.input_checks import readable, readable_sentences, shortened

_API = "/api/"


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 403, "Not allowed", _said(exception), "You do not have permission to do that.")


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 404, "Not found", _said(exception), f"There is nothing at {shortened(request.path)}.")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return refused(request, 400, {"detail": _said(exception) or "The request cannot be read."})


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500, "Something broke", "", "Something broke; the log of the web process says what.")


def refused(request: HttpRequest, status: int, wrong: Mapping[str, str]) -> HttpResponse:
    """What came in is out of bounds. `wrong`: sentences by field."""
    wrong = readable_sentences(wrong)
    if _is_call(request):
        return JsonResponse({field: [sentence] for field, sentence in wrong.items()}, status=status)
    context = {"title": "Not taken", "said": " ".join(wrong.values())}
    return render(request, "400.html", context, status=status)


def _answer(request: HttpRequest, status: int, title: str, said: str, otherwise: str) -> HttpResponse:
    """`said` may be empty: a page then has its own words, and a call `otherwise`."""
    if _is_call(request):
        return JsonResponse({"detail": said or otherwise}, status=status)
    return render(request, f"{status}.html", {"title": title, "said": said}, status=status)


def _is_call(request: HttpRequest) -> bool:
    return request.path.startswith(_API) and request.path != _API


def _said(exception: Exception | None) -> str:
    said = exception.args[0] if exception and exception.args else ""
    return readable(shortened(said, 1000)) if isinstance(said, str) else ""
