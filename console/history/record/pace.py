"""How often periodic work is done, so that it takes at most a share of a processor. Pure."""

from __future__ import annotations

import statistics
from collections import deque


class Pace:
    """`least`: seconds between two times at least. `share`: of a processor. The median of the last three counts, so
    that one that took long, such as the first, which imports modules, delays nothing."""

    def __init__(self, least: float, share: float) -> None:
        self._least, self._share = least, share
        self._took: deque[float] = deque([0.0] * 3, maxlen=3)

    @property
    def seconds(self) -> float:
        """Seconds from one time to the next."""
        return max(self._least, statistics.median(self._took) / self._share)

    def took(self, seconds: float) -> None:
        """State the processor time of the last one, in seconds."""
        self._took.append(seconds)
