"""The credit of one queue during a staged start: granted at the rate of the stage (`values/stage.py`).

So messages arrive at that rate, whatever the number of producers.
"""

from __future__ import annotations

#: Unused allowance accumulates for this time at most, ms.
_SAVED_MS = 250


class Pacer:
    """The credit that one queue may grant now. `granted`: the ledger's total when the staged start began."""

    __slots__ = ("_at", "_granted", "_saved")

    def __init__(self, now: int, granted: int) -> None:
        self._at = now
        self._saved = 1.0
        self._granted = granted

    def allowance(self, rate: int, now: int, granted: int) -> int:
        """Return the credit that may be granted now, at `rate` messages a second. `granted`: the ledger's total."""
        passed = max(0, now - self._at)
        most = max(1.0, rate * _SAVED_MS / 1000)
        self._saved = min(most, self._saved - (granted - self._granted) + rate * passed / 1000)
        self._at, self._granted = now, granted
        return max(0, int(self._saved))
