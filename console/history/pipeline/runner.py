"""The long-running pipeline: polls for new landing files every few seconds, and runs while there are any.

A run starts when files have landed, at most every `Timing.pause` seconds. Between two runs it rests at least as long
as the last run took, up to `Timing.rest`: on a small machine it takes half of a processor at most, at the lowest
priority.
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

#: The lease of the pipeline and of its maintenance jobs.
LEASE = "history"


class Unusable(Exception):
    """Spark cannot be used any more in this process: exit, so that the supervisor restarts it."""


class MoreReport(Report, Protocol):
    """`more`: files are left for the next run."""

    @property
    def more(self) -> bool: ...


#: Runs the pipeline once; calls the argument with the name of each step.
OneRun = Callable[[Callable[[str], None]], MoreReport]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. `look`: between two polls of the landing folder; `pause`: at least between the starts of two runs;
    `rest`: at most after a run; `failed`, `longest`: first and longest delay after failures."""

    look: float = 1.0
    pause: float = 4.0
    rest: float = 5.0
    failed: float = 5.0
    longest: float = 300.0


class Runner:
    """`run_once`: see OneRun. `say`: prints a line of output."""

    def __init__(
        self, url: str, run_once: OneRun, *, timing: Timing | None = None, say: Callable[[str], None] = print
    ) -> None:
        self._landing = Landing(url)
        self._run_once = run_once
        self._timing = timing or Timing()
        self._say = say
        self._seen: set[tuple[str, str]] = set()
        self._complete = False

    def run_until(self, ended: threading.Event) -> None:
        """Run until `ended` is set. Failures are recorded and retried. Raises Unusable."""
        timing = self._timing
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
                pause = min(timing.failed * 2 ** (failures - 1), timing.longest)
                self._say(f"failed, retrying in {pause:g} s: {reason(error)}")
                self._complete = False
                ended.wait(pause)
                continue
            if not ran:
                ended.wait(timing.look)
            elif self._complete:
                took = time.monotonic() - began
                ended.wait(max(timing.pause - took, min(took, timing.rest)))

    def run_if_new(self) -> bool:
        """Run once if files have landed since the last run, or it left some. Return whether it ran. Raises Busy, and
        the errors of the run."""
        landed = set(self._landing.landed())
        if self._complete and landed <= self._seen:
            return False
        if not landed or job_requests.is_job_waiting():
            return False
        with lease(LEASE):
            abandon_dead_runs()
            with recorded() as row:
                report = self._run_once(row.step)
                row.report(report)
        self._seen = landed
        self._complete = not report.more
        return True
