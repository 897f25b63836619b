"""An id for every HTTP request and WebSocket: in the log records that it causes, in the header `X-Request-ID` of its
response, and in the audit trail.

A proxy can give it, as `X-Request-ID`; text that is not safe everywhere is replaced. It is no proof of anything: a
client can give one, too, and the same one twice.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import Any

from brokers import log_records
from console.intake.bodies import Application, Message, Receive, Send

log = logging.getLogger(__name__)

HEADER = b"x-request-id"
#: As in the ids of nginx, Envoy, HAProxy and AWS.
_SAFE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:=+/@-]{0,63}")
_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
#: Requests without a record: probes, and files of pages.
_QUIET = re.compile(r"/(static|healthz|readyz|metrics)(/|$)")


def present_request_id() -> str:
    """Return the id of the request that is being handled, or that has sent the present task; "": there is none."""
    return log_records.field("request_id")


def with_request_id(application: Application) -> Application:
    """Return the ASGI application with an id for each request."""

    async def application_with_id(scope: Any, receive: Receive, send: Send) -> None:
        name = _given(scope) or uuid.uuid4().hex
        # Not reset: the server logs an exception in this task, after the application has ended.
        log_records.set_fields(request_id=name)
        began, status = time.monotonic(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                headers = [each for each in message.get("headers") or [] if bytes(each[0]).lower() != HEADER]
                message = {**message, "headers": [*headers, (HEADER, name.encode())]}
            await send(message)

        try:
            await application(scope, receive, sent)
        finally:
            _record(scope, status, time.monotonic() - began)

    return application_with_id


def _given(scope: Any) -> str:
    found = [bytes(value) for name, value in scope.get("headers") or [] if bytes(name).lower() == HEADER]
    return found[0].decode() if len(found) == 1 and _SAFE.fullmatch(found[0]) else ""


def _record(scope: Any, status: int, seconds: float) -> None:
    """Log the request, without its parameters, which may have secrets."""
    if scope["type"] not in ("http", "websocket") or (status < 400 and _QUIET.match(scope["path"])):
        return
    method = scope.get("method", "WEBSOCKET")
    extra = {"method": method, "path": scope["path"], "status": status, "duration_ms": round(seconds * 1000)}
    log.info("%s %s: %s", method, scope["path"], status or "no response", extra=extra)
