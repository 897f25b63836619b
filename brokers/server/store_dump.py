"""The messages of a stopped broker's stores as lines of JSON, in the order of their queues: `headgate store dump`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.engine.values.message import DELAYED, USUAL_PRIORITY, rank_of, sequence_of
from brokers.server.earlier_store.reader import MessageReader
from brokers.server.earlier_store.salvage import can_be_read
from brokers.server.earlier_store.tables import VERSION
from brokers.server.journal.reading import JournalReader
from brokers.server.message_groups import Entry
from brokers.server.sqlite_file import StoreError, reading
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import is_journal, store_files
from brokers.server.store_survey import FOLDER, Configuration, read_store

#: Messages whose bodies are read at once.
_LOADED = 256


@dataclass
class Dump:
    """What to dump: the messages of the queue with this name, or of all. `damaged`: a line for each message or store
    that could not be read, once its store was dumped."""

    data: Path
    config: Configuration
    queue: str = ""
    bodies: bool = False
    damaged: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield a JSON object for each message. What cannot be read of a store is named, and the next one goes on."""
        for path in store_files(self.data / FOLDER):
            try:
                store = read_store(path)
                if store.error and not store.blank:
                    if is_journal(path):
                        raise StoreError(store.error)
                    self.damaged.append(store.error)  # some of an earlier release's may be read all the same
                if not store.blank:
                    yield from self._of_store(store)
            except StoreError as error:
                if str(error) not in self.damaged:
                    self.damaged.append(str(error))

    def _of_store(self, store: StoreFile) -> Iterator[str]:
        if is_journal(store.path):
            with closing(JournalReader(store.path, store.found)) as reader:
                yield from self._of_reader(store, reader, dict(reader.names))
                self.damaged += reader.unreadable()
            return
        with reading(store.path) as db, reading(store.path) as for_bodies:
            [(version,)] = db.execute("SELECT version FROM schema_version").fetchall()
            if version != VERSION:
                raise StoreError(
                    f"{store.path} has schema {version}, not {VERSION}: start the broker once, or use its release"
                )
            names = dict(db.execute("SELECT id, name FROM queue"))
            earlier = MessageReader(store.path, db, for_bodies)
            yield from self._of_reader(store, earlier, names)
            if earlier.failed or (earlier.damaged and not can_be_read(store.path)):
                self.damaged.append(f"the disk cannot read a part of {store.path}")

    def _of_reader(
        self, store: StoreFile, reader: JournalReader | MessageReader, names: dict[int, str]
    ) -> Iterator[str]:
        for number, (virtualhost, name) in self.config.queues.items():
            if virtualhost == store.virtualhost:
                names[number] = name
        group: list[Entry] = []
        for entry in self._entries(reader):
            if self.queue and names.get(entry[0]) != self.queue:
                continue
            if group and (entry[0] != group[0][0] or len(group) == _LOADED):
                yield from self._of_queue(store, names, reader, group)
                group = []
            group.append(entry)
        yield from self._of_queue(store, names, reader, group)
        self.damaged += store.damage
        for queue, number in sorted(reader.damaged):
            self.damaged.append(f"{store.path}: message {number} of queue number {queue} is not as it was written")

    def _entries(self, reader: JournalReader | MessageReader) -> Iterator[Entry]:
        """Yield the messages up to where their order cannot be read any more."""
        last: Entry | None = None
        try:
            for last in reader.recover():
                yield last
        except StoreError as error:
            behind = "" if last is None else f" behind message {last[1]} of queue number {last[0]}"
            self.damaged.append(f"{error}: the messages{behind} are not listed")

    def _of_queue(
        self, store: StoreFile, names: dict[int, str], reader: JournalReader | MessageReader, entries: Sequence[Entry]
    ) -> Iterator[str]:
        found = reader.load(entries[0][0], [entry[1] for entry in entries]) if self.bodies and entries else {}
        for queue, number, size, failed, expires in entries:
            line: dict[str, Any] = {
                "virtualhost": store.virtualhost,
                "queue": names.get(queue),
                "queue_number": queue,
                "number": number,
                "sequence": sequence_of(number),
                "priority": USUAL_PRIORITY - rank_of(number),
                "size": size,
                "failed_deliveries": failed,
                "expires": expires & ~DELAYED or None,
                "delayed": bool(expires & DELAYED),
            }
            if self.bodies:
                line["body"] = b64encode(found[number]).decode() if number in found else None
            yield json.dumps(line, ensure_ascii=False)
