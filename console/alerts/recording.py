"""The condition that the history of a broker is not recorded: its recorder has given no sign of life.

Signs are read by a thread of their own, since storage may hang. Their ages are measured by the monotonic clock from the
first one on, so that setting the clock neither causes nor ends the condition.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from django.utils import timezone

from brokers.model import object_name
from console.alerts.queue_conditions import age_text
from console.alerts.transitions import Observation

#: Kind of the condition that a connected broker is not recorded.
NOT_RECORDING = "history-not-recording"
#: Seconds without a sign after which a recorder counts as stopped; a running one gives one at least every 20 s.
SILENT = 60.0
#: Seconds between two reads.
INTERVAL = 10.0

_BROKER = object_name("Broker")
_ADVICE = "Start `headgate recorder`, and check its log and the space of the history's storage."


@dataclass(slots=True)
class _Sign:
    """`at`: the last sign; `since`: when silence began, by the monotonic clock."""

    at: dt.datetime | None
    since: float
    error: str = ""


def silence_of(last_sign: Callable[[str], dt.datetime | None], broker: str, now: dt.datetime) -> Observation | None:
    """Return the condition by a single look at the signs."""
    try:
        sign = _Sign(last_sign(broker), 0.0)
    except Exception as problem:  # as in `Recording`
        sign = _Sign(None, 0.0, str(problem) or type(problem).__name__)
    return _observation(sign, _age(sign.at, now))


def _age(at: dt.datetime | None, now: dt.datetime) -> float:
    """Return how long a recorder has been silent by the wall clock, seconds: there is no other measure at first."""
    return max(0.0, (now - at).total_seconds()) if at else SILENT


def _observation(sign: _Sign, silence: float) -> Observation | None:
    if silence < SILENT:
        return None
    if sign.error:
        saw = f"The storage of the history cannot be read: {sign.error}."
    elif sign.at is None:
        saw = "No recorder has recorded this broker."
    else:
        saw = f"The recorder has published nothing for {age_text(round(silence))}."
    return Observation(NOT_RECORDING, str(_BROKER), "warning", saw, _ADVICE, _BROKER)


@dataclass(slots=True)
class Recording:
    """`last_sign`: returns when the recorder of a broker last gave a sign, or None; may raise any error, since drivers
    of storage do."""

    last_sign: Callable[[str], dt.datetime | None]
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], dt.datetime] = timezone.now
    executor: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "recorder-signs"))
    _signs: dict[str, _Sign] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _reading: Future[None] | None = None

    def look(self, brokers: Collection[str]) -> None:
        """Begin to read the signs of these brokers, unless they have just been read or a read is still under way."""
        under_way = self._reading is not None and not self._reading.done()
        if under_way or self.clock() - self._read_at < INTERVAL:
            return
        self._read_at = self.clock()
        self._reading = self.executor.submit(self._read, list(brokers))

    def knows(self, broker: str) -> bool:
        """Return whether the signs of this broker have been read."""
        return broker in self._signs

    def observation(self, broker: str) -> Observation | None:
        """Return the condition of a known broker if it is active."""
        sign = self._signs[broker]
        return _observation(sign, self.clock() - sign.since)

    def _read(self, brokers: list[str]) -> None:
        for broker in brokers:
            known = self._signs.get(broker)
            try:
                at, error = self.last_sign(broker), ""
            except Exception as problem:  # of storage: each means that nothing is known
                at, error = known.at if known else None, str(problem) or type(problem).__name__
            clock = self.clock()
            if known is None:
                self._signs[broker] = _Sign(at, clock - _age(at, self.now()), error)
            elif at != known.at:
                self._signs[broker] = _Sign(at, clock, error)
            else:
                known.error = error
        for gone in self._signs.keys() - set(brokers):
            del self._signs[gone]
