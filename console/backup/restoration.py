"""A restoration: everything is extracted and checked beside the data folder, which appears whole or not at all."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from console.backup import archive, broker_files
from console.backup.archive import BackupError
from console.backup.console_files import MISSING, OWN, database_kind, same_kind
from console.backup.contents import BROKER, DATABASE, is_needed
from console.backup.restored_console import settle
from console.backup.snapshot import damage
from console.backup.taking import partial_folder, sync


def restore(file: Path, data: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Restore the file into a folder that is missing or empty, and return the backup's facts, with what is `damaged`
    in it, name -> damage, and what was `settled` in the console's database, lines. Raises BackupError, OSError."""
    _check_empty(data)
    data.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as source, partial_folder(data.with_name(f".{data.name}.restoring")) as folder:
        extracted = folder / "data"
        extracted.mkdir(mode=0o700)
        try:
            facts = archive.extract(source, extracted)
        except BackupError as error:
            raise BackupError(f"{file}: {error}") from error
        facts["damaged"] = _check(extracted, facts, database_kind(data, environment))
        facts["settled"] = settle(extracted / DATABASE, facts["moment"]) if (extracted / DATABASE).exists() else []
        for place, _, _ in os.walk(extracted):
            sync(Path(place))
        _check_empty(data)
        try:
            os.rename(extracted, data)  # also onto an empty folder
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV, errno.ENOTEMPTY):
                raise
            raise BackupError(
                f"{data} cannot be replaced ({error.strerror}): choose a folder below it, with --data"
            ) from error
        sync(data.parent)
    return facts


def _check_empty(data: Path) -> None:
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise BackupError(f"{data} is not an empty folder: move it away, or choose another with --data")


def _check(data: Path, facts: Mapping[str, Any], wanted: str) -> dict[str, str]:
    """Raise BackupError unless this release, with this kind of the console's database, can work with the extracted
    folder. Return name -> damage of databases that the processes repair at their start, where they can be."""
    made = same_kind(facts["database"])
    if made not in (wanted, MISSING):
        raise BackupError(
            "the backup has the console's database as SQLite, and DATABASE_URL names another: unset DATABASE_URL"
            if made == OWN
            else f"the console's database was {made} and is not in the backup: restore it with its own tools, then set"
            " DATABASE_URL"
        )
    found = broker_files.damaged(data)
    if (data / DATABASE).exists() and (text := damage(data / DATABASE)):
        found[DATABASE] = text
    for name in filter(is_needed, found):
        raise BackupError(f"{name} in the backup is damaged: {found[name]}")
    if (data / DATABASE).exists():
        _check_migrations(data / DATABASE)
    if (data / BROKER).exists():
        try:
            broker_files.check(data)
        except BackupError:
            if not found:
                raise
    return found


def _check_migrations(path: Path) -> None:
    """Raise BackupError if a later release has changed the database."""
    # Beside this package, without importing Django's settings, which would make a data folder.
    console = Path(__file__).resolve().parents[2] / "console"
    known = {(each.parents[1].name, each.stem) for each in console.glob("*/migrations/*.py")}
    own = {app for app, _ in known}
    with closing(sqlite3.connect(path)) as db:
        applied = set(db.execute("SELECT app, name FROM django_migrations"))
    if later := sorted(f"{app}.{name}" for app, name in applied - known if app in own):
        raise BackupError(f"the backup was made by a later release: {later[0]} of its database is not known here")
