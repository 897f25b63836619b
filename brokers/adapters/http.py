"""JSON over HTTP to the management interface of a broker: one pool of connections, time-outs, and errors for operators.

aiohttp: of the asynchronous clients the one with the most releases, with a parser in C, since a poll of thousands of
queues is megabytes of JSON. Redirects are not followed: credentials go to the configured address only.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp

from brokers.adapters.addresses import AddressRefused, check_address
from brokers.adapters.json_text import decoded
from brokers.adapters.kinds import Account
from brokers.admin import AdminError, BrokerUnreachable, InvalidValue, NotAllowed, NotFound

#: The largest answer, bytes: 10,000 queues with all their attributes have 20 MB.
MOST_BYTES = 64 << 20


class HttpError(AdminError):
    """The broker refused a request. `status`: of HTTP; `body`: its answer, as text."""

    def __init__(self, message: str, status: int, body: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class NotTrusted(BrokerUnreachable):
    """The broker's certificate is not trusted."""


class JsonHttp:
    """`base`: the address of the interface, without a slash at its end. `authority`: certificate authorities, PEM text
    or the path of a PEM file, "" for the system's. `seconds`: time for a whole answer. `allowed`: whether a request may
    be sent, checked before each; one that waits for a connection while this process hangs ends by its time limit."""

    def __init__(
        self,
        base: str,
        username: str,
        password: str,
        *,
        authority: str = "",
        seconds: float = 10.0,
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.base = base
        self.username = username
        # In each request: a server that sees none first creates a session, or counts a failure.
        self._headers = {"Authorization": aiohttp.encode_basic_auth(username, password)} if username else {}
        self._authority = authority
        self._seconds = seconds
        self._allowed = allowed
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def of(cls, account: Account, base: str) -> JsonHttp:
        return cls(base, account.username, account.password, authority=account.authority, allowed=account.allowed)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        seconds: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return its answer's JSON; None for an answer without content. `path`: after the base, with
        its parts encoded (see `part`). `headers`: besides the usual ones. Raises BrokerUnreachable, NotAllowed,
        NotFound, HttpError."""
        if not self._allowed():
            raise BrokerUnreachable("this process no longer hosts the broker: another one may do so now")
        data = None if body is None else json.dumps(body).encode()
        sent = {**({"Content-Type": "application/json"} if data is not None else {}), **(headers or {})}
        timeout = aiohttp.ClientTimeout(total=seconds or self._seconds)
        try:
            async with self._opened().request(
                method, f"{self.base}{path}", params=query, data=data, headers=sent, timeout=timeout,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                text = await self._text(answer)
                return self.read(method, path, answer.status, text)
        except TimeoutError:
            raise BrokerUnreachable(f"no answer from {self.base} within {timeout.total:g} s") from None
        except AddressRefused as error:
            raise BrokerUnreachable(str(error)) from None
        except aiohttp.ClientConnectorCertificateError as error:
            why = f"the certificate of {self.base} is not trusted: {error.certificate_error}"
            raise NotTrusted(why) from None
        except (aiohttp.ClientError, OSError) as error:
            raise BrokerUnreachable(f"cannot reach {self.base}: {_reason(error)}") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            try:
                context = trusting(self._authority)
            except ValueError as error:
                raise BrokerUnreachable(str(error)) from None
            # No proxy, cookies or .netrc of the environment: only what is configured.
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(ssl=context, limit=4, socket_factory=_socket),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    async def _text(self, answer: aiohttp.ClientResponse) -> str:
        found = bytearray()
        async for part in answer.content.iter_chunked(1 << 16):
            found += part
            if len(found) > MOST_BYTES:
                raise BrokerUnreachable(f"the answer of {self.base} is longer than {MOST_BYTES >> 20} MiB")
        return found.decode(errors="replace")

    def read(self, method: str, path: str, status: int, text: str) -> Any:
        """Return the JSON of an answer. Raises as `request`."""
        if status == 401 and (lacks := _lacks(text)):
            raise NotAllowed(f"{self.base} refuses {method} {path}: the user lacks a permission: {lacks}")
        if status == 401:
            raise NotAllowed(f"{self.base} does not accept the user name and password")
        if status == 403:
            raise NotAllowed(f"{self.base} refuses {method} {path}: the user lacks a permission")
        if status == 404:
            raise NotFound(f"{self.base} has no {path}")
        if 300 <= status < 400:
            raise BrokerUnreachable(f"{self.base} redirects to another address: enter that address")
        if status >= 400:
            raise HttpError(f"{self.base} answered {status} to {method} {path}: {text[:500]}", status, text)
        if not text:
            return None
        try:
            return decoded(text)
        except ValueError:
            raise BrokerUnreachable(f"{self.base}{path} is not answered in JSON: is this the right address?") from None


def _lacks(text: str) -> str:
    """Return what a user lacks who has signed in, by an answer 401: RabbitMQ has that status for both. "": nothing."""
    with suppress(ValueError):
        said = decoded(text)
        if isinstance(said, Mapping) and said.get("error") == "not_authorised":
            return str(said.get("reason"))
    return ""


def trusting(authority: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities: PEM text, or the path of a PEM file; "": the system's. Raises
    ValueError with a sentence."""
    is_text = authority.lstrip().startswith("-----BEGIN")
    try:
        if is_text:
            return ssl.create_default_context(cadata=authority)
        return ssl.create_default_context(cafile=authority or None)
    except (OSError, ValueError) as error:
        which = "the certificate authority" if is_text else f"certificate authority file {authority}"
        raise ValueError(f"cannot use {which}: {getattr(error, 'strerror', None) or error}") from None


def _socket(info: tuple[Any, ...]) -> socket.socket:
    """Return the socket for a connection, after all names are resolved. Raises AddressRefused."""
    family, kind, protocol, _, address = info
    check_address(str(address[0]))
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


def part(text: str) -> str:
    """Return a part of a path, such as a queue's name, encoded."""
    return quote(text, safe="")


def refused(error: HttpError, field: str) -> InvalidValue:
    """Return a refused value as an error of a field, in the broker's own words where it gives any."""
    try:
        said = decoded(error.body)
        reason = str(said.get("reason") or said.get("error") or "").replace("Validation failed", "").strip()
    except (ValueError, AttributeError):
        reason = ""
    return InvalidValue({field: reason or str(error)})


def _reason(error: aiohttp.ClientError | OSError) -> str:
    """Return why there is no connection, without the address, which asyncio's and aiohttp's texts repeat."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno).lower()
    return str(cause) or type(cause).__name__
