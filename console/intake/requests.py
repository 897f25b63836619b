"""Middleware that checks path, parameters and form fields of every request against the limits. `parser.py` checks JSON
bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.deprecation import MiddlewareMixin

from brokers import input_limits as limits
from brokers.input_checks import plain_fault, readable, shortened, text_fault
from console.intake.bodies import body_limit, too_large
from console.intake.error_pages import refused

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
#: Below it every body is JSON, whatever its declared type: curl, for example, declares a form.
_NO_FORMS = "/jolokia"


class RequestLimitsMiddleware(MiddlewareMixin):
    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        if fault := _outside(request):
            return refused(request, *fault)
        if wrong := dict(_wrong(request)):
            return refused(request, 400, wrong)
        return None


def _outside(request: HttpRequest) -> tuple[int, dict[str, str]] | None:
    """Return status and errors of the checks that need no parsed parameters; None if there are none."""
    query: str = request.META.get("QUERY_STRING", "")
    if len(request.path) + len(query) > limits.QUERY:
        return 414, {"detail": f"the path and parameters have more than {limits.QUERY:,} bytes"}
    if query.count("&") >= limits.PARAMETERS:
        return 400, {"detail": f"there are more than {limits.PARAMETERS} parameters"}
    if fault := text_fault("the path", request.path, limits.QUERY):
        return 400, {"detail": fault}
    length = request.META.get("CONTENT_LENGTH") or "0"
    if length.isdigit() and (len(length) > 18 or int(length) > body_limit(request.path)):
        return 413, {"detail": too_large(request.path)}
    return None


def _wrong(request: HttpRequest) -> Iterator[tuple[str, str]]:
    yield from _faults("parameter", request.GET)
    if request.method == "POST" and request.content_type in _FORMS and not request.path.startswith(_NO_FORMS):
        yield from _faults("field", request.POST)


def _faults(kind: str, given: QueryDict) -> Iterator[tuple[str, str]]:
    for name, values in given.lists():
        if fault := text_fault(f"the name of a {kind}", name, limits.FIELD_NAME):
            yield readable(shortened(name)), fault
            continue
        check: Any = plain_fault if name == "reason" else text_fault
        for value in values:
            if fault := check(name, value, limits.TEXTS.get(name, limits.TEXT)):
                yield name, fault
