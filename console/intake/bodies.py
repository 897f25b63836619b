"""Size and encoding of request bodies, enforced while they arrive, before they fill a disk or reach a parser.

ASGI has no limit of its own, and not every request has a Content-Length. The encoding is checked because Django fails
with 500 on a charset whose codec does not decode to text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from brokers import input_limits as limits
from brokers.input_checks import shortened

_CHARSET = re.compile(rb"""charset\s*\*?\d*\*?\s*=\s*["']?([^"';,\s]*)""", re.IGNORECASE)
_ENCODINGS = ("", "utf-8", "utf8", "us-ascii", "ascii")
_FILES = ("/api/v1/brokers/file/", "/api/v1/policies/file/")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


def body_limit(path: str) -> int:
    """Return the largest body of a request to this path, in bytes."""
    return limits.FILE_BODY if path in _FILES else limits.BODY


def too_large(path: str) -> str:
    return f"the body has more than {body_limit(path):,} bytes"


def limited(application: Application) -> Callable[[Any, Receive, Send], Awaitable[None]]:
    """Return the ASGI application with limits: a body that is too large appears as a disconnect to it and is answered
    with 413, and a charset other than UTF-8 with 415."""

    async def application_with_limits(scope: Any, receive: Receive, send: Send) -> None:
        most, got = body_limit(scope["path"]), 0
        too_much = started = False

        async def received() -> Message:
            nonlocal got, too_much
            if too_much:
                return {"type": "http.disconnect"}
            message = await receive()
            got += len(message.get("body", b""))
            too_much = got > most
            return {"type": "http.disconnect"} if too_much else message

        async def sent(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        if encoding := _other_encoding(scope):
            await _refuse(send, 415, f"the body's charset is {encoding!r}: it must be utf-8")
            return
        if _content_length(scope) > most:
            too_much = True
        else:
            await application(scope, received, sent)
        if too_much and not started:
            await _refuse(send, 413, too_large(scope["path"]))

    return application_with_limits


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"detail": [message]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _other_encoding(scope: Any) -> str:
    """Return the charset of Content-Type if it is not supported, else an empty text."""
    for name, value in scope["headers"]:
        if name == b"content-type" and (found := _CHARSET.search(value)):
            charset: str = found[1].decode("latin-1")
            return "" if charset.lower() in _ENCODINGS else shortened(charset)
    return ""


def _content_length(scope: Any) -> int:
    """Return Content-Length; 0 if it is missing or invalid, as in Django."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0
