"""Fast starts of brokers that are to be killed: a process that has imported everything forks a broker for each start.

`python -m tests.faults.nursery DATA SEGMENT_BYTES`: a line on stdin starts a broker on DATA. Lines on stdout: `began
PID` from its first moment, `ready PID PORT` when it takes connections, and before the next one begins `ended PID
STATUS`. SIGTERM stops a broker in order. The process ends, and its broker with it, when stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from brokers.server.service import Service

ROOT = Path(__file__).resolve().parent.parent.parent


async def serve(data: Path, segment_bytes: int) -> None:
    service = Service(data, port=0, demo=True, segment_bytes=segment_bytes)
    await service.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    os.write(1, b"ready %d %d\n" % (os.getpid(), service.port))
    await stopped.wait()
    await service.stop()


def main() -> None:
    data, segment_bytes, child = Path(sys.argv[1]), int(sys.argv[2]), 0
    while sys.stdin.readline():
        if child:
            _, status = os.waitpid(child, 0)  # the lock on its files goes with it
            os.write(1, b"ended %d %d\n" % (child, os.waitstatus_to_exitcode(status)))
        child = os.fork()
        if not child:
            os.write(1, b"began %d\n" % os.getpid())
            asyncio.run(serve(data, segment_bytes))
            os._exit(0)
    if child:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@dataclass
class Nursery:
    """The parent's end. `ended`: the exit status of each broker that another one followed, negative for a signal."""

    process: subprocess.Popen[bytes]
    ended: list[int] = field(default_factory=list)
    _buffer: bytes = b""

    def start(self) -> tuple[int, int]:
        """(pid, port) of a broker that takes connections. The one before it must have been ended."""
        pid = self.begin()
        port = self.ready(pid, 100)
        assert port, "the broker does not start"
        return pid, port

    def begin(self) -> int:
        """The pid of a broker that has only begun to start."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"start\n")
        self.process.stdin.flush()
        while True:
            match self._line():
                case ["ended", _, status]:
                    self.ended.append(int(status))
                case ["began", pid]:
                    return int(pid)
                case None:
                    raise AssertionError("the process that starts brokers has ended")

    def ready(self, pid: int, within: float | None = None) -> int:
        """Its port; 0 if it does not take connections after `within` seconds (none: wait)."""
        while (line := self._line(within)) is not None:
            match line:
                case ["ready", who, port] if int(who) == pid:
                    return int(port)
        return 0

    def _line(self, within: float | None = None) -> list[str] | None:
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            if not select.select([self.process.stdout], [], [], within)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode().split()


@contextlib.contextmanager
def nursery(
    data: Path,
    *,
    segment_bytes: int = 1 << 20,
    errors: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Nursery]:
    """`errors`: where the brokers' stderr goes; None: to this process's. `environment`: variables for them alone."""
    command = [sys.executable, "-m", "tests.faults.nursery", str(data), str(segment_bytes)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        bufsize=0,
        env={**os.environ, **(environment or {})},
    ) as process:
        try:
            yield Nursery(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


if __name__ == "__main__":
    main()
