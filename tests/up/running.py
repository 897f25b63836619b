"""A process under test: its output, its descendants, and waiting for a condition, with a limit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent


def wait_until(condition: Callable[[], object], what: str, within: float = 30.0) -> float:
    """Wait for a condition; return the seconds. Fails with `what` if it does not happen."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < within, f"not within {within:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - start


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A command of the project: a script and its arguments, or with `python=False` a program."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        *,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        python: bool = True,
    ) -> None:
        self._out, self._err = folder / f"out{time.monotonic_ns()}", folder / f"err{time.monotonic_ns()}"
        command = [sys.executable, *arguments] if python else arguments
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=err)
        self.seen: list[psutil.Process] = []

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, text: str, within: float = 30.0) -> float:
        def there() -> bool:
            assert text in self.out or self.process.poll() is None, f"ended without {text!r}: {self.out}\n{self.err}"
            return text in self.out

        return wait_until(there, f"{text!r} in {self.out}\n{self.err}", within)

    def descendants(self) -> list[psutil.Process]:
        """All that it has started so far and that were seen by a call of this."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if child not in self.seen:
                self.seen.append(child)
        return self.seen

    def alive(self) -> list[psutil.Process]:
        return [child for child in self.seen if lives(child)]

    def end(self, number: int, within: float) -> float:
        """Send a signal; seconds until it has ended. Fails if one of its descendants outlives it."""
        assert self.descendants(), "it has no descendants that could be left behind"
        start = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(within)
        took = time.monotonic() - start
        wait_until(lambda: not self.alive(), f"all have ended: {self.alive()}", within=2.0)
        return took

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.descendants()
            self.process.kill()
            self.process.wait()
        for child in self.alive():
            os.kill(child.pid, signal.SIGKILL)


def lives(process: psutil.Process) -> bool:
    """A zombie that was not reaped (a container without an init) has ended, too."""
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
