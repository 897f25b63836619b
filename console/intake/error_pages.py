"""Responses to errors outside of a view: HTML pages, and JSON for URLs of programs."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from brokers.input_checks import readable, readable_sentences, shortened

_API = "/api/"
#: URLs of programs rather than people.
_CALLS = (_API, "/jolokia", "/metrics", "/readyz")


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 403, "Not allowed", _message(exception), "You do not have permission to do that.")


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _answer(request, 404, "Not found", _message(exception), f"There is no {shortened(request.path)}.")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return refused(request, 400, {"detail": _message(exception) or "The request is malformed."})


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500, "Internal error", "", "Internal error; see the log of the web process.")


def refused(request: HttpRequest, status: int, wrong: Mapping[str, str]) -> HttpResponse:
    """Return the response to refused input. `wrong`: sentences by field."""
    wrong = readable_sentences(wrong)
    if _is_call(request):
        return JsonResponse({field: [sentence] for field, sentence in wrong.items()}, status=status)
    context = {"title": "Request refused", "message": " ".join(wrong.values())}
    return render(request, "400.html", context, status=status)


def _answer(request: HttpRequest, status: int, title: str, message: str, otherwise: str) -> HttpResponse:
    """Return a page or JSON. `message`: the error message; if it is empty, a page has its own text and JSON
    `otherwise`."""
    if _is_call(request):
        return JsonResponse({"detail": message or otherwise}, status=status)
    return render(request, f"{status}.html", {"title": title, "message": message}, status=status)


def _is_call(request: HttpRequest) -> bool:
    return request.path.startswith(_CALLS) and request.path != _API


def _message(exception: Exception | None) -> str:
    message = exception.args[0] if exception and exception.args else ""
    return readable(shortened(message, 1000)) if isinstance(message, str) else ""
