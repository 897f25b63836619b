"""What of a data folder belongs to a backup.

Not what is made again at each start (locks, SQLite's logs, the temporary store, the reserve of disk space), nor logs,
nor the messages between the console's processes: their work is in the database, where it is found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

#: The folders of a data folder that are backed up.
BROKER, CONSOLE, ADAPTERS, HISTORY = "broker", "console", "adapters", "history"
FOLDERS = (BROKER, CONSOLE, ADAPTERS, HISTORY)
#: What else Headgate has in a data folder.
_LEFT_OUT = ("worker", "up.lock")

DATABASE = f"{CONSOLE}/console.sqlite3"
#: Delta Lake's log of a table: which of its files are the table, by version.
LOG = "_delta_log"

_SKIPPED = re.compile(r"\..*|.*\.lock|.*-(wal|shm|journal|reserve)|temp\.sqlite3|.*\.log(\.\d+)?|.*-mended")


def files(data: Path, top: str) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of each file that belongs to a backup below a folder of the data folder, in order."""
    for folder, folders, names in os.walk(data / top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not _SKIPPED.fullmatch(name) and path.is_file():
                yield path.relative_to(data).as_posix(), path


def strangers(data: Path) -> list[str]:
    """Return what is in the data folder and not Headgate's, which no backup contains."""
    return sorted(
        entry.name for entry in data.iterdir() if entry.name not in (*FOLDERS, *_LEFT_OUT) and entry.name[0] != "."
    )
