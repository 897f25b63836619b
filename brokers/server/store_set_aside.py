"""The move of message stores to a dated folder beside theirs: `headgate store set-aside`.

Nothing is ever deleted. Each store is whole in one place at least, and the configuration comes last, so that after a
kill -9 or a power cut the same command goes on where it was.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store.survey import earlier_files
from brokers.server.sqlite_file import StoreError, sync_folder
from brokers.server.store_folder import duplicate, earlier_of, is_journal, journal_of, store_files, unused
from brokers.server.store_in_doubt import in_doubt, not_become
from brokers.server.store_survey import CONFIG, FOLDER, STORE, Configuration, finish


def set_aside(data: Path, names: Sequence[str] = (), *, now: datetime | None = None) -> list[str]:
    """Move the message stores, or only those with these names, to a dated folder beside theirs, and forget them.
    What was done, a line each. Raises StoreError."""
    finish(data)
    folder = data / FOLDER
    target = _target(data, now)
    config = None if not (data / CONFIG).exists() else ConfigStore(data / CONFIG)  # locked: no broker is running
    try:
        known = Configuration.of(data / CONFIG, config.load() if config else [])
        files = store_files(folder)
        hidden = [file for file in earlier_files(folder) if file not in files]  # beside its journal
        if unknown := sorted(set(names) - {file.name for file in (*files, *hidden)} - set(known.stores)):
            raise StoreError(f"there is no message store {unknown[0]} in {folder}")
        chosen = [file for file in (*hidden, *files) if file.name in names] if names else files
        stay = in_doubt(known) if names else []
        said = []
        if chosen:
            target.mkdir(mode=0o700)
            sync_folder(data)
        for file in chosen:
            _move(file, target, stay)
            said.append(f"{file} was moved to {target / file.name}")
        if config is not None:
            for name in known.stores:
                if not names or name in names:
                    config.remove(STORE, name)
            config.commit()
        return said or [f"there is no message store in {folder}"]
    except OSError as error:
        raise StoreError(f"cannot move {error.filename} to {target}: {error.strerror or error}") from error
    finally:
        if config is not None:
            config.close()


def set_unconverted_aside(data: Path) -> list[str]:
    """Move the files of an earlier release that have not become the journals beside them to such a folder; a start
    would delete them. Those in doubt must have been refused before. Return a line for each. Raises StoreError."""
    files = not_become(data / FOLDER)
    target, said = _target(data, None), []
    try:
        if files:
            target.mkdir(mode=0o700)
            sync_folder(data)
        for file in files:
            _move_earlier(file, target)
            said.append(f"{file} has not become {journal_of(file)}, which is the store: moved to {target / file.name}")
    except OSError as error:
        raise StoreError(f"cannot move {error.filename} to {target}: {error.strerror or error}") from error
    return said


def _target(data: Path, now: datetime | None) -> Path:
    return unused(data / f"{FOLDER}-set-aside-{now or datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}")


def _move(store: Path, target: Path, stay: Sequence[Path]) -> None:
    """With all that belongs to it; the file of an earlier release that has become this journal first, since it would be
    the store again without it. `stay`: files that are stores of their own. Raises OSError."""
    if not is_journal(store):
        _move_earlier(store, target)
        return
    if (earlier := earlier_of(store)).exists() and earlier not in stay:
        _move_earlier(earlier, target)
    os.rename(store, target / store.name)
    sync_folder(target)
    sync_folder(store.parent)


def _move_earlier(store: Path, target: Path) -> None:
    """With its log, which may have the newest messages: a store without it is older than it was, and a log without its
    store is nothing. So both are there under a second name before the store goes, and then its log. Raises OSError."""
    beside = store.parent.glob(f"{glob.escape(store.name)}?*")
    logs = sorted(each for each in beside if not each.name.endswith("-reserve"))
    for each in (*logs, store):
        duplicate(each, target / each.name)
    sync_folder(target)
    for going in ([store], logs):
        for each in going:
            each.unlink()
        sync_folder(store.parent)
