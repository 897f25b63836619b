"""Where Spark keeps what it needs while it runs: a folder of the process's own in the data folder.

Spark's own choice is the machine's folder for temporary files, where each Java that is killed leaves what it had.
Here the process removes its folder at its end, and if it was killed, the next one that begins does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = ".lock"
#: Of this process: folder -> the open lock that says so for as long as the process lives.
_mine: dict[Path, int] = {}


def claim(base: Path) -> Path:
    """Make this process a folder in `base`, and remove those of processes that have gone. Raises OSError."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (base / _LOCK).open("a") as together:
        # Between the making of a folder and its lock nobody else looks.
        fcntl.flock(together, fcntl.LOCK_EX)
        for old in base.iterdir():
            if old.is_dir() and not _is_held(old):
                shutil.rmtree(old, ignore_errors=True)  # what cannot be removed now is tried again by the next one
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


def _is_held(folder: Path) -> bool:
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
