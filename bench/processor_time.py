"""Processor time of a process with its descendants, from `/proc`: user and system, with that of children that ended."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Stat(NamedTuple):
    """`ticks`: of the process itself and of those of its children that ended and that it waited for."""

    process: int
    parent: int
    ticks: int


def parse_stat(text: str) -> Stat:
    """Read the text of `/proc/PID/stat`; see proc(5). The program's name may contain spaces and parentheses."""
    process, _, rest = text.partition(" (")
    fields = rest[rest.rindex(")") + 1 :].split()  # the first is the third of the file
    return Stat(int(process), int(fields[1]), sum(map(int, fields[11:15])))


def family_ticks(stats: Iterable[Stat], ancestor: int) -> int:
    """Add up the ticks of a process and its descendants. Raises ProcessLookupError if it is not among the processes."""
    by_id = {each.process: each for each in stats}
    if ancestor not in by_id:
        raise ProcessLookupError(f"there is no process {ancestor}")
    children: dict[int, list[int]] = {}
    for each in by_id.values():
        children.setdefault(each.parent, []).append(each.process)
    total, line = 0, [ancestor]
    while line:
        process = line.pop()
        total += by_id[process].ticks
        line += children.get(process, ())
    return total


def family_seconds(process: int, proc: Path = PROC) -> float:
    """Return the seconds so far. A child that ends during the call may be missed, or counted twice."""
    return family_ticks(_stats(proc), process) / os.sysconf("SC_CLK_TCK")


def _stats(proc: Path) -> Iterable[Stat]:
    for folder in proc.glob("[0-9]*"):
        try:
            yield parse_stat((folder / "stat").read_text(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
