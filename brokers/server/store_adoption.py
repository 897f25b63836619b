"""Adoption of message stores that do not belong to the configuration, or their move to a dated folder.

Nothing is ever deleted. Each store is changed in one transaction or moved such that it is whole in one place at least,
and the configuration comes last, so that after a kill -9 or a power cut the same command goes on where it was.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokers.admin import AdminError
from brokers.engine.broker import Broker
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.names import check_name
from brokers.server.checksums import body_checksum, place_mark
from brokers.server.config_store import ConfigStore
from brokers.server.first_start import first_start
from brokers.server.message_file import Stamp, open_messages
from brokers.server.message_runs import SELECT_RUN, read_or_mend, run_mark
from brokers.server.sqlite_file import StoreError, failures_named, sync_folder, transaction
from brokers.server.store_survey import (
    CONFIG,
    FOLDER,
    IDENTITY,
    STORE,
    Configuration,
    StoreFile,
    read_records,
    read_store,
    store_files,
)


def adopt(data: Path) -> list[str]:
    """Make the configuration and the stores belong together: create a queue for messages whose queue the configuration
    does not have, with its old name if the store has it and it is free. Return a line for each action. Raises
    StoreError."""
    records = read_records(data)
    config = Configuration.of(data / CONFIG, records)
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    stores = _readable(data, stores)
    identity = config.identity or next((s.stamp.identity for s in stores if s.stamp), "") or uuid.uuid4().hex
    generation = max([config.next, *(s.stamp.generation for s in stores if s.stamp)]) + 1
    own = [s for s in stores if s.stamp is None or s.stamp.identity == identity]
    last = max([config.last_queue, *(store.last_queue for store in own)])
    said = []
    for store in stores:
        offset = 0 if store in own else last
        last += offset and store.last_queue
        _take_over(store, Stamp(identity, store.virtualhost, generation), offset)
    stores = [read_store(store.path) for store in stores]
    there = {store.path.name for store in stores}
    for name, host in sorted(config.stores.items()):
        if name not in there:
            said.append(f"the store of virtual host {host}, {data / FOLDER / name}, is missing: it starts empty")
    broker = Broker(time.time_ns() // 1_000_000)
    broker.restore(records)
    if not broker.virtualhosts:
        first_start(broker, demo=False)
    broker.registry.last_store_id = last
    broker.records.persist_broker()
    for store in stores:
        said += _recreate_queues(broker, config, store)
    written = ConfigStore(data / CONFIG)
    try:
        for record in broker.turn.take_records():
            if record.value is not None:
                written.put(record.kind, record.key, record.value)
        for name in config.stores:
            written.remove(STORE, name)
        for store in stores:
            written.put(STORE, store.path.name, {"virtualhost": store.virtualhost})
        written.put(IDENTITY, "", {"identity": identity, "generation": generation, "next": generation})
        written.commit()
    finally:
        written.close()
    return said or ["the configuration and the stores belong together; no queue had to be recreated"]


def _readable(data: Path, stores: list[StoreFile]) -> list[StoreFile]:
    """Return the stores with messages in them. Raises StoreError for a damaged one."""
    for store in stores:
        if (store.error and not store.blank) or store.damage:
            raise StoreError(
                f"{store.error or store.damage}: nothing was adopted. `headgate store set-aside --data {data}"
                f" --store {store.path.name}` moves this file away"
            )
    return [store for store in stores if not store.blank]


def _take_over(store: StoreFile, stamp: Stamp, offset: int) -> None:
    """Stamp the store, and add the offset to its queues' numbers."""

    def checked(queue: int, number: int, expires: int, body: bytes, checksum: int | None) -> int | None:
        if checksum is None:
            return None
        sound = checksum == body_checksum(queue, number, expires, body)
        return body_checksum(queue + offset, number, expires, body) ^ (not sound)  # damaged messages stay detectable

    with contextlib.closing(open_messages(store.path)) as db, failures_named(store.path):
        db.create_function("place_mark", 5, place_mark)
        db.create_function("checked", 5, checked)
        with transaction(db):
            if offset:
                _renumber(db, offset)
            db.execute("DELETE FROM store")
            row = (stamp.identity, stamp.virtualhost, stamp.generation, store.last_queue + offset)
            db.execute("INSERT INTO store VALUES (?, ?, ?, ?)", row)


