"""The names in the folder of message stores: a folder for each virtual host's journal, and what is on its way to one.

A store is complete under its name or not there. `X.journal.new` is being written; complete and on the disk, it is
`X.journal.ready`, until the configuration knows it or `X.journal.old` is what it replaces; `X.journal.deleted` is being
deleted. All of them but a store, and one that is ready and has to take its place, are worth nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from brokers.server.earlier_store.survey import SUFFIX as EARLIER
from brokers.server.earlier_store.survey import earlier_files, unlink_earlier
from brokers.server.sqlite_file import StoreError, sync_folder

SUFFIX = ".journal"
TEMP = f"temp{SUFFIX}"
NEW, READY, OLD, DELETED = ".new", ".ready", ".old", ".deleted"

_UNFINISHED = re.compile(rf".+-[0-9a-f]{{8}}{re.escape(SUFFIX)}\.(new|ready|old|deleted(-\d+)?)")


def file_name(virtualhost: str) -> str:
    """Return the name of a virtual host's store. Virtual host names may be longer than file names, and differ only
    in letters that a file system does not distinguish."""
    mark = hashlib.sha256(virtualhost.encode()).hexdigest()[:8]
    return f"{quote(virtualhost, safe='')[:80]}-{mark}{SUFFIX}"


def virtualhost_of(path: Path) -> str:
    """Return the virtual host of a store by its name, whose end may be cut off."""
    return unquote(path.stem.rsplit("-", 1)[0])


def journal_of(path: Path) -> Path:
    """Return where the journal of a store of an earlier release is, or will be; a journal itself."""
    return path if is_journal(path) else path.with_name(path.name.removesuffix(EARLIER) + SUFFIX)


def earlier_of(path: Path) -> Path:
    """Return where the file of an earlier release is that has become this journal."""
    return path.with_name(path.name.removesuffix(SUFFIX) + EARLIER)


def is_journal(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


def store_files(folder: Path) -> list[Path]:
    """Return the message stores in the folder, without the temporary store, which is emptied at each start; those of an
    earlier release only where they have not become journals."""
    journals = [path for path in folder.glob(f"*-*{SUFFIX}") if path.is_dir()]
    return sorted([*journals, *(path for path in earlier_files(folder) if not journal_of(path).exists())])


def finish_renames(folder: Path, recorded: Iterable[str]) -> None:
    """Give stores that are ready their names, where the configuration knows these or they replace another one: a
    process was killed just before it could. Raises StoreError."""
    known = set(recorded)
    for ready in folder.glob(f"*-*{SUFFIX}{READY}"):
        path = ready.with_name(ready.name.removesuffix(READY))
        if not path.exists() and (path.name in known or path.with_name(path.name + OLD).exists()):
            rename(ready, path)


def rename(path: Path, to: Path) -> None:
    """Rename within a folder, on the disk. Raises StoreError."""
    try:
        os.rename(path, to)
    except OSError as error:
        raise StoreError(f"cannot rename {path} to {to.name}: {error.strerror or error}") from error
    sync_folder(to.parent)


def remove_unfinished(folder: Path) -> None:
    """Delete what processes that were killed have left, and that is worth nothing."""
    for path in folder.glob(f"*{SUFFIX}.*"):
        if _UNFINISHED.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def remove_converted(folder: Path) -> None:
    """Delete the files of an earlier release that have become journals, and its temporary store."""
    for path in [*earlier_files(folder), folder / f"temp{EARLIER}"]:
        if path.stem == "temp" or journal_of(path).is_dir():
            unlink_earlier(path)


def forget_store(path: Path) -> Path | None:
    """Take its name from a store that is to be deleted, and the file of an earlier release with it; return what is left
    to delete, None if nothing is. A process that is killed from here on leaves nothing that passes for a store."""
    unlink_earlier(earlier_of(path) if is_journal(path) else path)
    number, target = 1, path.with_name(path.name + DELETED)
    while True:
        try:
            os.rename(path, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            number += 1
            target = path.with_name(f"{path.name}{DELETED}-{number}")
        else:
            sync_folder(path.parent)
            return target


def unlink_store(path: Path) -> None:
    """Delete a store with all that belongs to it."""
    if (left := forget_store(path)) is not None:
        with suppress(OSError):
            shutil.rmtree(left)


#: What file systems answer that know no second name of a file.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def duplicate(file: Path, other: Path) -> None:
    """A second name for a file, or a copy on the disk where the file system has none. Raises OSError."""
    try:
        os.link(file, other)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(file, other)
        with other.open("rb") as copied:
            os.fsync(copied.fileno())


def unused(folder: Path) -> Path:
    """Return the folder, or one with a number after its name: two can be made within a second."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate
