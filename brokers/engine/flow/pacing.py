"""The credit of one queue during a staged start: never more than its rate allows (`values/stage.py`).

So what comes in follows the rate, whatever the number of producers.
"""

from __future__ import annotations

#: Credit that is not used is not saved up for longer than this, ms.
_SAVED_MS = 250


class Pacer:
    """The credit that one queue may give out now. `granted` was when the ledger had given that much in all."""

    __slots__ = ("_at", "_saved", "_seen")

    def __init__(self, now: int, given: int) -> None:
        self._at = now
        self._saved = 1.0
        self._seen = given

    def allowance(self, rate: int, now: int, given: int) -> int:
        """How many messages' credit may be given at a rate a second, of which the ledger has given `given` so far."""
        passed = max(0, now - self._at)
        most = max(1.0, rate * _SAVED_MS / 1000)
        self._saved = min(most, self._saved - (given - self._seen) + rate * passed / 1000)
        self._at, self._seen = now, given
        return max(0, int(self._saved))
