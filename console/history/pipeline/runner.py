"""The long-running process of the history: finds work, and has it done by a process with a Spark session.

This process is small and does no work. Work exists when landing files are due (`due_work.py`) or a request is queued
(`job_requests.py`). Then a process with a Spark session starts, gets one piece of work after the other, and is ended
after five idle minutes. Requests and runs alternate, so that neither keeps the other waiting. Brokers that are due
share a run; those of one that failed are run alone, until that has succeeded.

Several such processes share the brokers by leases: a broker or job that another one works on is tried again later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import DatabaseError, connection

from console.history.models import HistoryRun
from console.history.pipeline import job_requests
from console.history.pipeline.due_work import BrokerWork, DueWork
from console.history.pipeline.pieces import Piece, together
from console.history.pipeline.pipeline_leases import broker_lease, is_working
from console.history.pipeline.processed_files import processed_files
from console.history.pipeline.run_records import end_dead_runs, reason
from console.history.pipeline.session_process import Died, Message, Session
from console.history.storage.landing_listing import LandingListing


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `look`: between two looks for work; `listed`: between two listings of an object store; `idle`: after
    which the process with Spark is ended; `busy`: before a piece is tried again that another process works on;
    `failed`, `longest`: first and longest pause after failures."""

    look: float = 2.0
    listed: float = 30.0
    idle: float = 300.0
    busy: float = 7.0
    failed: float = 5.0
    longest: float = 300.0


@dataclass(slots=True)
class _Pauses:
    """When a piece may be tried again, in seconds of the monotonic clock, and its failures in a row."""

    until: dict[Piece, float] = field(default_factory=dict)
    failures: dict[Piece, int] = field(default_factory=dict)


class Runner:
    """`start`: starts the process with the Spark session. `clock`: ns since the epoch; `steady`: the monotonic clock,
    s. `say`: prints a line of output."""

    def __init__(
        self,
        url: str,
        start: Callable[[], Session],
        *,
        timing: Timing | None = None,
        say: Callable[[str], None] = print,
        clock: Callable[[], int] = time.time_ns,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listing = LandingListing(url)
        self._start = start
        self._timing = timing or Timing()
        self._say = say
        self._steady = steady
        self._due = DueWork(clock, steady)
        self._pauses = _Pauses()
        self._session: Session | None = None
        self._piece: Piece | None = None
        #: Brokers whose last run failed, or had others that may have caused its failure: they are run alone.
        self._alone: set[str] = set()
        self._idle_since = steady()
        self._list_after = float("-inf")
        self._requests_next = True

    @property
    def is_busy(self) -> bool:
        return self._piece is not None

    def run_until(self, ended: threading.Event, lost: threading.Event) -> None:
        """Work until one of the events is set. Failures are recorded and retried."""
        try:
            while not (ended.is_set() or lost.is_set()):
                try:
                    self.turn()
                except DatabaseError as error:
                    self._say(f"the database cannot be used, retrying: {reason(error)}")
                    connection.close()
                    ended.wait(self._timing.failed)
                if not self.is_busy:
                    ended.wait(self._timing.look)
        finally:
            self.close()

    def close(self) -> None:
        """End the process with Spark; what it does is done again later."""
        if self._session is not None:
            self._session.end()
            self._session = None
        self._piece = None

    def turn(self) -> None:
        """Start the next piece, or wait for the end of the current one for at most `Timing.look`; end an idle process.
        Raises DatabaseError."""
        if self._piece is None:
            piece = self._next()
            if piece is not None:
                self._begin(piece)
            elif self._session is not None and self._steady() - self._idle_since >= self._timing.idle:
                self.close()
            return
        assert self._session is not None
        try:
            message = self._session.result(self._timing.look)
        except Died as died:
            self._on_death(self._session, self._piece, str(died))
            return
        if message is not None:
            self._on_result(self._piece, message)

    # -- what to do ------------------------------------------------------------------------------------------------

    def _next(self) -> Piece | None:
        choices = (self._requested, self._due_run)
        for choose in choices if self._requests_next else choices[::-1]:
            if (piece := choose()) is not None:
                self._requests_next = not piece.is_request
                return piece
        return None

    def _requested(self) -> Piece | None:
        pieces = [Piece(work) for work in job_requests.queued_works()]
        return next((piece for piece in pieces if not self._pauses_now(piece)), None)

    def _due_run(self) -> Piece | None:
        due = [work for work in self._find_due() if not self._pauses_now(Piece(broker=work.broker))]
        due = [work for work in due if not is_working(broker_lease(work.broker))]
        if not due:
            return None
        first = Piece(broker=due[0].broker)
        if first.is_request or first.broker in self._alone:
            return first
        return together(work.broker for work in due if work.broker not in self._alone)[0]

    def _find_due(self) -> list[BrokerWork]:
        now = self._steady()
        if now < self._list_after:
            return []
        try:
            files = self._listing.files()
        except OSError as error:
            self._say(f"the landing folder cannot be read, retrying: {reason(error)}")
            self._list_after = now + self._timing.failed
            return []
        took = self._steady() - now
        self._list_after = now + max(0.0 if self._listing.is_local else self._timing.listed, 20 * took)
        return [work for work in self._due.find(files, processed_files()) if work.is_due]

    def _pauses_now(self, piece: Piece) -> bool:
        return self._steady() < self._pauses.until.get(piece, float("-inf"))

    # -- a piece -----------------------------------------------------------------------------------------------------

    def _begin(self, piece: Piece) -> None:
        try:
            if self._session is None:
                self._session = self._start()
            self._session.send(piece)
        except OSError as error:
            self._say(f"the process with Spark cannot be started: {reason(error)}")
            self._pause_after_failure(piece)
            return
        self._piece = piece

    def _on_result(self, piece: Piece, message: Message) -> None:
        self._piece = None
        self._idle_since = self._steady()
        if message["result"] == "done":
            for each in piece.alone:
                self._pauses.failures.pop(each, None)
                self._pauses.until.pop(each, None)
                self._alone.discard(each.broker)
        elif message["result"] == "busy":
            for each in piece.alone:
                self._pauses.until[each] = self._steady() + self._timing.busy
        else:
            self._say(f"failed, {self._on_failure(piece)}: {message['error']}")
            if message.get("broken"):
                self.close()

    def _on_death(self, session: Session, piece: Piece, why: str) -> None:
        self._session = self._piece = None
        self._idle_since = self._steady()
        self._say(f"{why}; {self._on_failure(piece)}")
        rows = HistoryRun.objects.filter(holder=session.holder, finished=None)
        if piece.others:
            rows.delete()  # which of the brokers failed is not known yet
        else:
            end_dead_runs(rows, why)
        if piece.is_request:
            job_requests.fail_died(piece.work, why)

    def _on_failure(self, piece: Piece) -> str:
        """Arrange the next attempt, and say when it is. Brokers that failed together are run one by one, at once: so
        one of them does not affect the others."""
        if piece.others:
            self._alone.update(each.broker for each in piece.alone)
            return "retrying its brokers one by one"
        return f"retrying in {self._pause_after_failure(piece):g} s"

    def _pause_after_failure(self, piece: Piece) -> float:
        failures = self._pauses.failures[piece] = self._pauses.failures.get(piece, 0) + 1
        pause: float = min(self._timing.failed * 2 ** min(failures - 1, 32), self._timing.longest)
        self._pauses.until[piece] = self._steady() + pause
        return pause
