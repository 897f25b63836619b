"""The conversion of an earlier release's message stores into journals, at the first start of this one.

Each store is copied into a folder beside it, which no start takes for a store, synced, and compared with what it was
made of. Then, in one commit, the configuration knows the journal instead of the file: from that moment on the file is
worth nothing, and before it nothing else is. A process that is killed anywhere leaves one of the two. The files are
deleted when a start has succeeded (`store_folder.remove_converted`).
"""

from __future__ import annotations

import glob
import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from brokers.engine.ports import Place
from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store.comparison import differences
from brokers.server.earlier_store.reader import MessageReader, in_batches
from brokers.server.earlier_store.salvage import can_be_read, mend_store, named_messages
from brokers.server.earlier_store.tables import open_messages
from brokers.server.journal.journal_store import SEGMENT_BYTES, JournalStore
from brokers.server.journal.segment_file import CONTENT
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import DiskFull, StoreError, failures_named, reading, sync_folder
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import NEW, READY, duplicate, is_journal, journal_of, rename
from brokers.server.store_survey import STORE, Configuration

log = logging.getLogger("headgate.broker")

#: Bytes that are written at once, unless a message is larger.
WRITTEN_BYTES = 1 << 20
#: Bytes that a message takes at most in a group besides its body, if it may be a run of its own.
GROUP_BYTES = 64
#: The same in a segment, with its listing; and of a message in a run.
ALONE_BYTES, RUN_BYTES = 128, 16
#: How often the progress is reported, s.
REPORT_SECONDS = 5.0

Say = Callable[[str], None]


def convert_all(
    config: ConfigStore,
    stores: Sequence[StoreFile],
    say: Say = log.info,
    *,
    leave_unreadable: bool = False,
    command: str = "store convert",
) -> list[str]:
    """Convert those of the stores that an earlier release has written. `say` reports the progress. `leave_unreadable`:
    leave messages out that the disk cannot read; `command`: which one does, where it is not set. Return a line for each
    damage and what was done about it. Raises StoreError; then the files that have not been converted are as they were.
    """
    known = Configuration.of(config.path, config.load())
    findings: list[str] = []
    earlier = [store for store in stores if not is_journal(store.path) and not _is_unused(store)]
    _check_room(earlier)
    for store in earlier:
        findings += mend_store(store.path, suspect=bool(store.damage))
        journal = journal_of(store.path)
        ready, lost = _convert(store, say, "" if leave_unreadable else command)
        findings += lost
        config.remove(STORE, store.path.name)
        config.put(STORE, journal.name, {"virtualhost": known.stores.get(store.path.name, store.virtualhost)})
        try:
            config.commit()
        except StoreError:
            config.discard()
            raise
        rename(ready, journal)
    return findings


def _is_unused(store: StoreFile) -> bool:
    """Whether there is nothing to convert: its process was killed before it could use it, or its release had no
    stamps. A start makes a journal in its place."""
    return store.blank or (store.stamp is None and not (store.holds or store.extent.runs or store.error))


def needed_bytes(stores: Sequence[StoreFile]) -> int:
    """Return the disk space that journals of these stores take, at most."""
    return sum(map(_needed_bytes, stores))


