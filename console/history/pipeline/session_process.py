"""The parent's side of the process with the Spark session: start it, send it pieces, notice its end, end it.

It may be killed at any time: the tables change by atomic commits, and the next run processes what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from console.history.pipeline.pieces import Piece

#: Seconds without a beat after which the process counts as hung: it is frozen, or Java does not respond.
SILENT = 300.0
#: Seconds without a finished step or task after which the work counts as hung.
STUCK = 2 * 3600.0
#: Seconds that the process has to end after a signal.
_GRACE = 4.0

Message = Mapping[str, Any]


class Session(Protocol):
    """A process with a Spark session; see `SessionProcess`."""

    #: The identity of the process, as in leases and runs; empty until it has started.
    holder: str

    def send(self, piece: Piece) -> None: ...
    def result(self, seconds: float) -> Message | None: ...
    def end(self) -> None: ...


class Died(Exception):
    """The process has ended, or had to be killed; the message has the reason."""


class SessionProcess:
    """`command`: as for Popen; it calls `session_main.serve`. `steady`: the monotonic clock, s."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        silent: float = SILENT,
        stuck: float = STUCK,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._silent, self._stuck, self._steady = silent, stuck, steady
        self._process = subprocess.Popen(  # noqa: S603 -- a command of this project
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._unfinished = b""
        self._is_ended = False
        self._beat = ""
        self._heard = self._moved = steady()
        self.holder = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, piece: Piece) -> None:
        """Send a piece; the one before must have a result."""
        self._heard = self._moved = self._steady()
        with contextlib.suppress(BrokenPipeError):  # `result` reports it
            self._input.write(json.dumps(asdict(piece)).encode() + b"\n")

    def result(self, seconds: float) -> Message | None:
        """Wait for at most `seconds` for the result of the piece. Raises Died if the process has ended, or hangs: then
        it has been killed."""
        ready, _, _ = select.select([self._output], [], [], seconds)
        if ready and (message := self._received()) is not None:
            return message
        now = self._steady()
        for since, bound, what in (
            (self._heard, self._silent, "did not respond"),
            (self._moved, self._stuck, "made no progress"),
        ):
            if now - since > bound:
                self._kill()
                raise Died(f"the process {what} for {bound:,.0f} s and was ended")
        return None

    def end(self) -> None:
        """End the process and its Java."""
        if self._is_ended:
            return
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self._kill()

    def _received(self) -> Message | None:
        try:
            data = os.read(self._output.fileno(), 65536)
        except BlockingIOError:
            return None
        if not data:
            self._kill()
            raise Died(f"the process ended in the middle of it ({_ending(self._process.returncode)})")
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        result = None
        for line in lines:
            message = json.loads(line)
            self._heard = self._steady()
            self.holder = message.get("holder", self.holder)
            if message.get("beat", self._beat) != self._beat:
                self._beat, self._moved = message["beat"], self._heard
            if "result" in message:
                result = message
        return result

    def _kill(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
