"""The supervisor of Headgate's processes: start them, show their output, restart ended ones, stop all.

The promise is that nothing outlives the supervisor. Stopped by a signal, it sends TERM to every process group and KILL
to what is left after `KILL_AFTER` seconds; killed itself (even with -9), the kernel kills its children (Linux'
parent-death signal). It knows commands and exit codes, never what the commands do. With JSON as log format, each line
is a record (`brokers/log_records.py`): those of the processes are passed on with `process`, and other output, such as
the traceback of a process that could not start, is put into records.

Why not honcho: its manager ends everything as soon as one process ends (no restart), starts all at once (no waiting
for one that the next needs), runs commands through a shell behind a forked copy of itself, and a kill -9 of it leaves
both behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from brokers import log_records
from console.up.process_output import Collected, Output, Records, Shown
from console.up.shown_lines import ShownLines

#: Seconds between TERM and KILL. All end within two where the machine has time for them; where it has not they get
#: more, within the ten seconds after which those who stop services commonly kill these themselves.
KILL_AFTER = 8.0
AT_ONCE = 5.0  # seconds: a process that ends earlier has failed at once
ATTEMPTS = 4  # consecutive failures at once after which an essential process ends everything
LONGEST_PAUSE = 30.0  # seconds between restarts, at most
STEADY = 60.0  # seconds: after running this long, a process restarts with the shortest pause again
LAST_LINES = 15  # lines of a process's output that explain its end

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Failed(Exception):
    """Something that the whole needs does not work. The message is for people; `lines` are a process's last words."""

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)