def _needed_bytes(store: StoreFile) -> int:
    queues, extent = store.queues.values(), store.extent
    names = sum(len(queue.name.encode()) + ALONE_BYTES for queue in queues)
    size = sum(queue.bytes for queue in queues) + names
    size += ALONE_BYTES * (extent.alone + extent.runs) + RUN_BYTES * (store.messages - extent.alone)
    # Each segment begins with the names, and the list of the others; its end is unused if the next group is larger.
    begin = CONTENT + 2 * names + size // (SEGMENT_BYTES // 64)
    room, group = SEGMENT_BYTES - begin, WRITTEN_BYTES + max(WRITTEN_BYTES, extent.largest)
    if group <= room // 2:
        needed = (size // (room - group) + 1) * SEGMENT_BYTES
    elif room >= SEGMENT_BYTES // 2:  # what two segments have together is more than there is room for in one
        needed = 2 * size * SEGMENT_BYTES // room + size // 8 + SEGMENT_BYTES
    else:
        needed = (size // WRITTEN_BYTES + 1) * (SEGMENT_BYTES + begin)
    return needed + 3 * SEGMENT_BYTES  # the reserve, and what is begun


def _check_room(stores: Sequence[StoreFile]) -> None:
    if stores:
        folder, needed = stores[0].path.parent, needed_bytes(stores)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise DiskFull(
                f"{folder} has {free:,} bytes of free disk space, and the conversion of its message stores needs"
                f" {needed:,}: free some, and start again. Nothing was changed"
            )


def _convert(store: StoreFile, say: Say, command: str) -> tuple[Path, list[str]]:
    """Make a journal of the store; return it, under its name of before the configuration knows it, and findings.
    `command`: which one leaves messages out that the disk cannot read; "": this one."""
    path, journal = store.path, journal_of(store.path)
    new, ready = journal.with_name(journal.name + NEW), journal.with_name(journal.name + READY)
    for left in (new, ready):
        shutil.rmtree(left, ignore_errors=True)
    say(f"{path} is converted into a journal: {store.messages:,} messages")
    open_messages(path).close()  # it gets the tables of the release before
    try:
        with reading(path) as db, reading(path) as for_bodies:
            reader = MessageReader(path, db, for_bodies)
            _copy(reader, db, store, new, say)
            damaged = reader.damaged
            if damaged and command and (reader.failed or not can_be_read(path)):
                shutil.rmtree(new, ignore_errors=True)
                raise StoreError(_refusal(path, sorted(damaged), command))
            _compare(path, db, new, damaged)
    except DiskFull as error:
        shutil.rmtree(new, ignore_errors=True)
        needed = needed_bytes([store])
        raise DiskFull(f"{error}: the conversion of {path} needs {needed:,} bytes. It is as it was") from error
    lost = [_preserve(path, sorted(damaged))] if damaged else []
    rename(new, ready)
    say(f"{path} was converted into a journal")
    return ready, lost


def _refusal(path: Path, unreadable: Sequence[Place], command: str) -> str:
    named = named_messages(unreadable, "queue number")
    return (
        f"the disk cannot read message {named} of {path}, which is as it was. Start again if that has"
        f" passed, or with the file on another disk; `headgate {command} --data {path.parent.parent}"
        " --leave-unreadable` leaves such messages out, lists them, and preserves the file"
    )


def _copy(reader: MessageReader, db: sqlite3.Connection, store: StoreFile, new: Path, say: Say) -> None:
    """Copy the messages in their order, batch by batch, but for those that the reader finds damaged."""
    path, report_at, done = store.path, time.monotonic() + REPORT_SECONDS, 0
    with failures_named(path):
        names = dict(db.execute("SELECT id, name FROM queue"))
    with closing(JournalStore(new)) as journal, closing(reader.recover()) as messages:
        journal.drop_queue(0)  # which is none: a journal without a stamp and without a group passes for one never used
        size = 0
        for batch in in_batches(messages):
            queue = batch[0][0]
            more = sum(entry[2] + GROUP_BYTES for entry in batch)
            if size and size + more > WRITTEN_BYTES:
                _write(journal)
                size = 0
            size += more
            if queue in names:
                journal.name_queue(queue, names[queue])
            _put(journal, batch, reader.load(queue, [number for _, number, *_ in batch]))
            done += len(batch)
            if time.monotonic() > report_at:
                report_at = time.monotonic() + REPORT_SECONDS
                say(f"{path}: {done:,} of {store.messages:,} messages")
        _write(journal)
        if store.stamp is not None:
            journal.set_stamp(store.stamp)


def _put(journal: JournalStore, batch: Sequence[Entry], bodies: dict[int, bytes]) -> None:
    """Buffer the messages that have a body."""
    run: list[bytes] = []
    first = 0
    for queue, number, _, failed, expires in batch:
        if number not in bodies:
            continue
        if run and (expires or number != first + len(run)):
            journal.put_run(queue, first, run, sum(map(len, run)))
            run = []
        if expires:
            journal.put(queue, number, bodies[number], expires)
        else:
            first = number if not run else first
            run.append(bodies[number])
        if failed:
            journal.fail(queue, number, failed)
    if run:
        journal.put_run(batch[0][0], first, run, sum(map(len, run)))


def _write(journal: JournalStore) -> None:
    """Raises StoreError."""
    while True:
        written = journal.write(journal.take())
        if written.fault is not None or not written.removed:
            raise written.fault or StoreError(f"cannot write {journal.path}")
        if not journal.pending:
            return


def _compare(path: Path, db: sqlite3.Connection, new: Path, damaged: set[Place]) -> None:
    """Raises StoreError unless the journal has all messages but the damaged ones as the store has them, and nothing
    else."""
    difference = next(differences(path, db, new, damaged), None)
    if difference is not None:
        raise StoreError(f"{path} could not be converted, and is as it was: {difference}")


def _preserve(path: Path, lost: Sequence[Place]) -> str:
    """Give the file a name under which it stays, once; return a line that says so."""
    copies = [*path.parent.glob(f"{glob.escape(path.name)}-damaged-*")]
    copy = next((each for each in copies if not each.name.endswith("-wal") and each.samefile(path)), None)
    if copy is None:
        copy = path.with_name(f"{path.name}-damaged-{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}")
        log_file = path.with_name(f"{path.name}-wal")
        try:
            if log_file.exists() and log_file.stat().st_size:
                duplicate(log_file, copy.with_name(f"{copy.name}-wal"))
            duplicate(path, copy)
        except OSError as error:
            raise StoreError(f"cannot preserve {path}: {error.strerror or error}") from error
        sync_folder(path.parent)
    named = named_messages(lost, "queue number")
    return f"{path} was damaged: lost: {named}; the damaged file is preserved as {copy}"
