"""How large the body of a request may be, held while it arrives: before it fills a disk or is given to a parser; and
in which encoding, since a name of a codec that makes no text ends in a fault of the server while a request is made.

The server's interface to applications has no limit of its own, and not every request says how long it will be.
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
_FILES = ("/api/v1/policies/file/",)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


def body_limit(path: str) -> int:
    """Bytes."""
    return limits.FILE_BODY if path in _FILES else limits.BODY


def too_large(path: str) -> str:
    return f"the body has more than {body_limit(path):,} bytes: send less at once"


def measured(application: Application) -> Callable[[Any, Receive, Send], Awaitable[None]]:
    """The ASGI application, which hears of a disconnect instead of more than it may be sent; who sends it is answered
    413, and 415 for a charset other than UTF-8."""

    async def measuring(scope: Any, receive: Receive, send: Send) -> None:
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
        if _said(scope) > most:
            too_much = True
        else:
            await application(scope, received, sent)
        if too_much and not started:
            await _refuse(send, 413, too_large(scope["path"]))

    return measuring


async def _refuse(send: Send, status: int, says: str) -> None:
    body = json.dumps({"detail": [says]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _other_encoding(scope: Any) -> str:
    """The charset of Content-Type, unless it is one that bodies may have."""
    for name, value in scope["headers"]:
        if name == b"content-type" and (found := _CHARSET.search(value)):
            said: str = found[1].decode("latin-1")
            return "" if said.lower() in _ENCODINGS else shortened(said)
    return ""


def _said(scope: Any) -> int:
    """Content-Length; 0 if it is not said, or nonsense, which Django takes for nothing."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0
