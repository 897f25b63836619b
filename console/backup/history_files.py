"""The history's files in a backup. They never change, but they come and go while they are copied.

So what is copied first is what later parts may repeat: positions of imports, recorded files, then landed ones, then
(after the console's database, which says which of those were processed) the tables' logs with the notes of unfinished
work, and last the files that these logs name. A row that is in two of them is one row for the history, since its key is
the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from console.backup.archive import BackupError, Writer
from console.backup.contents import HISTORY, LOG, files

_TRIES = 10
#: The pointer to a log's newest checkpoint is read before the log is listed: what it names is there then.
_POINTER = "_last_checkpoint"
#: What a recorder has published (`history/storage/fresh.py`).
_CATALOG = "published.json"
#: What a run of the pipeline is about to change: the next one does what is left of it.
_NOTES = f"{HISTORY}/pipeline"


def add_recorded(archive: Writer, data: Path) -> None:
    """Add the positions of imports, which are behind the rows; what the recorders have published; then what has landed:
    a file that moved meanwhile is in one of them."""
    _add_new(archive, files(data, f"{HISTORY}/imports"), set())
    _add_recorders(archive, data)
    added: set[str] = set()
    for _ in range(_TRIES):
        if not _add_new(archive, files(data, f"{HISTORY}/landing"), added):
            break


def _add_recorders(archive: Writer, data: Path) -> None:
    """Add their catalogs and states as they were before the list of the files, which they name: those remain for
    minutes."""
    added: set[str] = set()
    for _ in range(_TRIES):
        # A catalog is replaced before the state that continues it, so it is read after it.
        found = sorted(files(data, f"{HISTORY}/recorder"), key=lambda each: each[1].name == _CATALOG)
        stored = _read((name, path) for name, path in found if path.suffix == ".json")
        rows = ((name, path) for name, path in files(data, f"{HISTORY}/recorder") if path.suffix != ".json")
        if not _add_new(archive, rows, added):
            break
    for name, content in stored.items():
        archive.add_bytes(name, content)


def _read(found: Iterable[tuple[str, Path]]) -> dict[str, bytes]:
    """Return name -> content of files that may go meanwhile."""
    contents = {}
    for name, path in found:
        with suppress(FileNotFoundError):
            contents[name] = path.read_bytes()
    return contents


def _add_new(archive: Writer, found: Iterable[tuple[str, Path]], added: set[str]) -> bool:
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
    """Add the logs of all tables as of one moment, the tables' versions in the backup, and the notes of the pipeline's
    unfinished work then. Raises BackupError."""
    for _ in range(_TRIES):
        before, versions = _notes(data), _versions(data)
        try:
            logs = [_log(log) for log in _logs(data)]
        except FileNotFoundError:
            continue  # replaced by a checkpoint meanwhile
        if before == _notes(data) and versions == _versions(data):
            break
    else:
        raise BackupError(f"the tables in {data / HISTORY} change too often to be copied")
    for content in logs:
        for path, text in content.items():
            archive.add_bytes(path.relative_to(data).as_posix(), text)
    for name, note in before.items():
        archive.add_bytes(name, note)


def _notes(data: Path) -> dict[str, bytes]:
    return _read(files(data, _NOTES))


def _logs(data: Path) -> list[Path]:
    return sorted((data / HISTORY).rglob(LOG))


def _versions(data: Path) -> set[Path]:
    """The names of all files of the logs. Such a file never changes, but for the pointer."""
    return {path for log in _logs(data) for path in log.rglob("*")}


def _log(log: Path) -> dict[Path, bytes]:
    pointer = log / _POINTER
    first = {pointer: pointer.read_bytes()} if pointer.exists() else {}
    names = sorted(path for path in log.rglob("*") if path.is_file() and path.name[0] != "." and path != pointer)
    return {path: path.read_bytes() for path in names} | first


def add_tables(archive: Writer, data: Path) -> None:
    """Add the tables' files. One that has gone since the log was copied was not in the table any more."""
    written = tuple(
        f"{part}/" for part in (_NOTES, *(f"{HISTORY}/{each}" for each in ("imports", "recorder", "landing")))
    )
    others = (
        (name, path) for name, path in files(data, HISTORY) if LOG not in path.parts and not name.startswith(written)
    )
    _add_new(archive, others, set())
