"""A backup of a data folder whose processes run.

The order makes the parts fit: what records others is copied before what it records. The history comes before the
console's database and the broker's event journal, so that after a restoration the recorder finds in the journal all
that it has not recorded. The moment of the backup is that of the broker's files.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from console.backup import broker_files, console_files, history_files, space
from console.backup.archive import BackupError, Writer
from console.backup.contents import ADAPTERS, BROKER, FOLDERS, HISTORY, files

#: What file systems answer that know no second name of a file.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
#: The user and password in a URL.
_USER = re.compile(r"(?<=://)[^/]*@")


def take(data: Path, file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Write a backup of the folder to a file that must not exist, and return its facts. It is written even if it has
    damaged databases: the fact `damage` names them. Raises BackupError, OSError."""
    _check_places(data, file)
    _remove_left_behind(file.parent)
    with_history = is_own_history(data, environment)
    look = space.check(data, file.parent, FOLDERS if with_history else set(FOLDERS) - {HISTORY})
    with partial_folder(file.with_name(f".{file.name}.partial")) as folder:
        draft = folder / "archive"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            with Writer(out, look) as archive:
                facts = _fill(archive, data, folder / "copies", environment)
                archive.complete(facts)
            out.flush()
            os.fsync(out.fileno())
        _publish(draft, file)
        sync(file.parent)
    return facts


def _publish(draft: Path, file: Path) -> None:
    try:
        try:
            os.link(draft, file)  # unlike a rename, this replaces no file
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.replace(draft, file)
    except FileExistsError:
        raise BackupError(f"{file} exists: choose another name") from None


def _remove_left_behind(folder: Path) -> None:
    """Remove unfinished work of backups that were killed, also of other names: those of a timer are never repeated."""
    for left in folder.glob(".*.headgate.partial"):
        if left.is_dir() and not left.is_symlink():
            with suppress(BackupError, FileNotFoundError), partial_folder(left):
                pass


def _check_places(data: Path, file: Path) -> None:
    if not any((data / name).is_dir() for name in FOLDERS):
        raise BackupError(f"{data} is not a data folder of Headgate: choose it with --data")
    if file.exists():
        raise BackupError(f"{file} exists: choose another name")
    if not file.parent.is_dir():
        raise BackupError(f"{file.parent} is not a folder")
    if any(file.resolve().is_relative_to((data / name).resolve()) for name in FOLDERS):
        raise BackupError(f"{file} is among the files to back up: choose another folder")


def _fill(archive: Writer, data: Path, copies: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    with_history = is_own_history(data, environment)
    if with_history:
        history_files.add_recorded(archive, data)
    kind, damaged = console_files.add_database(archive, data, copies, console_files.database_kind(data, environment))
    if with_history:
        history_files.add_logs(archive, data)
    moment, found = broker_files.take(data, copies / "broker-files", archive.look)
    damaged |= found
    for name, path in [*files(copies / "broker-files", BROKER), *files(copies / "broker-files", ADAPTERS)]:
        archive.add(name, path)
        path.unlink()  # the archive needs the space
    shutil.rmtree(copies, ignore_errors=True)
    console_files.add_others(archive, data)
    if with_history:
        history_files.add_tables(archive, data)
    return {
        "release": version("headgate"),
        "moment": moment.isoformat(timespec="milliseconds"),
        "made": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "database": kind,
        "damage": damaged,
        "history": "" if with_history else _USER.sub("", environment.get("HEADGATE_HISTORY_URL", "")),
    }


def is_own_history(data: Path, environment: Mapping[str, str]) -> bool:
    """Whether the history is in the data folder."""
    url = environment.get("HEADGATE_HISTORY_URL") or ""
    return not url or Path(url).resolve() == (data / HISTORY).resolve()


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """An empty folder for unfinished work, which is removed at the end, and if a kill left it, by the next one that
    needs it. Raises BackupError if another process uses it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BackupError(f"{folder} is in use: another backup or restoration is under way") from None
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def sync(folder: Path) -> None:
    """Make what was created and renamed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