def _renumber(db: sqlite3.Connection, offset: int) -> None:
    """Renumber from the highest down, so that no number is used twice at any time."""
    for (queue,) in db.execute("SELECT DISTINCT queue FROM message ORDER BY queue DESC").fetchall():
        db.execute(
            "UPDATE message SET queue = queue + ?1, checksum = checked(queue, number, expires, body, checksum),"
            " mark = CASE WHEN mark IS NULL THEN NULL ELSE place_mark(queue + ?1, number, size, failed, expires) END"
            " WHERE queue = ?2",
            (offset, queue),
        )
    for row in db.execute(f"{SELECT_RUN} ORDER BY queue DESC, first DESC").fetchall():
        _renumber_run(db, row, offset)
    names = db.execute("SELECT id, name FROM queue").fetchall()
    db.execute("DELETE FROM queue")
    db.executemany("INSERT INTO queue VALUES (?, ?)", [(number + offset, name) for number, name in names])


def _renumber_run(db: sqlite3.Connection, row: Sequence[Any], offset: int) -> None:
    """Renumber a run, and mend it where one bit was damaged."""
    found = read_or_mend(row)
    columns: Sequence[Any] = row if found is None else found[1]
    *place, state, _, parts = columns
    moved = (place[0], place[1] + offset, *place[2:])
    mark = run_mark(moved, parts)
    if found is None:
        mark ^= 0xFFFFFFFF  # it stays detectable, in many bits
    db.execute(
        "UPDATE run SET id = ?, queue = ?, first = ?, count = ?, size = ?, state = ?, mark = ?, parts = ? WHERE id = ?",
        (*moved, state, mark, parts, row[0]),
    )


def _recreate_queues(broker: Broker, config: Configuration, store: StoreFile) -> list[str]:
    said = []
    for number, queue in sorted(store.queues.items()):
        if config.queues.get(number, ("", ""))[0] == store.virtualhost:
            continue
        host = broker.virtualhosts.get(store.virtualhost) or broker.create_virtualhost(store.virtualhost)
        name = _free_name(host, queue.name, number)
        broker.records.persist_queue(broker.add_queue(host, name, {}, number))
        was = f", which was called {queue.name}" if queue.name and queue.name != name else ""
        said.append(
            f"virtual host {host.name}: queue {name} was created for the {queue.messages:,} messages"
            f" ({queue.bytes:,} bytes) of queue number {number}{was}"
        )
    return said


def _free_name(host: VirtualHost, name: str, number: int) -> str:
    with contextlib.suppress(AdminError):
        check_name("queue", name)
        if name not in host.queues:
            return name
    name = f"recovered-{number}"
    while name in host.queues:
        name += "-"
    return name


def _unused(folder: Path) -> Path:
    """Return the folder, or one with a number after its name: stores can be set aside twice within a second."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def set_aside(data: Path, names: Sequence[str] = (), *, now: datetime | None = None) -> list[str]:
    """Move the message stores, or only the files with these names, to a dated folder beside theirs, and forget them.
    What was done, a line each. Raises StoreError."""
    folder = data / FOLDER
    target = _unused(data / f"{FOLDER}-set-aside-{now or datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}")
    config = None if not (data / CONFIG).exists() else ConfigStore(data / CONFIG)  # locked: no broker is running
    try:
        known = Configuration.of(data / CONFIG, config.load() if config else [])
        files = store_files(folder)
        if unknown := sorted(set(names) - {file.name for file in files} - set(known.stores)):
            raise StoreError(f"there is no message store {unknown[0]} in {folder}")
        chosen = [file for file in files if not names or file.name in names]
        said = []
        if chosen:
            target.mkdir(mode=0o700)
            sync_folder(data)
        for file in chosen:
            _move(file, target)
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


#: What file systems answer that know no second name of a file.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def _move(store: Path, target: Path) -> None:
    """With its log, which may have the newest messages: a store without it is older than it was, and a log without its
    store is nothing. So both are there under a second name before the store goes, and then its log. Raises OSError."""
    beside = store.parent.glob(f"{glob.escape(store.name)}?*")
    logs = sorted(each for each in beside if not each.name.endswith("-reserve"))
    for each in (*logs, store):
        _duplicate(each, target / each.name)
    sync_folder(target)
    for going in ([store], logs):
        for each in going:
            each.unlink()
        sync_folder(store.parent)


def _duplicate(file: Path, other: Path) -> None:
    """A second name for it, or a copy on the disk where the file system has none. Raises OSError."""
    try:
        os.link(file, other)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(file, other)
        with other.open("rb") as copied:
            os.fsync(copied.fileno())
