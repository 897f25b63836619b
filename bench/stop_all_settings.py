"""The console's settings for `stop_all.py`: each stop and start writes where its time went, as a line of JSON, to the
file `HEADGATE_BENCH_TIMES`. Requests must come one after the other.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from console.settings import *  # noqa: F403
from console.settings import MIDDLEWARE as _MIDDLEWARE

MIDDLEWARE = ["stop_all_settings.Timed", *_MIDDLEWARE]

_spent: dict[str, float] = {}
_lock = threading.Lock()


def _add(part: str, seconds: float) -> None:
    with _lock:
        _spent[part] = _spent.get(part, 0) + seconds


class Timed:
    """Middleware around all others. Times are by the monotonic clock, which all processes of a machine share, s."""

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        _measure_parts()

    def __call__(self, request: Any) -> Any:
        if request.path not in ("/api/v1/stop-producers/", "/api/v1/start-producers/"):
            return self._get_response(request)
        from django.db import connection

        _spent.clear()
        began = time.perf_counter()
        with connection.execute_wrapper(_timed_query):
            response = self._get_response(request)
        line = {"path": request.path, "began": began, "ended": time.perf_counter(), **_spent}
        with open(os.environ["HEADGATE_BENCH_TIMES"], "a") as file:
            file.write(json.dumps(line) + "\n")
        return response


def _timed_query(execute: Any, *arguments: Any) -> Any:
    began = time.perf_counter()
    try:
        return execute(*arguments)
    finally:
        _add("database", time.perf_counter() - began)


def _measure_parts() -> None:
    """Measure the calls of the link, the requests to the broker, and the audit rows."""
    from brokers.drivers.bundled import BundledBroker
    from console.audit.models import AuditEntry
    from console.links.link import BrokerLink

    call, save, request = BrokerLink.call, AuditEntry.save, BundledBroker._request

    def timed_call(self: Any, *arguments: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(self, *arguments)
        finally:
            _add("link", time.perf_counter() - began)

    def timed_save(self: Any, *arguments: Any, **more: Any) -> None:
        began = time.perf_counter()
        save(self, *arguments, **more)
        _add("audit", time.perf_counter() - began)

    async def timed_request(self: Any, properties: dict[str, Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        answer = await request(self, properties, *arguments)
        if properties["operation"] in ("stop-producers", "start-producers"):
            _add("operation", time.perf_counter() - began)
        return answer

    BrokerLink.call, AuditEntry.save, BundledBroker._request = timed_call, timed_save, timed_request  # type: ignore
