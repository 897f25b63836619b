"""Signed POST to a checked address, with a total timeout and without redirects."""

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

#: Seconds for the whole request.
TIMEOUT = 10.0


class Refused(Exception):
    """The receiver responded with an error. The message is a sentence."""


def sign(secret: str, at: int, body: bytes) -> str:
    """Return the signature header: `at` (s since the epoch), and HMAC-SHA-256 in hex of `at`, a dot and the body."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post(
    url: str,
    secret: str,
    payload: Mapping[str, Any],
    *,
    delivery: str,
    allowed: Iterable[Network],
    timeout: float = TIMEOUT,
) -> int:
    """Send the payload as JSON and return the status. Raises NotAllowed, Refused, ValueError, OSError (also if the
    response is not HTTP)."""
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
    connection = _Connection(parts.hostname, port, addresses, tls=parts.scheme == "https", timeout=timeout)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # Each read has the timeout, but a slow receiver can cause many reads: the timer bounds the whole request.
    timer = threading.Timer(timeout, connection.abort)
    timer.start()
    late = f"no response within {timeout:g} s"
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(1024)
        status = answer.status
    except (http.client.HTTPException, OSError) as error:
        if connection.timed_out:
            raise OSError(late) from error
        if not isinstance(error, http.client.HTTPException):
            raise
        raise OSError(f"the response is not HTTP: {type(error).__name__}") from error
    finally:
        timer.cancel()
        connection.close()
    if connection.timed_out:
        raise OSError(late)  # a truncated response looks complete
    if 300 <= status < 400:
        raise Refused(f"HTTP {status}: redirects are not followed, use the URL that it leads to")
    if not 200 <= status < 300:
        raise Refused(f"HTTP {status} {answer.reason}".strip())
    return status


class _Connection(http.client.HTTPConnection):
    """Connects to the checked addresses without another look-up, which could return other addresses."""

    def __init__(self, host: str, port: int, addresses: list[Address], *, tls: bool, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self.default_port = 443 if tls else 80
        self._addresses = addresses
        self._tls = tls
        self.timed_out = False

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

    def abort(self) -> None:
        self.timed_out = True  # before the shutdown wakes the thread that waits on the socket
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
