"""Scratch folders of Spark: one per process, in the data folder.

Spark's default is the machine's folder for temporary files, where a killed Java leaves its files.
Here the process removes its folder at its end, and that of a killed process is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = ".lock"
#: Folders of this process -> the open descriptor of the lock that it owns on the folder.
_mine: dict[Path, int] = {}


def claim(base: Path) -> Path:
    """Create a folder in `base` for this process, and remove those of ended processes. Raises OSError."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (base / _LOCK).open("a") as together:
        # Excludes other processes until the new folder is locked.
        fcntl.flock(together, fcntl.LOCK_EX)
        for old in base.iterdir():
            if old.is_dir() and not _is_locked(old):
                shutil.rmtree(old, ignore_errors=True)  # the next process retries
        made = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=base))
        _mine[made] = os.open(made / _LOCK, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(_mine[made], fcntl.LOCK_EX)
    return made


def leave() -> None:
    """Remove the folders of this process."""
    while _mine:
        made, lock = _mine.popitem()
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _is_locked(folder: Path) -> bool:
    if folder in _mine:
        return True
    with suppress(FileNotFoundError):
        descriptor = os.open(folder / _LOCK, os.O_WRONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
    return False
