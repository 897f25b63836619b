"""Look-up of host names with a time limit, which the system's resolver does not have.

A look-up that takes longer goes on in its thread, since nothing can end it, and until then there is none besides it for
the same name: while a resolver hangs, each name costs one thread, and further attempts fail at once, so that they do
not delay deliveries to other receivers.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from socket import SOCK_STREAM, getaddrinfo

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Seconds for a look-up.
TIMEOUT = 3.0

_lock = threading.Lock()
#: Look-ups under way: (host, port) -> when it began, s (monotonic), and its result.
_pending: dict[tuple[str, int], tuple[float, Future[list[Address]]]] = {}


def look_up(host: str, port: int, timeout: float | None = None) -> list[Address]:
    """Return the addresses of a host. Raises OSError if the look-up fails, TimeoutError if it takes longer than
    `timeout` seconds (None: `TIMEOUT`), UnicodeError for a name that cannot be one."""
    timeout = TIMEOUT if timeout is None else timeout
    began, found = _begun((host, port))
    try:
        return found.result(max(0.0, began + timeout - time.monotonic()))
    except TimeoutError as error:
        if found.done():  # the resolver itself has reported that
            raise
        raise TimeoutError(f"{host} could not be looked up within {timeout:g} s") from error


def look_up_all(hosts: Iterable[str], port: int) -> dict[str, list[Address]]:
    """Return the addresses of those hosts that can be looked up, all at the same time, within `TIMEOUT` seconds."""
    pending = {host: _begun((host, port)) for host in hosts}
    found = {}
    for host, (began, result) in pending.items():
        with suppress(OSError, UnicodeError):  # a time-out is an OSError
            found[host] = result.result(max(0.0, began + TIMEOUT - time.monotonic()))
    return found


def _begun(key: tuple[str, int]) -> tuple[float, Future[list[Address]]]:
    """Return the look-up that is under way, else begin one. Raises OSError if it cannot be begun."""
    with _lock:
        if key not in _pending:
            _pending[key] = time.monotonic(), Future()
            try:
                # A daemon: a process that ends does not wait for the resolver.
                threading.Thread(target=_look_up, args=(key,), name="look-up", daemon=True).start()
            except RuntimeError as error:  # there are too many threads
                del _pending[key]
                raise OSError(f"{key[0]} could not be looked up: {error}") from error
        return _pending[key]


def _look_up(key: tuple[str, int]) -> None:
    with _lock:
        _, result = _pending[key]
    try:
        found = getaddrinfo(*key, type=SOCK_STREAM)
        addresses = list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))
    except BaseException as error:
        _end(key)
        result.set_exception(error)
    else:
        _end(key)
        result.set_result(addresses)


def _end(key: tuple[str, int]) -> None:
    with _lock:
        del _pending[key]
