"""The samples of `soak.py`, per process and kind of file, and the judgement whether a row of figures is flat.

Pure but for `processes` and `files`, which read /proc and the data folder.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

#: A row's name: (part, measure), such as ("broker", "PSS").
Row = tuple[str, str]
#: Minutes since the start, and the figure.
Point = tuple[float, float]

MB = 1e6

#: A rise from the settled figure to the end that is no growth: this part of the settled figure, or so much if that is
#: more. Allocators, caches of pages and Java's heap move by about so much.
TOLERATED = {"PSS": (0.05, 6 * MB), "descriptors": (0.05, 3), "threads": (0.05, 3), "bytes": (0.10, 8 * MB)}


@dataclass(frozen=True, slots=True)
class Kind:
    """Files of the data folder that belong together. `bound`: why they may grow, as text, and the maximum in bytes if
    it is a number; without it they must not grow."""

    title: str
    patterns: tuple[str, ...]
    bound: str = ""
    most: float = math.inf


#: The first that matches has the file.
KINDS = (
    Kind("broker.log", ("broker/broker.log*",), "rotation: six files of 10 MB", 6 * 10.5 * MB),
    Kind("event journal", ("broker/events.sqlite3*",), "256 MiB of records or 30 days", 400 * MB),
    Kind("configuration", ("broker/config.sqlite3*",)),
    Kind("temporary stores", ("broker/messages/temp.journal/*",)),
    Kind("message stores", ("broker/messages/*.journal/*", "broker/**/*.sqlite3*")),
    Kind("console database", ("console/*.sqlite3*",)),
    Kind("work queue", ("worker/**/*",)),
    Kind("landing", ("history/landing/**/*",), "files that are taken are deleted after 1 h"),
    Kind("tables", ("history/tables/**/*",), "compacted each night, retained for the configured days"),
    Kind("Spark's scratch", ("spark/**/*",)),
    Kind("other files", ("**/*",)),
)


def processes(up: int) -> tuple[dict[Row, float], dict[str, int]]:
    """Return the resources of each process of `up`, and the process id of each service."""
    measures: Counter[Row] = Counter()
    services: dict[str, int] = {}
    parent = psutil.Process(up)
    for process in (parent, *parent.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError, PermissionError):
            name = _name(process)
            if name is None:
                continue
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            pss = next(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
            descriptors, threads = process.num_fds(), process.num_threads()
            if process.ppid() == up:
                services[name] = process.pid
            for measure, value in (("PSS", pss), ("descriptors", descriptors), ("threads", threads)):
                measures[name, measure] += value
    return dict(measures), services


def _name(process: psutil.Process) -> str | None:
    """Return the name, such as `web`; None for an ended process that was not reaped."""
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    words = process.cmdline()
    if words and Path(words[0]).name == "java":
        return "history: Java"
    called = next((n for n, word in enumerate(words) if Path(word).name == "manage.py"), None)
    return str(words[called + 1] if called is not None and called + 1 < len(words) else process.name())


def files(data: Path) -> dict[Row, float]:
    """Return the bytes of each kind of file."""
    sizes: Counter[Row] = Counter({(kind.title, "bytes"): 0 for kind in KINDS})
    for path in data.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            if path.is_file():
                sizes[kind_of(path.relative_to(data)).title, "bytes"] += path.stat().st_size
    return dict(sizes)


def kind_of(path: Path) -> Kind:
    """`path`: from the data folder on."""
    return next(kind for kind in KINDS if any(_matches(path, pattern) for pattern in kind.patterns))


def _matches(path: Path, pattern: str) -> bool:
    """As `Path.full_match` of Python 3.13: `**` stands for any number of folders."""
    folder, several, last = pattern.rpartition("**/")
    if not several:
        return path.match(pattern) and len(path.parts) == len(Path(pattern).parts)
    begin = Path(folder).parts
    return path.parts[: len(begin)] == begin and len(path.parts) > len(begin) and Path(path.name).match(last)


@dataclass(frozen=True, slots=True)
class Judged:
    """`slope`: a hour, by least squares over the points since it settled. `verdict`: `flat`, `bounded` or `grows`."""

    settled: float
    end: float
    most: float
    slope: float
    verdict: str
    bound: str = ""


def judge(row: Row, points: Sequence[Point]) -> Judged:
    """`points`: those after the first minutes, at least two.

    It grows if the fitted line rises by more than is tolerated over the time that was watched, and the later half still
    rises at no less than a third of that pace: a step to a new level, as of a cache that has filled, is no growth.
    """
    values = [value for _, value in points]
    minutes = points[-1][0] - points[0][0]
    slope = _slope(points)
    part, least = TOLERATED[row[1]]
    tolerated = max(part * values[0], least)
    rises = slope * minutes > tolerated and _slope(points[len(points) // 2 :]) * minutes > tolerated / 3
    kind = next((kind for kind in KINDS if kind.title == row[0] and row[1] == "bytes"), None)
    verdict, bound = "grows" if rises else "flat", ""
    if kind is not None and kind.bound:
        verdict, bound = ("bounded", kind.bound) if max(values) <= kind.most else ("grows", f"over: {kind.bound}")
    return Judged(values[0], values[-1], max(values), slope * 60, verdict, bound)


def _slope(points: Sequence[Point]) -> float:
    """Return the slope by least squares; 0 for a single point."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
