"""POST of JSON to a checked address, with a total timeout and without redirects; and the signed one of webhooks."""

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
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from brokers import name_lookup
from brokers.name_lookup import Address
from console.alerts.addresses import Network, resolved, url_of

#: Seconds for the whole request.
TIMEOUT = 10.0
#: Bytes of a response that are read.
MAX_RESPONSE = 4096
#: Statuses of temporary failures below 500.
_TEMPORARY = (408, 425, 429)


class Refused(Exception):
    """The receiver responded with an error. The message is a sentence. `permanent`: another attempt would get the same
    response. `wait`: seconds that the receiver wants to pass before it."""

    def __init__(self, message: str, *, permanent: bool = False, wait: float = 0.0) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Response:
    """`text`: the beginning of the body. `wait`: seconds of the header Retry-After; 0: none."""

    status: int
    reason: str
    text: str
    wait: float = 0.0

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def __str__(self) -> str:
        return f"HTTP {self.status} {self.reason}".strip()

    def refused(self, why: str = "", *, permanent: bool | None = None) -> Refused:
        """Return the error of this response. `permanent`: None: as the status says, for services that define theirs."""
        lasting = 400 <= self.status < 500 and self.status not in _TEMPORARY if permanent is None else permanent
        return Refused(f"{self}: {why}" if why else str(self), permanent=lasting, wait=self.wait)


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
    """Send the payload, signed, and return the status. Raises as `send_json`, and Refused."""
    body = encoded(payload)
    headers = {"Headgate-Delivery": delivery, "Headgate-Signature": sign(secret, int(time.time()), body)}
    response = send_json(url, body, allowed=allowed, headers=headers, timeout=timeout)
    if not response.is_success:
        raise response.refused(permanent=False)  # its owner may repair it
    return response.status


def encoded(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode()


def send_json(
    url: str,
    body: bytes,
    *,
    allowed: Iterable[Network],
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> Response:
    """Send a JSON text and return the response. `timeout`: s for all of it, of which the look-up of the host gets a
    part. Raises NotAllowed, ValueError, OSError (also if the response is not HTTP), and Refused for a redirect."""
    parts = url_of(url)
    assert parts.hostname is not None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    began = time.monotonic()
    addresses = resolved(parts.hostname, port, allowed, min(timeout, name_lookup.TIMEOUT))
    left = max(0.0, began + timeout - time.monotonic())
    general = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Headgate",
        "Connection": "close",
    }
    connection = _Connection(parts.hostname, port, addresses, tls=parts.scheme == "https", timeout=left)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # Each read has the timeout, but a slow receiver can cause many reads: the timer bounds the whole request.
    timer = threading.Timer(left, connection.abort)
    timer.start()
    late = f"no response within {timeout:g} s"
    try:
        connection.request("POST", path, body, {**general, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read(MAX_RESPONSE)
        # A response that the timer cuts off looks complete if only the end of the connection marks its end.
        complete = answer.length == 0 or answer.chunked or len(content) == MAX_RESPONSE or not connection.timed_out
    except (http.client.HTTPException, OSError) as error:
        if connection.timed_out or isinstance(error, TimeoutError):  # whichever was first, the timer or the socket's
            raise OSError(late) from error
        if not isinstance(error, http.client.HTTPException):
            raise
        raise OSError(f"the response is not HTTP: {type(error).__name__}") from error
    finally:
        timer.cancel()
        connection.close()
    if not complete:
        raise OSError(late)
    response = Response(
        answer.status, answer.reason, content.decode(errors="replace"), _wait(answer.headers.get("Retry-After"))
    )
    if 300 <= response.status < 400:
        raise Refused(f"HTTP {response.status}: redirects are not followed, use the URL that it leads to")
    return response


def _wait(header: str | None) -> float:
    """Return the seconds of a header Retry-After, which has a number or a time; 0 without a valid one."""
    if header is None:
        return 0.0
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


class _Connection(http.client.HTTPConnection):
    """Connects to the checked addresses without another look-up, which could return other addresses. `timeout`: for
    the whole request; an address gets an equal share of what is left of it, so that one that does not respond leaves
    time for the next."""

    def __init__(self, host: str, port: int, addresses: list[Address], *, tls: bool, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self.default_port = 443 if tls else 80
        self._addresses = addresses
        self._tls = tls
        self._deadline = time.monotonic() + timeout
        self.timed_out = False

    def connect(self) -> None:
        problem: OSError | None = None
        for number, address in enumerate(self._addresses):
            share = self._left() / (len(self._addresses) - number)
            try:
                plain = socket.create_connection((str(address), self.port), share)
            except OSError as error:
                problem = error
                continue
            self._use(plain)
            if self._tls:
                # The handshake is another step, so that `abort` ends it, too.
                context = ssl.create_default_context()
                wrapped = context.wrap_socket(plain, do_handshake_on_connect=False, server_hostname=self.host)
                self._use(wrapped)
                wrapped.do_handshake()
            self._left()
            return
        raise problem or OSError(f"{self.host} has no address")

    def _use(self, sock: socket.socket) -> None:
        """Raises OSError if the time has passed. Together with `abort` there is no moment at which it is missed: this
        one sets the socket and then looks at `timed_out`, the other one does it in reverse."""
        self.sock = sock
        sock.settimeout(self._left())

    def _left(self) -> float:
        """Return the seconds that are left. Raises OSError if there are none."""
        left = self._deadline - time.monotonic()
        if self.timed_out or left <= 0:
            self.timed_out = True
            raise OSError("no time is left")
        return left

    def abort(self) -> None:
        self.timed_out = True  # before the shutdown wakes the thread that waits on the socket
        if (sock := self.sock) is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which is not for another thread
