"""A thread with a connection to the console's database of its own, for the process of the adapters.

Its transactions are short, and PostgreSQL ends them if this process hangs within one: otherwise the rows that it has
locked could not be taken over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection

T = TypeVar("T")

#: Time limits of a statement and of a pause within a transaction, s; and of all of a call that waits. One that hangs
#: has been paused for longer before another process takes over. Consoles give up after 10 s of silence.
STATEMENT_SECONDS, PAUSE_SECONDS, CALL_SECONDS = 5, 5, 8.0


class DatabaseThread:
    """One piece of work at a time. Every method raises DatabaseError. `steady`: monotonic seconds."""

    def __init__(self, name: str, steady: Callable[[], float] = monotonic) -> None:
        self._name = name
        self._steady = steady
        self._executor = ThreadPoolExecutor(1, name)
        self._failed: list[tuple[float, float]] = []  # calls of the last seconds that failed: their end and duration
        self._is_new = True  # no call has failed on this connection

    async def run(self, work: Callable[[], T]) -> T:
        """Work for a coroutine, however long it takes."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, _connected, work)

    def wait(self, work: Callable[[], T]) -> T:
        """Work, while the caller waits (also a coroutine's event loop, where Django refuses queries): for short
        transactions, without whose result nothing may go on. Calls that fail one after the other, of many brokers, take
        hardly longer than one: else the process would be silent for as many times, and lose its connections. A new
        connection has a short time anyway: only the old one may have been dead."""
        began = self._steady()
        self._failed = [(end, took) for end, took in self._failed if began - end < CALL_SECONDS]
        left = CALL_SECONDS - sum(took for _, took in self._failed)
        least = CALL_SECONDS / 8
        if left < least and not self._is_new:
            raise DatabaseError("the console's database does not answer")
        left = max(left, least)
        done = self._executor.submit(_connected, work)
        try:
            return done.result(left)
        except TimeoutError:
            self._executor.shutdown(wait=False)  # it may end with that work, whose result is not known
            self._executor = ThreadPoolExecutor(1, self._name)
            self._is_new = not self._failed
            self._failed.append((self._steady(), left))
            raise DatabaseError(f"the console's database did not answer within {left:.2g} s") from None
        except DatabaseError:
            self._is_new = False
            self._failed.append((self._steady(), self._steady() - began))
            raise

    def close(self) -> None:
        with suppress(RuntimeError):  # closed before
            self._executor.submit(_disconnect)
        self._executor.shutdown(wait=False)


def _connected(work: Callable[[], T]) -> T:
    try:
        if connection.connection is None and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'")
                cursor.execute(f"SET idle_in_transaction_session_timeout = '{PAUSE_SECONDS}s'")
        return work()
    except DatabaseError:
        connection.close()
        raise
    except InterfaceError as error:  # of a connection that was lost before
        connection.close()
        raise DatabaseError(str(error)) from error


def _disconnect() -> None:
    """Close the connection of the calling thread."""
    connection.close()
