"""What of a data folder belongs to a backup.

Not what is made again at each start (locks, SQLite's logs, the temporary store), nor logs, nor stores that are being
written or deleted, nor the messages between the console's processes: their work is in the database, where it is found.
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

#: The databases that processes write, by name: a store is one that an earlier release has left. What else looks like
#: one (a damaged store, or one that was set aside) is a file like others: nothing opens it, and its damage is known.
_STORE = re.compile(rf"{BROKER}/messages/[^/]+-[^/]+\.sqlite3")
#: The folders in which the broker has the messages of its virtual hosts; and others of them, which are worth nothing.
_JOURNAL = re.compile(rf"{BROKER}/messages/[^/]+-[^/]+\.journal")
_NO_JOURNAL = re.compile(rf"{BROKER}/messages/(temp\.journal|[^/]+\.journal\.(new|ready|old|deleted(-\d+)?))")
_OTHERS = re.compile(rf"{BROKER}/(config|events)\.sqlite3|{ADAPTERS}/.+\.sqlite3|{re.escape(DATABASE)}")
#: Nothing starts without these.
_NEEDED = re.compile(rf"({BROKER}|{ADAPTERS})/config\.sqlite3|{re.escape(DATABASE)}")
_SET_ASIDE = re.compile(rf"{BROKER}/messages-set-aside-[^/]+/.+")

_SKIPPED = re.compile(r"\..*|.*\.lock|.*-(wal|shm|journal|reserve)|temp\.sqlite3|.*\.log(\.\d+)?|.*-mended")
_SKIPPED_IN_JOURNALS = re.compile(r"lock|.*\.new")


def is_database(name: str) -> bool:
    """Return whether a file with this name in the data folder is a database that a process may be writing."""
    return is_store(name) or _OTHERS.fullmatch(name) is not None


def is_needed(name: str) -> bool:
    """Return whether it is a database that must be undamaged: what else is damaged is repaired when it is opened."""
    return _NEEDED.fullmatch(name) is not None


def is_store(name: str) -> bool:
    """Return whether a file with this name in the data folder is the message store of a virtual host, of an earlier
    release."""
    return _STORE.fullmatch(name) is not None


def journal_of(name: str) -> str:
    """Return the name of the journal that a file in the data folder is part of; "" if it is of none."""
    folder = name.rpartition("/")[0]
    return folder if _JOURNAL.fullmatch(folder) else ""


def journals(data: Path) -> dict[str, Path]:
    """Return the journals of the broker in the data folder, by their names in it."""
    found = {
        path.relative_to(data).as_posix(): path for path in sorted((data / BROKER / "messages").glob("*-*.journal"))
    }
    return {name: path for name, path in found.items() if path.is_dir()}


def _belongs(name: str) -> bool:
    # A virtual host's name may begin with a dot. A store that was set aside has its newest messages in its log.
    if is_store(name) or _SET_ASIDE.fullmatch(name):
        return not name.endswith(("-shm", "-reserve"))
    if journal_of(name):
        return not _SKIPPED_IN_JOURNALS.fullmatch(name.rpartition("/")[2])
    return not _SKIPPED.fullmatch(name.rpartition("/")[2])


def files(data: Path, top: str) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of each file that belongs to a backup below a folder of the data folder, in order."""
    for folder, folders, names in os.walk(data / top):
        place = Path(folder).relative_to(data).as_posix()
        folders[:] = sorted(name for name in folders if _is_visited(f"{place}/{name}"))
        for name in sorted(names):
            path = Path(folder, name)
            relative = path.relative_to(data).as_posix()
            if _belongs(relative) and path.is_file():
                yield relative, path


def _is_visited(folder: str) -> bool:
    if _JOURNAL.fullmatch(folder) or _SET_ASIDE.fullmatch(folder):  # a virtual host's name may begin with a dot
        return True
    return not folder.rpartition("/")[2].startswith(".") and not _NO_JOURNAL.fullmatch(folder)


def strangers(data: Path) -> list[str]:
    """Return what is in the data folder and not Headgate's, which no backup contains."""
    return sorted(
        entry.name for entry in data.iterdir() if entry.name not in (*FOLDERS, *_LEFT_OUT) and entry.name[0] != "."
    )
