"""What every measurement here needs: a broker or console of its own on free ports, the C client, and how to say it.

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

WINDOW = 1000  # a receiver's credit


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A server that listens on `port` by the time the block starts."""
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, text=True
    )
    try:
        limit = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > limit:
                sys.exit(f"does not listen on port {port}: {shlex.join(command)}")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        yield Path(name)


def our_broker(port: int, data: Path) -> list[str]:
    """The command of our broker, open to anonymous clients as for the demo. Its data is in `data`/broker."""
    return [sys.executable, "manage.py", "broker", "--port", str(port), "--data", str(data / "broker"), "--demo"]


async def admin(port: int, data: Path) -> Any:
    from brokers.drivers.bundled import BundledBroker

    secret = (data / "broker" / "console.secret").read_text().strip()
    return await BundledBroker.connect("127.0.0.1", port, "console", secret)


def load_client(into: Path) -> Path:
    """Compile `load.c`."""
    if not shutil.which("gcc") or not shutil.which("pkg-config"):
        sys.exit("the load client needs gcc and pkg-config: apt-get install gcc pkg-config")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libqpid-proton"], capture_output=True, text=True, check=False
    )
    if flags.returncode:
        sys.exit("the load client needs Proton's C headers: apt-get install libqpid-proton11-dev")
    program = into / "load"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "bench/load.c", *flags.stdout.split()], check=True)
    return program


def load_command(
    program: Path,
    port: int,
    queue: str,
    *,
    senders: int,
    receivers: int,
    count: int,
    size: int,
    idle: int = 0,
    pace: int = 0,
    quiet_ms: int = 5000,
) -> list[str]:
    numbers = (senders, idle, receivers, count, size, WINDOW, pace, quiet_ms)
    return [str(program), str(port), queue, *map(str, numbers)]


def load(*arguments: Any, **options: Any) -> dict[str, float]:
    """Run the C client to its end; what it counted."""
    done = subprocess.run(load_command(*arguments, **options), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the load client failed: {done.stderr.strip()}")
    return dict(json.loads(done.stdout))


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """Print one markdown table with its date, machine and how to repeat it."""
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
