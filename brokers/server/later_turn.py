"""Work that is done in portions: each in a turn of its own, between which clients are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LaterTurn:
    """Calls a function once in the next iteration of the loop, however often that is requested before. `call`: runs it
    in a turn of the broker."""

    __slots__ = ("_call", "_is_planned")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._is_planned = False

    def plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_planned = False
        self._call()
