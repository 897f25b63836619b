"""A service that is started as soon as it is needed."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from pathlib import Path

from console.up.supervisor import Service, Supervisor


def test_a_service_starts_when_it_is_needed_and_not_before(tmp_path: Path) -> None:
    needed, started = tmp_path / "needed", tmp_path / "started"
    supervisor = Supervisor(io.StringIO())
    script = f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(600)"
    looks = 0

    def is_needed() -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            assert not started.exists()
            needed.touch()
        return needed.exists()

    async def start() -> None:
        service = Service("late", (sys.executable, "-c", script), essential=False)
        supervisor.keep_once(is_needed, service, look_seconds=0.01)
        while not started.exists():  # noqa: ASYNC110 - a file of another process
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    assert asyncio.run(supervisor.run(start)) == 0
    assert looks == 3


def test_a_folder_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """Such as one that another user's command has created."""
    supervisor = Supervisor(io.StringIO())
    looks = 0

    def is_needed() -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        raise PermissionError(13, "Permission denied", str(tmp_path))

    async def start() -> None:
        supervisor.keep_once(is_needed, Service("late", ("false",), essential=False), look_seconds=0.01)

    assert asyncio.run(supervisor.run(start)) == 0
    assert looks >= 3
