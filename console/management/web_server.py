"""uvicorn's server, waking once a second for the date in its answers. Its own loop wakes ten times a second, to see
whether it has been stopped."""

from __future__ import annotations

import asyncio
import contextlib
from types import FrameType

import uvicorn


class Server(uvicorn.Server):
    """See the module. A signal ends it at once."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):  # 0: the date, too
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._ended.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:  # waiting: a signal alone does not wake a loop
            self._loop.call_soon_threadsafe(self._ended.set)
