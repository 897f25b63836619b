"""The console's files in a backup: its database, and the keys of the secrets in it, both as of one moment.

The database may be elsewhere, and is then not in the backup: only DATABASE_URL says so, which the process that makes a
backup may not have. So a data folder of a console without a database is a fact of its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import unquote

from console.backup.archive import Writer
from console.backup.contents import CONSOLE, DATABASE, files
from console.backup.snapshot import copy, damage, pinned

#: Kinds of the database: in the data folder; in another SQLite file; nowhere, as it seems. Others are named by the
#: scheme of DATABASE_URL.
OWN, OTHER_FILE, MISSING = "sqlite", "another SQLite file", "missing"
_SAME = {"postgres": "postgresql", "pgsql": "postgresql"}

#: `console/brokers/keys.py` writes it, and excludes with the lock a change of the keys until it is in the database too.
KEYS, _KEYS_LOCK = f"{CONSOLE}/brokers.key", f"{CONSOLE}/brokers.lock"


def database_kind(data: Path, environment: Mapping[str, str]) -> str:
    """Return the kind of the database of the console with this data folder."""
    url = environment.get("DATABASE_URL") or ""
    kind = url.partition(":")[0] or OWN
    if url and kind == OWN:
        path = unquote(url.partition("?")[0].removeprefix("sqlite://")[1:])
        return OWN if Path(path).resolve() == (data / DATABASE).resolve() else OTHER_FILE
    return same_kind(kind)


def same_kind(kind: str) -> str:
    """Return the one name of a kind that has several."""
    return _SAME.get(kind, kind)


def add_database(archive: Writer, data: Path, copies: Path, kind: str) -> tuple[str, dict[str, str]]:
    """Add the database, if it is in the data folder, and the keys. Return its kind, which may be MISSING, and name ->
    damage if it is damaged. Raises BackupError, OSError."""
    if kind == OWN and not (data / DATABASE).exists():
        kind = MISSING if (data / CONSOLE).exists() else OWN
    path, copied = data / DATABASE, copies / DATABASE
    with ExitStack() as stack:
        with _keys_unchanged(data):
            connections = stack.enter_context(pinned({DATABASE: path} if path.exists() and kind == OWN else {}))
            if (data / KEYS).exists():
                archive.add(KEYS, data / KEYS)
        for db in connections.values():
            copy(db, copied, archive.look)
    if kind != OWN or not path.exists():
        return kind, {}
    if not connections:  # SQLite cannot even open it
        copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
    found = damage(copied)
    archive.add(DATABASE, copied)
    copied.unlink()
    return kind, {DATABASE: found} if found else {}


def add_others(archive: Writer, data: Path) -> None:
    """Add the console's other files."""
    for name, path in files(data, CONSOLE):
        if name not in (DATABASE, KEYS):
            archive.add(name, path)


@contextmanager
def _keys_unchanged(data: Path) -> Iterator[None]:
    """Exclude a change of the keys. The lock is not created here: it would belong to the user who makes the backup."""
    try:
        lock = os.open(data / _KEYS_LOCK, os.O_RDONLY)
    except FileNotFoundError:  # there are no keys yet
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)
