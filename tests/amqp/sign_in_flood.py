"""Wrong passwords and connections that say nothing: `python -m tests.amqp.sign_in_flood PORT RATE`.

RATE of each a second, of several users, from this address; a line on stdout for each attempt that was refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys

from tests.amqp.frames import SASL_HEADER
from tests.amqp.test_sasl import init

#: Attempts that are under way, at most: the broker may be slower than the flood.
MOST = 500


async def attempt(port: int, number: int) -> None:
    user = ("console", "anna", f"user-{number}")[number % 3]
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(SASL_HEADER + init("PLAIN", f"\0{user}\0wrong-{number}".encode()))
        if (await reader.read())[-1:] != b"\0":
            sys.stdout.write("refused\n")
            sys.stdout.flush()
        writer.close()


async def silence(port: int) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        reader, _ = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(1.0):
            await reader.read()


async def main(port: int, rate: int) -> None:
    going: set[asyncio.Task[None]] = set()
    for number in itertools.count():
        for work in (attempt(port, number), silence(port)):
            task = asyncio.create_task(work)
            going.add(task)
            task.add_done_callback(going.discard)
        await asyncio.sleep(1 / rate)
        if len(going) > MOST:
            await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
