"""SQLite files that one broker process writes: created private, checked, and upgraded to the current schema. The lock
of the data folder (`data_lock.py`) excludes a second writer; a backup may read while the broker writes.

Every failure is a StoreError whose message names the file and the reason, so that a start that cannot work ends in
one clear line. What the tables mean is the business of the modules that use them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

#: Time to wait for another connection's lock, in seconds.
_LOCK_SECONDS = 2.0


class StoreError(Exception):
    """A file of the broker cannot be read or written. The message is one line that names the file and the reason."""


class DiskFull(StoreError):
    """The disk is full."""


def open_sqlite(
    path: Path,
    *,
    kind: str,
    version: int,
    schema: Sequence[str],
    synchronous: str,
    check: bool,
    page_bytes: int = 4096,
    upgrades: Mapping[int, Sequence[str]] | None = None,
) -> sqlite3.Connection:
    """Open or create `path` in WAL mode, with autocommit (BEGIN is the caller's).

    `kind` and `version` are stored in a table of one row, `schema_version`; a file of another kind or of a later
    version is refused. `schema`: the statements that create version `version`; `upgrades`: for each earlier version,
    the statements that upgrade it to the next. `synchronous`: FULL if a commit must survive a power cut, NORMAL if it
    need only survive the process. `check`: verify the whole file, for files that stay small. Other connections may read
    while this one writes; the caller excludes other writers. `page_bytes` applies to a new file only.
    """
    try:
        make_folder(path.parent)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    with failures_named(path):
        # The caller may commit from a worker thread, and ensures that only one thread uses it at a time.
        db = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            db.execute(f"PRAGMA page_size={page_bytes}")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute(f"PRAGMA synchronous={synchronous}")
            if check and (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise StoreError(f"{path} is damaged: {' '.join(found.split())}")  # the text has several lines
            _ensure_schema(db, path, kind, version, schema, upgrades=upgrades or {})
        except BaseException:
            db.close()
            raise
    return db


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents, private, and sync them: otherwise a power cut may lose a folder with
    the files that are synced inside. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in {folder, *missing}:  # also an existing one: a process that was killed may just have created it
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that files created, renamed and deleted in it survive a power cut; ignored by file systems that
    cannot sync folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _ensure_schema(
    db: sqlite3.Connection,
    path: Path,
    kind: str,
    version: int,
    schema: Sequence[str],
    *,
    upgrades: Mapping[int, Sequence[str]],
) -> None:
    with transaction(db):
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            db.execute("CREATE TABLE schema_version (kind TEXT NOT NULL, version INTEGER NOT NULL)")
            db.execute("INSERT INTO schema_version VALUES (?, ?)", (kind, version))
            for statement in schema:
                db.execute(statement)
        found = db.execute("SELECT kind, version FROM schema_version").fetchone()
        if found is not None and found[0] == kind and found[1] in upgrades:
            for before in range(found[1], version):
                for statement in upgrades[before]:
                    db.execute(statement)
            db.execute("UPDATE schema_version SET version = ?", (version,))
            found = (kind, version)
    if found is None or found[0] != kind:
        raise StoreError(f"{path} is not a {kind} file")
    if found[1] > version:
        raise StoreError(f"{path} was written by a later release: schema {found[1]}, this one knows {version}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Execute the statements inside as one transaction, all or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file to read it, beside a process that writes it, too. Raises StoreError."""
    uri = f"file:{quote(str(path.resolve()))}?mode=ro"
    with failures_named(path), closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        yield db


@contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreErrors that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            reason = f"{path} is in use by another broker process"
        elif is_damage(error):
            reason = f"{path} is damaged: {error}"
        elif "schema_version" in str(error):
            reason = f"{path} is not a file of this broker: {error}"
        else:
            reason = f"cannot use {path}: {error}"
        raise (DiskFull if code == sqlite3.SQLITE_FULL else StoreError)(reason) from error


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the error reports a damaged file."""
    return _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def is_unreadable(error: sqlite3.Error) -> bool:
    """Return whether the disk cannot read or write a part of the file, which may pass."""
    return _code(error) == sqlite3.SQLITE_IOERR


def _code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
