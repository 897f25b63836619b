"""The pipeline as separate processes, and the resulting tables, read without Spark."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from console.history.storage.layout import LAYOUTS
from tests.history.delta import read

ROOT = Path(__file__).resolve().parent.parent.parent
#: Tables that depend only on the landed rows.
COMPARED = tuple(name for name in LAYOUTS if name != "recommendations")


def environment(data: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process with the data folder `data`."""
    own = {"HEADGATE_DATA": str(data), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
    return {key: value for key, value in os.environ.items() if not _of_another(key)} | own | more


def _of_another(variable: str) -> bool:
    """Whether it is about another data folder or cluster. SPARK_SUBMIT_OPTS is how all tests run Java."""
    return variable.startswith(("HEADGATE_", "SPARK_")) and variable != "SPARK_SUBMIT_OPTS"


def manage(*arguments: str, env: Mapping[str, str], within: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


@contextlib.contextmanager
def running(*command: str, env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in a separate group, which is killed at the end."""
    with (
        log.open("ab") as out,
        subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0
        ) as process,
    ):
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its Java with -9."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, sorted."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name in COMPARED:
        table = read(url, name)
        columns = sorted(table.column_names)
        values = zip(*(table[column].to_pylist() for column in columns), strict=True)
        found[name] = sorted((tuple(map(_plain, row)) for row in values), key=repr)
    return found


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
