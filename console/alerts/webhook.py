"""One signed POST: to an address that was checked, within a time limit, without following anybody anywhere."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from console.alerts.addresses import Address, Network, resolved, url_of

#: Seconds for all of it.
LIMIT = 10.0


class Refused(Exception):
    """The receiver answered, and not with success. The message is a sentence."""


def sign(secret: str, at: int, body: bytes) -> str:
    """The header that proves who sent it, and when: HMAC-SHA-256, in hex, of `at`, a dot and the body."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post(
    url: str,
    secret: str,
    payload: Mapping[str, Any],
    *,
    delivery: str,
    allowed: Iterable[Network],
    limit: float = LIMIT,
) -> int:
    """The status. Raises NotAllowed, Refused, ValueError, OSError (also for what is no HTTP)."""
    parts = url_of(url)
    assert parts.hostname is not None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = resolved(parts.hostname, port, allowed)
    body = json.dumps(payload, ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Headgate",
        "Headgate-Delivery": delivery,
        "Headgate-Signature": sign(secret, int(time.time()), body),
        "Connection": "close",
    }
    connection = _Connection(parts.hostname, port, addresses, tls=parts.scheme == "https", limit=limit)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # Each read has a time limit, but there may be many reads: who answers byte by byte is cut off all the same.
    clock = threading.Timer(limit, connection.cut)
    clock.start()
    late = f"no answer within {limit:g} s"
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(1024)
        status = answer.status
    except (http.client.HTTPException, OSError) as error:
        if connection.was_cut:
            raise OSError(late) from error
        if not isinstance(error, http.client.HTTPException):
            raise
        raise OSError(f"what answered is no HTTP: {type(error).__name__}") from error
    finally:
        clock.cancel()
        connection.close()
    if connection.was_cut:
        raise OSError(late)  # what there is of an answer looks whole
    if 300 <= status < 400:
        raise Refused(f"it answered {status}, a redirect: those are not followed, give the URL it leads to")
    if not 200 <= status < 300:
        raise Refused(f"it answered {status} {answer.reason}".strip())
    return status


class _Connection(http.client.HTTPConnection):
    """Connects to addresses that were checked; the name is not looked up again, since it may lead elsewhere by then."""

    def __init__(self, host: str, port: int, addresses: list[Address], *, tls: bool, limit: float) -> None:
        super().__init__(host, port, timeout=limit)
        self.default_port = 443 if tls else 80
        self._addresses = addresses
        self._tls = tls
        self.was_cut = False

    def connect(self) -> None:
        problem: OSError | None = None
        for address in self._addresses:
            try:
                plain = socket.create_connection((str(address), self.port), self.timeout)
            except OSError as error:
                problem = error
                continue
            self.sock = (
                ssl.create_default_context().wrap_socket(plain, server_hostname=self.host) if self._tls else plain
            )
            return
        raise problem or OSError(f"{self.host} has no address")

    def cut(self) -> None:
        self.was_cut = True  # before whoever waits on the socket sees it closed
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
