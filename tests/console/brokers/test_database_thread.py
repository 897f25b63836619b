"""The thread of the adapters' process for the console's database: how long a database that fails holds the process up.

The waits are real ones of a shortened limit; durations are those of a clock of the test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import DatabaseError

from console.brokers import database_thread
from console.brokers.database_thread import CALL_SECONDS, DatabaseThread
from tests.console.brokers.test_hosting import Clock, clock

__all__ = ["clock"]  # a fixture

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread(clock: Clock) -> Iterator[DatabaseThread]:
    thread = DatabaseThread("test", clock)
    yield thread
    thread.close()


def failing(clock: Clock, seconds: float) -> Callable[[], None]:
    """Return work that fails after some time."""

    def work() -> None:
        clock.now += seconds
        raise DatabaseError("locked")

    return work


def test_failures_one_after_the_other_take_no_longer_than_one(thread: DatabaseThread, clock: Clock) -> None:
    began = clock.now
    for _broker in range(50):
        with pytest.raises(DatabaseError):
            thread.wait(failing(clock, 3.0))
    assert clock.now - began <= CALL_SECONDS + 3.0  # the last is begun within the limit


def test_a_database_that_answers_again_is_used_at_once_after_a_short_failure(
    thread: DatabaseThread, clock: Clock
) -> None:
    with pytest.raises(DatabaseError):
        thread.wait(failing(clock, 0.1))
    assert thread.wait(lambda: "answer") == "answer"


def test_a_database_that_answers_again_is_used_after_the_limit(thread: DatabaseThread, clock: Clock) -> None:
    with pytest.raises(DatabaseError, match="locked"):
        thread.wait(failing(clock, CALL_SECONDS))
    with pytest.raises(DatabaseError, match="does not answer"):
        thread.wait(lambda: "answer")
    clock.now += CALL_SECONDS
    assert thread.wait(lambda: "answer") == "answer"


def test_slow_answers_are_no_failures(thread: DatabaseThread, clock: Clock) -> None:
    def slow() -> str:
        clock.now += CALL_SECONDS
        return "answer"

    assert [thread.wait(slow) for _ in range(5)] == ["answer"] * 5


def test_a_dead_connection_holds_up_one_call_and_the_next_has_a_new_one(
    thread: DatabaseThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_thread, "CALL_SECONDS", 0.05)
    release = threading.Event()
    with pytest.raises(DatabaseError, match="did not answer within"):
        thread.wait(release.wait)
    monkeypatch.setattr(database_thread, "CALL_SECONDS", CALL_SECONDS)
    assert thread.wait(threading.get_ident) != threading.get_ident()
    release.set()


def test_a_database_that_hangs_holds_up_two_calls_and_no_other(
    thread: DatabaseThread, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_thread, "CALL_SECONDS", 0.05)
    release = threading.Event()
    for _connection in range(2):
        with pytest.raises(DatabaseError, match="did not answer within"):
            thread.wait(release.wait)
    begun: list[int] = []
    for broker in range(20):
        with pytest.raises(DatabaseError, match="does not answer"):
            thread.wait(lambda broker=broker: begun.append(broker))
    assert not begun
    release.set()
    clock.now += 1
    monkeypatch.setattr(database_thread, "CALL_SECONDS", CALL_SECONDS)
    thread.wait(lambda: begun.append(99))
    assert begun == [99]
