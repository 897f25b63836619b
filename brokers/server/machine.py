"""The machine's memory, or a lower limit of the container's control group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


class Memory(NamedTuple):
    """`size` in bytes; `what`: the name of what has that size."""

    size: int
    what: str


def memory(groups: Path = _GROUPS, own: Path = _OWN) -> Memory:
    """Return the machine's memory, or the lowest limit of this process's control groups, if that is lower."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = min((found for file in _files(groups, own) if (found := _limit(file))), default=machine)
    return Memory(limit, "the container's memory") if limit < machine else Memory(machine, "the machine's memory")


def _files(groups: Path, own: Path) -> list[Path]:
    """Yield the files of possible limits: of version 2 in each group from the process's own upwards, then of version
    1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    files = [groups / "memory.max", groups / "memory" / "memory.limit_in_bytes"]
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        root, name = (groups, "memory.max") if not controllers else (groups / "memory", "memory.limit_in_bytes")
        if controllers and "memory" not in controllers.split(","):
            continue
        group = Path(path.lstrip("/"))
        files += [root / each / name for each in (group, *group.parents)]
    return files


def _limit(file: Path) -> int:
    """Return a limit in bytes; 0: none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdecimal() else 0
