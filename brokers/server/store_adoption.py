"""Adoption of message stores that do not belong to the configuration: `headgate store adopt`.

No message is ever deleted, and no file of a damaged store. A store whose queues get other numbers is written again
beside the old one, which it then replaces; and the configuration comes last. So after a kill -9 or a power cut the same
command goes on where it was.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from brokers.admin import AdminError
from brokers.engine.broker import Broker
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.names import check_name
from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store.conversion import convert_all
from brokers.server.earlier_store.salvage import named_messages
from brokers.server.earlier_store.survey import unlink_earlier
from brokers.server.first_start import first_start
from brokers.server.journal.renumbering import write_renumbered
from brokers.server.journal.stamp_file import Stamp, write_stamp
from brokers.server.sqlite_file import StoreError, sync_folder
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import (
    NEW,
    OLD,
    READY,
    duplicate,
    earlier_of,
    is_journal,
    remove_unfinished,
    rename,
    store_files,
    unused,
)
from brokers.server.store_in_doubt import advice, in_doubt, reason
from brokers.server.store_set_aside import set_unconverted_aside
from brokers.server.store_survey import (
    CONFIG,
    FOLDER,
    IDENTITY,
    STORE,
    Configuration,
    finish,
    read_records,
    read_store,
)
from brokers.server.write_ahead_log import mend_logs


def adopt(data: Path, *, leave_unreadable: bool = False) -> list[str]:
    """Make the configuration and the stores belong together: create a queue for messages whose queue the configuration
    does not have, with its old name if the store has it and it is free. `leave_unreadable`: see `convert_all`. Return a
    line for each damage and each action. Raises StoreError."""
    stores, damage = _journals(data, leave_unreadable=leave_unreadable)
    records = read_records(data)
    config = Configuration.of(data / CONFIG, records)
    identity = config.identity or next((s.stamp.identity for s in stores if s.stamp), "") or uuid.uuid4().hex
    generation = max([config.next, *(s.stamp.generation for s in stores if s.stamp)]) + 1
    own = [s for s in stores if s.stamp is None or s.stamp.identity == identity]
    last = max([config.last_queue, *(store.last_queue for store in own)])
    said: list[str] = []
    for store in stores:
        offset = 0 if store in own else last
        last += offset and store.last_queue
        damage += _take_over(store, Stamp(identity, store.virtualhost, generation, store.last_queue + offset), offset)
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
    return damage + (said or ["the configuration and the stores belong together; no queue had to be recreated"])


def _journals(data: Path, *, leave_unreadable: bool) -> tuple[list[StoreFile], list[str]]:
    """Return the stores in which something was written, those of an earlier release converted, and a line for each
    damage. Raises StoreError."""
    finish(data)
    config = Configuration.of(data / CONFIG, read_records(data))
    if doubtful := in_doubt(config):
        reasons = "; ".join(reason(config, path) for path in doubtful)
        raise StoreError(f"{reasons}: nothing was adopted. {advice(data, doubtful)}")
    remove_unfinished(data / FOLDER)
    damage = set_unconverted_aside(data)
    damage += mend_logs([path for path in store_files(data / FOLDER) if not is_journal(path)])
    stores = _readable(data)
    if any(not is_journal(store.path) for store in stores):
        with contextlib.closing(ConfigStore(data / CONFIG)) as opened:
            damage += convert_all(opened, stores, leave_unreadable=leave_unreadable, command="store adopt")
        stores = [store for store in _readable(data) if is_journal(store.path)]
    for store in stores:
        damage += store.damage
    return stores, damage


def _readable(data: Path) -> list[StoreFile]:
    """Return the stores in which something was written, also damaged ones. Raises StoreError for one that cannot be
    read."""
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    for store in stores:
        if store.error and not store.blank:
            raise StoreError(
                f"{store.error}: nothing was adopted. `headgate store set-aside --data {data} --store"
                f" {store.path.name}` moves this store away"
            )
    return [store for store in stores if not store.blank]


def _take_over(store: StoreFile, stamp: Stamp, offset: int) -> list[str]:
    """Stamp a journal; with an offset, replace it by one in which the numbers of its queues are higher by that. Return
    where a damaged one is preserved that was replaced. Raises StoreError."""
    said = []
    if offset:
        said = _write_again(store, stamp, offset)
    else:
        write_stamp(store.path, stamp)
    if store.stamp is not None and store.stamp.identity != stamp.identity:
        unlink_earlier(earlier_of(store.path))  # no stamp says from now on that the journal was made of it
    return said


def _write_again(store: StoreFile, stamp: Stamp, offset: int) -> list[str]:
    assert store.found is not None
    path = store.path
    new, ready, old = (path.with_name(path.name + end) for end in (NEW, READY, OLD))
    unreadable = write_renumbered(store.found, new, stamp, offset)
    rename(new, ready)
    said = []
    if unreadable:
        named = named_messages(unreadable, "queue number")
        said.append(f"the disk cannot read {path}: message {named} has no body that could be delivered")
    if store.damage or unreadable:
        said.append(f"the damaged files of {path} are preserved in {_preserve(path)}")
    rename(path, old)  # from here on, the next command or start goes on
    rename(ready, path)
    remove_unfinished(path.parent)
    return said


def _preserve(path: Path) -> Path:
    """Give the files of a journal a second name in a folder that no start takes for a store, once; return it. Raises
    StoreError."""
    files = [file for file in sorted(path.iterdir()) if file.name != "lock"]
    for copy in path.parent.glob(f"{glob.escape(path.name)}-damaged-*"):
        if all((copy / file.name).exists() and file.samefile(copy / file.name) for file in files):
            return copy
    new = path.with_name(path.name + NEW)
    copy = unused(path.with_name(f"{path.name}-damaged-{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}"))
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        for file in files:
            duplicate(file, new / file.name)
    except OSError as error:
        raise StoreError(f"cannot preserve {path}: {error.strerror or error}") from error
    sync_folder(new)
    rename(new, copy)
    return copy


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
