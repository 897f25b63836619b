"""A proxy in front of a broker's management that passes bytes on, or stalls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stalling:
    """A proxy that passes bytes on, or, while `stall` is set, none. `tear`: pass on half of the broker's next bytes,
    then stall. `stall_after`: stall once these bytes of a client have been passed on; b"": never."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.stall = threading.Event()
        self.tear = threading.Event()
        self.stall_after = b""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._pass, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._server.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        pumps = [asyncio.ensure_future(self._pump_out(reader, back)), asyncio.ensure_future(self._pump(there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (writer, back):
                end.close()

    async def _pump_out(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self._pass_on(data, writer)
            if self.stall_after and self.stall_after in data:
                self.stall_after = b""
                self.stall.set()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self.tear.is_set():
                self.tear.clear()
                half = len(data) // 2
                writer.write(data[:half])
                await writer.drain()
                data = data[half:]
                self.stall.set()
            await self._pass_on(data, writer)

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        while self.stall.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.05)
        writer.write(data)
        await writer.drain()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@contextmanager
def stalling(target: int) -> Iterator[Stalling]:
    proxy = Stalling(target)
    try:
        yield proxy
    finally:
        proxy.close()
