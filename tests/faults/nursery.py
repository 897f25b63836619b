"""Brokers that start fast, to be killed: a process that has imported everything and forks a broker for each start.

`python -m tests.faults.nursery DATA RESERVE`: a line on stdin starts a broker on DATA, whose `PID PORT` is written to
stdout. It ends, and its brokers with it, when stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brokers.server.service import Service

ROOT = Path(__file__).resolve().parent.parent.parent


async def serve(data: Path, reserve: int) -> None:
    service = Service(data, port=0, demo=True, store_reserve_bytes=reserve)
    await service.start()
    os.write(1, b"%d %d\n" % (os.getpid(), service.port))
    await asyncio.Event().wait()


def main() -> None:
    data, reserve, child = Path(sys.argv[1]), int(sys.argv[2]), 0
    while sys.stdin.readline():
        if child:
            os.waitpid(child, 0)  # the lock on its files goes with it
        child = os.fork()
        if not child:
            asyncio.run(serve(data, reserve))
    if child:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@dataclass
class Nursery:
    """The parent's end."""

    process: subprocess.Popen[str]

    def start(self) -> tuple[int, int]:
        """(pid, port) of a broker that takes connections. The one before it must have been killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("start\n")
        self.process.stdin.flush()
        pid, port = self.process.stdout.readline().split()
        return int(pid), int(port)


@contextlib.contextmanager
def nursery(data: Path, *, reserve: int = 1 << 20) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.faults.nursery", str(data), str(reserve)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Nursery(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


if __name__ == "__main__":
    main()
