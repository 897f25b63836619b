"""Common parts of the measurements: a broker or console of its own on free ports, the C clients, and printed tables.

Everything runs on loopback, in a folder that is removed afterwards.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from processor_time import family_seconds

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

#: Each C client with the sources that it needs beside its own.
PROGRAMS = {"load": ("wire", "coordinator"), "many": ("wire",)}
LISTEN_SECONDS = 60
END_SECONDS = 15

#: A broker is at rest when it needs at most this share of a core.
REST_SHARE, REST_EVERY, REST_LIMIT = 0.1, 0.1, 3.0


class Failed(SystemExit):
    """A measurement failed. Uncaught, it ends the script with its text."""


# -- servers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A running broker. `options`: a client's options for it, `queue_options`: for queues only. `prefix`: of the
    address of a queue, `topic_prefix`: of a topic. `lacks`: what it does not support, with a short reason.
    `durability`: what it does before it accepts a durable message.
    """

    title: str
    port: int
    process: int
    options: tuple[str, ...] = ()
    prefix: str = ""
    queue_options: tuple[str, ...] = ()
    topic_prefix: str = "topic://"
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)
    durability: str = ""
    collect: Callable[[], None] = lambda: None  # have it collect its garbage

    def cpu_seconds(self) -> float:
        """Return the processor time of the process and its children so far, which, unlike the rate, hardly depends on
        the machine's other load."""
        try:
            return family_seconds(self.process)
        except ProcessLookupError:
            raise Failed(f"{self.title}: its process has ended") from None

    def cpu_seconds_at_rest(self) -> float:
        """Return the same once what the last messages still cause is done, such as acknowledgements on the disk."""
        limit = time.monotonic() + REST_LIMIT
        before, then = self.cpu_seconds(), time.monotonic()
        while True:
            time.sleep(REST_EVERY)  # the kernel counts time and does not report that a process has come to rest
            spent, now = self.cpu_seconds(), time.monotonic()
            if spent - before <= REST_SHARE * (now - then) or now > limit:
                return spent
            before, then = spent, now

    def memory(self) -> int:
        """Return the resident bytes of the process and its children, after a garbage collection."""
        self.collect()
        process = psutil.Process(self.process)
        return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    port: int,
    environment: Mapping[str, str] | None = None,
    *,
    into: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, which listens on `port` when the block starts. Its output goes to the file `into`."""
    with open(into or os.devnull, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output if into else None,
        )
    try:
        limit = time.monotonic() + LISTEN_SECONDS
        while not listens(port):
            if process.poll() is not None or time.monotonic() > limit:
                said = into.read_text(errors="replace")[-2000:] if into else ""
                raise Failed(f"does not listen on port {port}: {shlex.join(map(str, command))}\n{said}".strip())
            time.sleep(0.05)  # another product's process does not report that it listens
        yield process
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        yield Path(name)


def our_broker(port: int, data: Path) -> list[str]:
    """Return the command of Headgate's broker, open to anonymous clients as for the demo, with its data in
    `data`/broker."""
    return [sys.executable, "manage.py", "broker", "--port", str(port), "--data", str(data / "broker"), "--demo"]


async def admin(port: int, data: Path) -> Any:
    from brokers.drivers.bundled import BundledBroker

    secret = (data / "broker" / "console.secret").read_text().strip()
    return await BundledBroker.connect("127.0.0.1", port, "console", secret)


async def limit(port: int, data: Path, capacity: int) -> None:
    """Set the default capacity of Headgate's queues, in messages."""
    from brokers.model import object_name

    broker = await admin(port, data)
    host = await broker.read(object_name("VirtualHost", name="default"))
    await broker.update(host.name, {"capacity_messages": capacity}, host.version)
    await broker.close()


# -- the C clients ----------------------------------------------------------------------------------------------------


def load_clients(into: Path) -> None:
    """Compile them."""
    if not shutil.which("gcc") or not shutil.which("pkg-config"):
        raise Failed("the load clients need gcc and pkg-config: apt-get install gcc pkg-config")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libqpid-proton"], capture_output=True, text=True, check=False
    )
    if flags.returncode:
        raise Failed("the load clients need Proton's C headers: apt-get install libqpid-proton11-dev")
    folder = ROOT / "bench"
    for name, others in PROGRAMS.items():
        sources = [folder / f"{each}.c" for each in (name, *others)]
        subprocess.run(["gcc", "-O2", "-o", into / name, *sources, *flags.stdout.split()], check=True)


def client_command(program: Path, broker: Broker, queue: str, **options: int | bool) -> list[str]:
    """The command of a C client. An option that is True has no value. `topic`: `queue` is a topic."""
    topic = bool(options.get("topic"))
    address = (broker.topic_prefix if topic else broker.prefix) + queue
    words = [str(program), "--port", str(broker.port), "--address", address, *broker.options]
    words += () if topic else broker.queue_options
    for name, value in options.items():
        if value is not False:
            words += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    return words


def load(programs: Path, broker: Broker, queue: str, *, limit_seconds: float = 300, **options: int | bool) -> Any:
    """Run `load` to its end; return its counters. See `load.c` for the options."""
    command = client_command(programs / "load", broker, queue, **options)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"{broker.title}: not done after {limit_seconds:g} s") from None
    if done.returncode:
        raise Failed(f"{broker.title}: {done.stderr.strip()}")
    return json.loads(done.stdout)


# -- saying it --------------------------------------------------------------------------------------------------------


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """Print one Markdown table with date, machine and command."""
    now = datetime.datetime.now(datetime.UTC)
    print(f"### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    command = shlex.join(["uv", "run", *(os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:])])
    print(f"\n{now:%Y-%m-%d}, {machine()}. " + " ".join(notes) + f"\nRepeat: `{command}`")


def machine() -> str:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor() or platform.machine(),
    )
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
