"""Write the lines of all processes to a terminal, file or pipe, and never wait for its reader.

A terminal that is stopped (Ctrl-S), or a collector of logs that hangs, must not stop the supervisor: it reads the
output of the processes, and one that logs more than a pipe takes, such as the broker, would wait, too. What the reader
does not take in time is dropped, and the number of these lines is said afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable
from typing import TextIO

#: Bytes that wait for the reader, at most.
MOST_WAITING = 4 << 20
#: Bytes that a pipe takes without delay once it is ready for any (PIPE_BUF of Linux).
_AT_ONCE = 4096
#: Seconds between two looks at a reader that takes nothing.
_LOOK = 0.02


class ShownLines:
    """`dropped`: returns the line that says how many lines were dropped."""

    def __init__(self, out: TextIO, dropped: Callable[[int], str]) -> None:
        self._out = out
        self._say_dropped = dropped
        self._waiting = bytearray()
        self._dropped = 0
        self._look: asyncio.TimerHandle | None = None
        self._descriptor = -1  # a stream without one is memory, which takes everything
        self._ready = select.poll()
        with contextlib.suppress(OSError, ValueError):
            self._descriptor = out.fileno()
            self._ready.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write a line, now or as soon as the reader takes it. A reader that has gone stops nothing."""
        if self._descriptor < 0:
            with contextlib.suppress(OSError, ValueError):
                self._out.write(f"{line}\n")
            return
        data = f"{line}\n".encode(self._out.encoding or "utf-8", "backslashreplace")
        if self._dropped or len(self._waiting) + len(data) > MOST_WAITING:
            self._dropped += 1
        else:
            self._waiting += data
        self._send()

    async def finish(self, seconds: float) -> None:
        """Give the reader this time to take what waits."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._waiting and loop.time() < end:
            await asyncio.sleep(_LOOK)
            self._send()
        if self._look is not None:
            self._look.cancel()

    def _send(self) -> None:
        try:
            while self._waiting and self._ready.poll(0):
                sent = os.write(self._descriptor, self._waiting[:_AT_ONCE])
                del self._waiting[:sent]
                if not self._waiting and self._dropped:
                    self._waiting += f"{self._say_dropped(self._dropped)}\n".encode()
                    self._dropped = 0
        except BlockingIOError:  # another process has set it so
            pass
        except OSError:  # it has gone
            self._waiting.clear()
            self._dropped = 0
        if self._waiting and self._look is None:
            with contextlib.suppress(RuntimeError):  # without a loop there is one line, before everything
                self._look = asyncio.get_running_loop().call_later(_LOOK, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._send()
