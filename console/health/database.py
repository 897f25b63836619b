"""Whether the console's database answers, in bounded time, also while it hangs, or while a table is locked.

One thread of a process asks it at a time, and further callers wait for the same answer: a database that hangs costs one
thread, however many probes there are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager

from django.contrib.sessions.models import Session
from django.db import connection, transaction

#: Seconds to wait for the answer.
PATIENCE = 2.0

_lock = threading.Lock()
_current: Future[bool] | None = None


def database_answers(seconds: float = PATIENCE) -> bool:
    """Return whether the database has answered a query within `seconds`."""
    global _current  # noqa: PLW0603 - the one query of this process
    with _lock:
        if _current is None or _current.done():
            _current = Future()
            threading.Thread(target=_ask, args=[_current], name="database-check", daemon=True).start()
        answer = _current
    try:
        return answer.result(seconds)
    except TooLate:
        return False


def _ask(answer: Future[bool]) -> None:
    try:
        query()
        answer.set_result(True)
    except Exception:  # drivers raise many types, and each means the same
        answer.set_result(False)
    finally:
        connection.close()  # of this thread


@contextmanager
def impatient(seconds: float = PATIENCE) -> Iterator[None]:
    """Let each statement in the block fail after `seconds`, as one does that waits for a locked table. Raises
    OperationalError. SQLite's readers wait for no lock."""
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{seconds * 1000:.0f}"])
        yield


def query() -> None:
    """Read a table that signed-in requests need: SQLite answers `SELECT 1` without its file. Raises what the driver
    raises."""
    Session.objects.exists()
