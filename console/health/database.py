"""Whether the console's database answers, in bounded time, also while it hangs.

One thread of a process asks it at a time, and further callers wait for the same answer: a database that hangs costs one
thread, however many probes there are.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate

from django.db import connection

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


def query() -> None:
    """Send the smallest query. Raises what the driver raises."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
