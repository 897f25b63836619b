"""The view of `/jolokia/`: GET with the request in the path or in `?p=`, POST with JSON at any sub path, OPTIONS for
browsers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from brokers.admin import InvalidValue
from brokers.input_checks import readable_sentences
from console.access.actor import Actor
from console.access.user_rights import request_rights
from console.intake.json_text import read_json
from console.jolokia.authentication import SignInRefused, check_change_by_get, cross_origin, sign_in
from console.jolokia.handling import Handler
from console.jolokia.protocol import JolokiaRequest, Refusal, failure, from_json, from_path, illegal

#: Requests in one POST.
MOST_AT_ONCE = 1_000

_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_NO_ROLE = "You have no role yet. An administrator can assign one on the Access page."


@csrf_exempt
@login_not_required
def jolokia(request: HttpRequest, rest: str | None = None) -> HttpResponse:
    origin = ""
    try:
        origin = cross_origin(request)
        response = _preflight(request) if request.method == "OPTIONS" else _answered(request, rest or "")
    except SignInRefused as refused:
        response = _json(failure(_security(refused.status, str(refused)), _now()), refused.status)
        for name, value in refused.headers.items():
            response[name] = value
    if origin:
        response["Access-Control-Allow-Origin"] = origin
    response["Vary"] = "Origin"
    response["Cache-Control"] = "no-store"
    return response


def _answered(request: HttpRequest, rest: str) -> HttpResponse:
    if request.method not in _METHODS:
        response = _json(failure(illegal(f"the method is {request.method}: it must be GET or POST"), _now()), 405)
        response["Allow"] = ", ".join(_METHODS)
        return response
    sign_in(request)
    if not request_rights(request).grants:
        raise SignInRefused(403, _NO_ROLE)
    parameters = {name: value for name, value in request.GET.items() if isinstance(value, str)}
    path = parameters.pop("p", "") or rest
    handler = Handler(Actor.of(request))
    if request.method != "POST":
        return _one(handler, lambda: _by_get(request, path, parameters), parameters)
    try:
        body = read_json(request.body.decode())
    except (InvalidValue, UnicodeDecodeError) as error:
        sentences = readable_sentences(error.errors) if isinstance(error, InvalidValue) else {"": "it is not UTF-8"}
        return _json(failure(illegal(f"the body: {'; '.join(sentences.values())}"), _now()), 400)
    if not isinstance(body, list):
        return _one(handler, lambda: from_json(body, parameters), parameters, body)
    if len(body) > MOST_AT_ONCE:
        return _json(
            failure(illegal(f"there are {len(body):,} requests at once: {MOST_AT_ONCE:,} at most"), _now()), 400
        )
    return _json([_answer(handler, lambda each=each: from_json(each, parameters), each) for each in body])


def _by_get(request: HttpRequest, path: str, parameters: Mapping[str, str]) -> JolokiaRequest:
    """Return a request in a URL. Raises Refusal, SignInRefused."""
    wanted = from_path(path, parameters)
    if wanted.kind in ("exec", "write"):
        check_change_by_get(request)
    return wanted


def _one(handler: Handler, parse: Any, parameters: Mapping[str, str], body: Any = None) -> HttpResponse:
    response = _json(_answer(handler, parse, body))
    if parameters.get("mimeType") == "text/plain":
        response["Content-Type"] = "text/plain;charset=utf-8"
    return response


def _answer(handler: Handler, parse: Any, body: Any) -> dict[str, Any]:
    """Return the envelope of one request; one that cannot be parsed does not fail the others of a bulk."""
    try:
        wanted: JolokiaRequest = parse()
    except Refusal as refusal:
        return failure(refusal, _now(), body if isinstance(body, dict) else None)
    return handler.answer(wanted)


def _preflight(request: HttpRequest) -> HttpResponse:
    """Answer a browser, which sends no credentials with this request; only allowed origins get here."""
    response = HttpResponse(status=204)
    if request.headers.get("Origin"):
        response["Access-Control-Allow-Methods"] = "GET, POST"
        response["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Accept"
        response["Access-Control-Max-Age"] = "600"
    return response


def _security(status: int, message: str) -> Refusal:
    return Refusal(status, "java.lang.SecurityException", message)


def _json(content: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(json.dumps(content, default=str), status=status, content_type="application/json")


def _now() -> int:
    return int(time.time())
