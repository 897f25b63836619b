"""Copies of SQLite databases that other processes write, all as of one moment.

`pinned` begins a read transaction on each: from then on it sees the database as it is now, whatever is committed later,
and delays no writer. `copy` is SQLite's own copy of the pages, so that checksums in the rows stay what they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from console.backup.archive import BackupError

#: How long to wait for a process that has just opened or is closing a database, s.
_WAIT_SECONDS = 20.0
#: Pages that are copied at once.
_PART_PAGES = 1000


@contextmanager
def pinned(paths: Mapping[str, Path]) -> Iterator[dict[str, sqlite3.Connection]]:
    """Yield a connection to each database by its name, with the content of one moment; none to one that is damaged so
    much that it cannot be opened. Raises BackupError."""
    with ExitStack() as stack:
        found: dict[str, sqlite3.Connection] = {}
        damaged: set[str] = set()
        for name, path in paths.items():
            with _failures_named(path):
                uri = f"file:{quote(str(path.resolve()))}?mode=ro"
                db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_WAIT_SECONDS)
                found[name] = stack.enter_context(closing(db))
        # Opened first, so that the moments are as close to each other as can be.
        for name, db in found.items():
            with _failures_named(paths[name]):
                try:
                    db.execute("BEGIN")
                    db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                        raise
                    db.close()
                    damaged.add(name)
        yield {name: db for name, db in found.items() if name not in damaged}


def copy(db: sqlite3.Connection, to: Path, look: Callable[[], None]) -> None:
    """Copy what a pinned connection sees into a new file, and release the database. `look` is called with each part.
    Raises BackupError, and what `look` raises."""
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    to.touch(mode=0o600, exist_ok=False)
    with _failures_named(to):
        with closing(sqlite3.connect(to, isolation_level=None)) as target:
            # A copy that a crash destroys is worth nothing anyway: the archive is what is made durable.
            target.execute("PRAGMA synchronous=OFF")
            db.backup(target, pages=_PART_PAGES, progress=lambda *_: look())
        db.execute("ROLLBACK")


def damage(path: Path) -> str:
    """Return what SQLite finds wrong with a database that no process uses; "": nothing."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if found == "ok" else " ".join(found.split())


@contextmanager
def _failures_named(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise BackupError(f"cannot copy {path}: {error}") from error
