"""The history's files in a backup. They never change, but they come and go while they are copied.

So what is copied first is what later parts may repeat: recorded files, then landed ones, then (after the console's
database, which says which of those were processed) the tables' logs, and last the files that these logs name. A row
that is in two of them is one row for the history, since its key is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from console.backup.archive import BackupError, Writer
from console.backup.contents import HISTORY, LOG, files

_TRIES = 10
#: The pointer to a log's newest checkpoint is read before the log is listed: what it names is there then.
_POINTER = "_last_checkpoint"


def add_recorded(archive: Writer, data: Path) -> None:
    """Add what the recorders have published, then what has landed: a file that moved meanwhile is in one of them."""
    added: set[str] = set()
    for part in (f"{HISTORY}/recorder", f"{HISTORY}/landing"):
        for _ in range(_TRIES):
            if not _add_new(archive, files(data, part), added):
                break


def _add_new(archive: Writer, found: Iterator[tuple[str, Path]], added: set[str]) -> bool:
    """Add the files that were not added yet; return whether one had gone, in whose place there may be another."""
    gone = False
    for name, path in found:
        if name in added:
            continue
        try:
            archive.add(name, path)
        except FileNotFoundError:
            gone = True
        else:
            added.add(name)
    return gone


def add_logs(archive: Writer, data: Path) -> None:
    """Add the log of each table as of now: the table's version in the backup. Raises BackupError."""
    for log in sorted((data / HISTORY).rglob(LOG)):
        for _ in range(_TRIES):
            try:
                content = _log(log)
                break
            except FileNotFoundError:
                continue  # replaced by a checkpoint meanwhile
        else:
            raise BackupError(f"{log} changes too often to be copied")
        for path, text in content.items():
            archive.add_bytes(path.relative_to(data).as_posix(), text)


def _log(log: Path) -> dict[Path, bytes]:
    pointer = log / _POINTER
    first = {pointer: pointer.read_bytes()} if pointer.exists() else {}
    names = sorted(path for path in log.rglob("*") if path.is_file() and path.name[0] != "." and path != pointer)
    return {path: path.read_bytes() for path in names} | first


def add_tables(archive: Writer, data: Path) -> None:
    """Add the tables' files. One that has gone since the log was copied was not in the table any more."""
    written = (f"{HISTORY}/recorder/", f"{HISTORY}/landing/")
    others = (
        (name, path) for name, path in files(data, HISTORY) if LOG not in path.parts and not name.startswith(written)
    )
    _add_new(archive, others, set())
