"""Free disk space for a backup: looked at before it begins, and while it is made.

On the disk of the data folder a backup leaves what the broker needs to go on. Without that, the broker would refuse
messages because of the backup: while it is made, the stores and the databases' logs grow.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from console.backup.archive import BackupError
from console.backup.contents import BROKER, files, is_database, journal_of, journals


class NoSpace(BackupError):
    """A backup would use space that the broker needs, or that is not there."""


def check(data: Path, folder: Path, parts: Iterable[str]) -> Callable[[], None]:
    """Raise NoSpace unless a backup of these folders of the data folder fits into `folder`. Return a function that
    raises it when the data folder's disk gets full, to be called now and then."""
    sizes = {name: _bytes(path) for part in parts for name, path in files(data, part)}
    # The uncompressed copies, one of which is still there when it is in the archive, and all else in the archive.
    needed = sum(sizes.values()) + max(
        (size for name, size in sizes.items() if is_database(name) or journal_of(name)), default=0
    )
    margin = _margin(data)
    if folder.stat().st_dev == data.stat().st_dev:
        needed += margin
    if (free := _free(folder)) < needed:
        raise NoSpace(
            f"{folder} has {_size(free)} of free disk space, and the backup needs up to {_size(needed)}: free some, or"
            " write the backup to another disk"
        )

    def look() -> None:
        if (left := _free(data)) < margin:
            raise NoSpace(
                f"it was stopped, since the disk of {data} has {_size(left)} left, and the broker needs {_size(margin)}"
            )

    return look


def _margin(data: Path) -> int:
    """Return the bytes that remain free: as much as the databases' logs have, and two files of each journal, which
    grows meanwhile, since nothing in it is freed."""
    beside = (path for path in (data / BROKER).rglob("*") if path.name.endswith(("-wal", "-reserve")))
    files_of = (journal.glob("*.segment") for journal in journals(data).values())
    return sum(map(_bytes, beside)) + sum(2 * max(map(_bytes, segments), default=0) for segments in files_of)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has gone meanwhile
        return 0


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _size(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
