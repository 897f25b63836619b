"""The pipeline, kept warm: looks for new landing files every few seconds and runs while there are any.

A run begins when something has landed, at most every `PAUSE` seconds; between two runs it rests at least as long as the
last one took, up to `REST`, so that on a small machine half of a processor's time is the most that it takes, and that
at the lowest priority.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from console.history.pipeline import job_requests
from console.history.pipeline.run_records import Report, abandon_dead_runs, reason, recorded
from console.history.storage.landing import Landing
from console.leases.lease import Busy, lease

#: Who runs the pipeline or keeps its tables in shape holds this lease.
LEASE = "history"


class Unusable(Exception):
    """What runs the pipeline is beyond repair in this process: end it, so that it is started anew."""


class MoreReport(Report, Protocol):
    """`more`: something was left for the next run."""

    @property
    def more(self) -> bool: ...


#: Runs the pipeline once; calls back with the name of each step.
OneRun = Callable[[Callable[[str], None]], MoreReport]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds: between looks at the landing folder, between the beginnings of two runs at least, of rest after a run at
    most, and after a failure the first time and at most."""

    look: float = 1.0
    pause: float = 4.0
    rest: float = 5.0
    failed: float = 5.0
    longest: float = 300.0


class Runner:
    """`run_once`: see OneRun. `say`: a line for the process's output."""

    def __init__(
        self, url: str, run_once: OneRun, *, rhythm: Rhythm | None = None, say: Callable[[str], None] = print
    ) -> None:
        self._landing = Landing(url)
        self._run_once = run_once
        self._rhythm = rhythm or Rhythm()
        self._say = say
        self._seen: set[tuple[str, str]] = set()
        self._complete = False

    def run_until(self, ended: threading.Event) -> None:
        """Until told to end. What fails is recorded and tried again. Raises Unusable."""
        rhythm = self._rhythm
        failures = 0
        while not ended.is_set():
            began = time.monotonic()
            try:
                ran = self.run_if_new()
                failures = 0
            except Busy:
                ran = False
            except Unusable:
                raise
            except Exception as error:
                failures += 1
                pause = min(rhythm.failed * 2 ** (failures - 1), rhythm.longest)
                self._say(f"failed, tried again in {pause:g} s: {reason(error)}")
                self._complete = False
                ended.wait(pause)
                continue
            if not ran:
                ended.wait(rhythm.look)
            elif self._complete:
                took = time.monotonic() - began
                ended.wait(max(rhythm.pause - took, min(took, rhythm.rest)))

    def run_if_new(self) -> bool:
        """Run once if anything has landed since the last run, or it left something. Raises Busy, or what the run
        raises. Returns whether it ran."""
        landed = set(self._landing.landed())
        if self._complete and landed <= self._seen:
            return False
        if not landed or job_requests.waits():
            return False
        with lease(LEASE):
            abandon_dead_runs()
            with recorded() as row:
                report = self._run_once(row.step)
                row.report(report)
        self._seen = landed
        self._complete = not report.more
        return True