@dataclass(frozen=True, slots=True)
class Service:
    """A supervised command.

    `ready`: whether it is ready; polled for at most `ready_within` seconds. `essential`: its failure stops everything;
    any other process stops nothing else, however often it ends, and is always restarted.
    `show_stdout`: show its ordinary output, too; its standard
    error is always shown.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], Awaitable[bool]] | None = None
    ready_within: float = 60.0
    essential: bool = True
    show_stdout: bool = False


class Restarts:
    """How long to wait before a process is started again: longer with every end, until it has lived for a while."""

    def __init__(self, first_pause: float, longest_pause: float = LONGEST_PAUSE, steady: float = STEADY) -> None:
        self._first, self._longest, self._steady = first_pause, longest_pause, steady
        self.ends = 0  # consecutive; reset after a steady run
        self.at_once = 0  # in a row

    def ended(self, lived: float) -> float:
        """Return the seconds to wait before a restart, by the seconds for which it ran."""
        self.ends = self.ends + 1 if lived < self._steady else 1
        self.at_once = self.at_once + 1 if lived < AT_ONCE else 0
        return min(self._first * 2.0 ** min(self.ends - 1, 32), self._longest)


class Supervisor:
    """Runs services until a signal or a failure. Call `run` once, in the main thread: the kernel ties the children's
    lives to the thread that started them."""

    def __init__(self, out: TextIO = sys.stdout, *, first_pause: float = 0.5, name_width: int = 8) -> None:
        self._shown = ShownLines(
            out, lambda n: self._line("up", f"{n:,} lines were not shown: nothing has read the output")
        )
        self._first_pause = first_pause
        self._width = name_width
        #: In the records of the processes, so that nothing else that they write passes for one; "": lines are text.
        self._mark = secrets.token_hex(16) if log_records.is_json() else ""
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._processes: set[asyncio.subprocess.Process] = set()

    async def run(self, start: Callable[[], Coroutine[Any, Any, None]]) -> int:
        """Run `start`, which calls `keep` and `complete`, then wait for the end. 0: ended by a signal; 1: a failure."""
        loop = asyncio.get_running_loop()
        # `nohup` has the end of the terminal ignored, which stops nothing then.
        numbers = [n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            self._task(start())
            await self._ended.wait()
        finally:
            await self._stop()
            for number in numbers:
                loop.remove_signal_handler(number)
            self.say("up", "stopped")
            await self._shown.finish(1.0)
        if self._failure is None:
            return 0
        if not isinstance(self._failure, Failed):
            raise self._failure
        self._complain(self._failure)
        return 1

    async def keep(self, service: Service) -> bool:
        """Start a service and keep it running; return when it is ready for the first time. False: it is not essential,
        and is not ready yet. Raises Failed."""
        ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._task(self._keep(service, ready))
        try:
            return await asyncio.wait_for(ready, service.ready_within)
        except TimeoutError:
            message = f"is not ready after {service.ready_within:g} s"
            if service.essential:
                raise Failed(f"{service.name} {message}") from None
            self.say(service.name, f"{message}; the rest goes on without it")
            return False

    def keep_once(self, needed: Callable[[], bool], service: Service, *, look_seconds: float = 1.0) -> None:
        """Start a service as soon as it is needed, and keep it running. Returns at once. As long as `needed` raises
        OSError, it is not."""

        def is_needed() -> bool:
            with contextlib.suppress(OSError):
                return needed()
            return False

        async def waiting() -> None:
            while not is_needed():  # noqa: ASYNC110 - a file, without an event
                await asyncio.sleep(look_seconds)
            await self.keep(service)

        self._task(waiting())

    async def complete(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> str:
        """Run a command to its end and return its standard output. Raises Failed with its last lines."""
        lines: deque[str] = deque(maxlen=LAST_LINES)
        output: list[str] = []
        process = await self._spawn(command, environment)
        await self._read(process, lines, Collected(output), Collected())
        if code := process.returncode:
            raise Failed(f"{name} {_ending(code)}", lines)
        return "\n".join(output)

    def say(self, name: str, text: str) -> None:
        """Show one line of output. A terminal that has gone stops nothing."""
        self._shown.write(self._line(name, text))

    def record(self, name: str, message: str, *, level: str = "INFO", logger: str = "up", **more: Any) -> None:
        """Show a record. A terminal that has gone stops nothing."""
        self._show_record({**log_records.record_of(message, level, logger, **more), "process": name})

    def show(self, text: str) -> None:
        """Show lines as they are."""
        self._shown.write(text.removesuffix("\n"))

    # -- inside -------------------------------------------------------------------------------------------------

    def _line(self, name: str, text: str) -> str:
        """Return a line of output, in the log format."""
        if not self._mark:
            return f"{name:<{self._width}}| {text}"
        return log_records.line_of({**log_records.record_of(text, "INFO", "up"), "process": name})

    def _show_record(self, record: Mapping[str, Any]) -> None:
        self._shown.write(log_records.line_of(record))

    def _complain(self, failure: Failed) -> None:
        if self._mark:
            self.record("up", str(failure), level="CRITICAL", lines="\n".join(failure.lines))
            return
        with contextlib.suppress(OSError):
            sys.stderr.write("".join(f"  {line}\n" for line in failure.lines) + f"headgate up: {failure}\n")

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._ended.set()

    def _on_signal(self, number: int) -> None:
        if not self._ended.is_set():
            self.say("up", "stopping")
        self._ended.set()

    async def _keep(self, service: Service, ready: asyncio.Future[bool]) -> None:
        restarts = Restarts(self._first_pause)
        while True:
            lines: deque[str] = deque(maxlen=LAST_LINES)
            started = time.monotonic()
            try:
                process = await self._spawn(service.command, service.environment)
            except (OSError, subprocess.SubprocessError) as error:
                # Too little memory or too many processes at this moment, or a program that is being replaced: no reason
                # to stop the others.
                ending = f"could not be started ({getattr(error, 'strerror', None) or error})"
            else:
                asking = asyncio.ensure_future(self._ask(service, ready, again=restarts.ends > 0 or ready.done()))
                try:
                    await self._read(process, lines, self._show(service, "stdout"), self._show(service, "stderr"))
                finally:
                    asking.cancel()
                ending = _ending(process.returncode or 0)
            ran = time.monotonic() - started
            pause = restarts.ended(ran)
            if restarts.at_once >= ATTEMPTS:
                if service.essential:
                    message = f"{service.name} {ending}, at once {restarts.at_once} times in a row"
                    raise Failed(f"{message}: everything is stopped. Above: its last lines", lines)
                if not ready.done():
                    ready.set_result(False)
            often = f", {restarts.ends:,} times in a row; the rest goes on" if restarts.ends > 1 else ""
            self.say(service.name, f"{ending} after {ran:.1f} s{often}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)

    async def _ask(self, service: Service, ready: asyncio.Future[bool], *, again: bool) -> None:
        while service.ready is not None and not await service.ready():  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # another process' state sends no event
        if again:
            self.say(service.name, "runs again")
        if not ready.done():
            ready.set_result(True)

    def _show(self, service: Service, stream: str) -> Output:
        if stream == "stdout" and not service.show_stdout:
            return Collected()
        if self._mark:
            return Records(self._show_record, service.name, stream, self._mark)
        return Shown(lambda line: self.say(service.name, line))

    async def _spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment, log_records.MARK: self._mark},
            # A group of its own: a terminal's Ctrl-C reaches only the supervisor, which then stops all in order.
            process_group=0,
            preexec_fn=_die_with(os.getpid()),
        )
        self._processes.add(process)
        return process

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        lines: deque[str],
        on_stdout: Output,
        on_stderr: Output,
    ) -> None:
        """Take a process's output until it ends. What its own children still write is not waited for."""
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [
            asyncio.get_running_loop().create_task(_pump(process.stdout, lines, on_stdout)),
            asyncio.get_running_loop().create_task(_pump(process.stderr, lines, on_stderr)),
        ]
        self._pumps.update(pumps)
        for pump in pumps:
            pump.add_done_callback(self._pumps.discard)
        await process.wait()
        await asyncio.wait(pumps, timeout=0.5)
        self._processes.discard(process)
        _kill(process.pid, signal.SIGKILL)  # its remaining children

    async def _stop(self) -> None:
        """The pumps go on meanwhile, lest a process hang on a full pipe."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        processes = tuple(self._processes)
        if processes:
            for process in processes:
                _kill(process.pid, signal.SIGTERM)
            ends = [asyncio.ensure_future(process.wait()) for process in processes]
            _done, late = await asyncio.wait(ends, timeout=KILL_AFTER)
            for process in processes:
                _kill(process.pid, signal.SIGKILL)
            if late:
                self.say("up", f"{len(late)} did not stop within {KILL_AFTER:g} s and had to be killed")
                await asyncio.wait(late)
        if self._pumps:
            await asyncio.wait(self._pumps, timeout=0.3)
        for pump in tuple(self._pumps):
            pump.cancel()


async def _pump(stream: asyncio.StreamReader, lines: deque[str], output: Output) -> None:
    try:
        while True:
            try:
                data = await stream.readline()
            except ValueError:  # a line longer than the limit: asyncio has dropped it
                continue
            if not data:
                return
            lines.append(output.line(data.decode("utf-8", "replace").rstrip()))
    finally:
        output.end()


def _die_with(parent: int) -> Callable[[], None] | None:
    """What a child does between fork and exec so that the kernel kills it when the supervisor is gone."""
    if _LIBC is None:
        return None
    prctl = _LIBC.prctl

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(1)

    return in_child


def _kill(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
