"""How often a broker is read: quickly for what changes, seldom for everything, less often when it answers slowly.

Pure: times in seconds of any steady clock are parameters. A broker that answers slowly is busy, and the console must
not add to its trouble: after an answer it gets at least as long to itself, and four times as long after a read of
everything, up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds between the starts of two reads of what changes, and after a slow answer at most.
CHANGING, CHANGING_MOST = 1.0, 10.0
#: Seconds between the starts of two reads of everything, and after a slow answer at most.
ALL, ALL_MOST = 5.0, 30.0
#: Seconds before the first attempt after a failure, doubled with each further failure, and at most.
RETRY, RETRY_MOST = 1.0, 15.0
#: The pause after an answer, in durations of the answer: to a read of what changes, and of everything.
CHANGING_REST, ALL_REST = 1.0, 4.0


@dataclass(slots=True)
class Pace:
    """The pace of one kind of read. `least`: seconds between its starts. `most`: seconds of pause after an answer.
    `pause`: durations of the answer."""

    least: float
    most: float
    pause: float = CHANGING_REST
    due: float = 0.0
    _duration: float = 0.0
    _failures: int = 0

    def answered(self, began: float, ended: float) -> None:
        """Count an answer. A slow one counts at once; quick ones bring the pace back step by step."""
        took = max(0.0, ended - began)
        self._duration = max(took, (self._duration + took) / 2)
        self._failures = 0
        self.due = max(began + self.least, ended + self.rest)

    def failed(self, ended: float) -> None:
        """Count a read without an answer."""
        self.due = ended + min(RETRY_MOST, RETRY * 2.0 ** min(self._failures, 10))
        self._failures += 1

    @property
    def rest(self) -> float:
        """Seconds between an answer and the next read, unless `least` demands more."""
        return min(self.most, self._duration * self.pause)


def changing_pace() -> Pace:
    return Pace(CHANGING, CHANGING_MOST, CHANGING_REST)


def all_pace() -> Pace:
    return Pace(ALL, ALL_MOST, ALL_REST)
