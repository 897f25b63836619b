"""A loop whose clock advances to the next timer as soon as nothing else is ready: hours pass in milliseconds.

Nothing may happen outside of the loop's thread that the time would have to wait for.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`waits`: how often it has waited for its next timer, with nothing else to do. `seconds`: its clock."""

    def __init__(self) -> None:
        self.waits = 0
        self.seconds = 1000.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.seconds

    def ms(self) -> int:
        return round(self.seconds * 1000)


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self._loop.waits += 1
            self._loop.seconds += timeout
        return ready
