"""A C client that waits after each step for a line on its input, so that the broker can be looked at in between."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from measured import Broker, Failed, client_command

LIMIT_SECONDS = 600
END_SECONDS = 30


class Steps:
    """The client at work."""

    def __init__(self, process: subprocess.Popen[str], title: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._title = title
        self._process = process
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout
        self._at_rest = False

    def next(self, step: str) -> dict[str, Any]:
        """Run the next step; return what the client says of it. Raises Failed if it was not completed."""
        self._go_on()
        line = self._from.readline()
        if not line:
            self._process.wait()
            said = (self._process.stderr.read() if self._process.stderr else "").strip()
            raise Failed(f"{self._title}: {said or 'not done in time'}")
        done: dict[str, Any] = json.loads(line)
        assert done["step"] == step
        self._at_rest = True
        return done

    def finish(self) -> None:
        """Have it close its connections, which some brokers need in order not to forget acknowledgements."""
        self._go_on()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def _go_on(self) -> None:
        if self._at_rest:
            self._at_rest = False
            with contextlib.suppress(BrokenPipeError):
                self._to.write("\n")
                self._to.flush()


@contextlib.contextmanager
def steps(
    program: Path, broker: Broker, queue: str, *, limit_seconds: float = LIMIT_SECONDS, **options: int | bool
) -> Iterator[Steps]:
    """`options`: see the program. It is ended when the block is left, or after `limit_seconds`."""
    pipe = subprocess.PIPE
    command = client_command(program, broker, queue, **options)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        limit = threading.Timer(limit_seconds, process.kill)
        limit.start()
        try:
            yield Steps(process, broker.title)
        finally:
            limit.cancel()
            process.kill()
