"""Programs in other languages: built once, run with a scenario's name; their result is a printed line of JSON.

A peer that is not installed skips its tests, with what is missing and how to get it. With `HEADGATE_PEERS=required`
(as `.ci/run` sets it) that is a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

#: A scenario may take this long, in seconds, and so may a build.
SCENARIO_SECONDS = 60.0
BUILD_SECONDS = 240.0

#: Locked by the process that builds.
TURNS = Path(tempfile.gettempdir()) / f"headgate-peers-{os.getuid()}.lock"


def absent(what: str, how: str) -> NoReturn:
    reason = f"{what}; to run these tests: {how}"
    if os.environ.get("HEADGATE_PEERS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def need(command: str, how: str) -> str:
    """The path of a command."""
    return shutil.which(command) or absent(f"{command} is not installed", how)


def built(cache: Path, sources: list[Path], build: Callable[[Path], None]) -> Path:
    """Return a folder in `cache` in which `build` has run; it runs again only if one of `sources` has changed.
    Processes build in turns: the folder is for all of them, and so is Maven's local repository, which one Maven at a
    time may write."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache / digest
    with TURNS.open("w") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            build(folder)
            (folder / "complete").touch()
    return folder


def run(what: str, how: str, *command: str | Path, cwd: Path | None = None) -> None:
    """A step of a build that needs something from elsewhere; without it, the peer is `absent`."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=BUILD_SECONDS, cwd=cwd)
    except subprocess.TimeoutExpired:
        absent(f"{what} took more than {BUILD_SECONDS:g} s", how)
    except subprocess.CalledProcessError as failed:
        absent(f"{what} failed: {(failed.stdout + failed.stderr).strip()[-600:]}", how)


@dataclass(frozen=True)
class Peer:
    """`command` takes the scenario's name, the broker's URL and options as KEY=VALUE."""

    command: list[str]
    url: Callable[[int], str]

    def over_tls(self) -> Peer:
        return replace(self, url=lambda port: self.url(port).replace("amqp://", "amqps://"))

    @contextmanager
    def playing(self, scenario: str, port: int, uri: str = "", **options: int | str) -> Iterator[Running]:
        given = [f"{key}={value}" for key, value in options.items()]
        process = subprocess.Popen(
            [*self.command, scenario, self.url(port) + uri, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def play(self, scenario: str, port: int, uri: str = "", **options: int | str) -> dict[str, Any]:
        with self.playing(scenario, port, uri, **options) as running:
            return running.seen()


class Running:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def seen(self) -> dict[str, Any]:
        """Wait for the scenario's end; return its results."""
        out, err = self.process.communicate(timeout=SCENARIO_SECONDS)
        try:
            found = json.loads(out.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise AssertionError(f"it printed no line of JSON: {out!r} {err!r}") from None
        assert isinstance(found, dict)
        assert not err, err
        return found

    def terminate(self) -> dict[str, Any]:
        """End the scenario with SIGTERM; return its results."""
        assert not self.ended, self.seen()
        self.process.terminate()
        return self.seen()

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None
