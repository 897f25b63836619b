"""The files of the broker and of the adapters of other brokers in a backup: all as of one moment.

They belong together: the configuration gives the stores' messages their meaning. So all are pinned at once, and the
copies are checked as the broker checks its files at a start; if a virtual host was created or deleted in between, or
the broker had to use a part of a journal again that was being copied, they are taken again.

Damage stops no backup: what can be saved is saved, and the damage is named.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

from brokers.adapters import store as adapter_store
from brokers.server import config_store, event_journal, store_identity
from brokers.server.earlier_store import tables
from brokers.server.journal.pinning import pinned_journal
from brokers.server.sqlite_file import StoreError, failures_named
from brokers.server.store_survey import CONFIG, read_records, read_store
from console.backup.archive import BackupError
from console.backup.contents import ADAPTERS, BROKER, files, is_database, journal_of, journals
from console.backup.snapshot import copy, damage, pinned
from console.backup.space import NoSpace

_TRIES = 5

#: kind of a file -> the version of its tables that this release has.
SCHEMAS = {module.KIND: module.VERSION for module in (config_store, event_journal, tables, adapter_store)}


def take(data: Path, folder: Path, look: Callable[[], None]) -> tuple[datetime, dict[str, str]]:
    """Copy the files into the folder, under their names in the data folder; return the moment, and name -> damage of
    damaged databases and journals. `look` is called with each part, and may raise NoSpace. Raises BackupError,
    OSError."""
    for number in range(_TRIES):
        is_last = number == _TRIES - 1
        shutil.rmtree(folder, ignore_errors=True)
        try:
            moment, unreadable = _take(data, folder, look)
        except NoSpace:
            raise
        except (BackupError, StoreError, FileNotFoundError) as error:  # for one, a virtual host was deleted meanwhile
            if is_last:
                raise BackupError(str(error)) from error
            continue
        found = damaged(folder)
        try:
            check(folder)
        except BackupError as error:
            if not is_last:
                continue
            if not found:
                raise BackupError(str(error).replace(str(folder), str(data))) from error
        return moment, unreadable | found
    raise AssertionError


def damaged(folder: Path) -> dict[str, str]:
    """Return name -> damage of the damaged databases of the broker and the adapters, and of journals, which no process
    uses."""
    databases = (each for top in (BROKER, ADAPTERS) for each in files(folder, top))
    found = {name: text for name, path in databases if is_database(name) and (text := damage(path))}
    for name, path in journals(folder).items():
        store = read_store(path)
        if not (store.blank or store.is_later) and (store.error or store.damage):
            found[name] = store.error or store.damage[0]
    return found


def _take(data: Path, folder: Path, look: Callable[[], None]) -> tuple[datetime, dict[str, str]]:
    """Return the moment, and name -> what the disk cannot read of journals."""
    found = dict(files(data, BROKER)) | dict(files(data, ADAPTERS))
    databases = {name: path for name, path in found.items() if is_database(name)}
    # The configuration after the stores, the journal after the configuration: each knows all that those before it do.
    last = {f"{BROKER}/{CONFIG}": 1, f"{BROKER}/events.sqlite3": 2}
    ordered = {name: databases[name] for name in sorted(databases, key=lambda name: last.get(name, 0))}
    unreadable: dict[str, str] = {}
    moment = datetime.now(UTC)  # all that was confirmed before is in what is pinned from now on
    with ExitStack() as stack:
        # The configuration is pinned after them: it knows each queue that they have messages of.
        stores = {name: stack.enter_context(pinned_journal(path)) for name, path in journals(data).items()}
        with pinned(ordered) as connections:
            for name, store in stores.items():
                if lines := store.copy(folder / name, look):
                    unreadable[name] = lines[0]
            for name, db in connections.items():
                copy(db, folder / name, look)
    for name, path in found.items():
        if name not in connections and not journal_of(name):  # also a database that SQLite cannot open: what there is
            look()
            place = folder / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return moment, unreadable


def check(folder: Path) -> None:
    """Raise BackupError unless the broker would start with the files: of releases up to this one, and belonging
    together."""
    try:
        for top in (BROKER, ADAPTERS):
            for name, path in files(folder, top):
                if is_database(name):
                    _check_version(path)
        store_identity.check(folder / BROKER, read_records(folder / BROKER))
    except StoreError as error:
        raise BackupError(str(error).partition(". The broker does not start")[0]) from error


def _check_version(path: Path) -> None:
    with failures_named(path), closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return  # it was just created
        row = db.execute("SELECT kind, version FROM schema_version").fetchone()
    if row is not None and row[1] > SCHEMAS.get(row[0], row[1]):
        raise BackupError(
            f"{path.name} was written by a later release: schema {row[1]}, this release knows {SCHEMAS[row[0]]}"
        )
