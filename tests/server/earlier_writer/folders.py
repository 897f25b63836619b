"""Data folders as the release before left them: with the messages of each journal in a SQLite file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from brokers.server.config_store import ConfigStore
from brokers.server.journal.reading import JournalReader
from brokers.server.journal.stamp_file import Stamp, read_stamp
from brokers.server.store_folder import earlier_of, file_name, is_journal, store_files
from brokers.server.store_survey import CONFIG, FOLDER, IDENTITY, STORE, Configuration
from tests.server.earlier_writer import start_rule
from tests.server.earlier_writer.message_store import MessageStore

RESERVE = 1 << 20


def as_of_the_release_before(data: Path, *, runs: bool = True) -> list[Path]:
    """Change the folder of a broker that has ended; return the stores."""
    made = []
    shutil.rmtree(data / FOLDER / "temp.journal", ignore_errors=True)
    with closing(ConfigStore(data / CONFIG)) as config:
        hosts = Configuration.of(data / CONFIG, config.load()).stores
        for journal in filter(is_journal, store_files(data / FOLDER)):
            made.append(earlier_of(journal))
            write_earlier(journal, made[-1], runs=runs)
            shutil.rmtree(journal)
            config.remove(STORE, journal.name)
            config.put(STORE, made[-1].name, {"virtualhost": hosts[journal.name]})
        config.commit()
    return made


def write_earlier(journal: Path, path: Path, *, runs: bool = True) -> None:
    """Write a store of the release before with what a journal has. `runs`: some messages in one row."""
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store, closing(JournalReader(journal)) as reader:
        stamp, _ = read_stamp(journal)
        if stamp is not None:
            store.set_stamp(stamp)
        for queue, number, _, failed, expires in reader.recover():
            if queue in reader.names:
                store.name_queue(queue, reader.names[queue])
            store.put(queue, number, reader.load(queue, [number])[number], expires)
            if failed:
                store.fail(queue, number, failed)
            if not runs:
                assert store.write(store.take()).fault is None
        while store.pending:
            assert store.write(store.take()).fault is None
    path.with_name(f"{path.name}-reserve").unlink()


def adopted_by_the_release_before(data: Path) -> None:
    """What its `store adopt` does with a folder that this release has converted: it sees only its own files, forgets
    what else the configuration knows, and gives all a higher generation."""
    stores = [start_rule.read_store(path) for path in start_rule.store_files(data / FOLDER)]
    with closing(ConfigStore(data / CONFIG)) as config:
        known = Configuration.of(data / CONFIG, config.load())
        generation = max([known.next, *(store.stamp.generation for store in stores if store.stamp)]) + 1
        for store in stores:
            _stamp(store, Stamp(known.identity, store.virtualhost, generation, store.last_queue))
        for name in known.stores:
            config.remove(STORE, name)
        for store in stores:
            config.put(STORE, store.path.name, {"virtualhost": store.virtualhost})
        value = {"identity": known.identity, "generation": generation, "next": generation}
        config.put(IDENTITY, "", value)
        config.commit()


def started_by_the_release_before(data: Path) -> None:
    """What a start of it writes: it is refused by its own rule, or makes the stores that are missing and counts."""
    with closing(ConfigStore(data / CONFIG)) as config:
        stores = {store.path: store for store in start_rule.check(data, list(config.load()))}
        known = Configuration.of(data / CONFIG, config.load())
        generation = max(known.next, known.generation + 1)
        for host in known.virtualhosts:
            path = earlier_of(data / FOLDER / file_name(host))
            store = stores.get(path) or start_rule.StoreFile(path, host)
            _stamp(store, Stamp(known.identity, host, generation, store.last_queue))
            config.put(STORE, path.name, {"virtualhost": host})
        config.put(IDENTITY, "", {"identity": known.identity, "generation": generation, "next": generation})
        config.commit()


def _stamp(store: start_rule.StoreFile, stamp: Stamp) -> None:
    with closing(MessageStore(store.path, reserve_bytes=RESERVE)) as opened:
        opened.set_stamp(stamp)


def as_of_before_identities(data: Path) -> None:
    """Make the files what a release before that left: neither identities nor checksums, nor runs."""
    for store in as_of_the_release_before(data, runs=False):
        with closing(sqlite3.connect(store)) as db:
            assert not db.execute("SELECT count(*) FROM run").fetchone()[0]
            db.executescript(
                "DROP TABLE run; DROP TABLE run_bodies; DROP INDEX message_place;"
                "ALTER TABLE message DROP COLUMN mark; ALTER TABLE message DROP COLUMN checksum;"
                "CREATE UNIQUE INDEX message_place ON message (queue, number, size, failed, expires);"
                "DROP TABLE store; DROP TABLE queue; UPDATE schema_version SET version = 2;"
            )
    with closing(sqlite3.connect(data / CONFIG)) as db:
        db.execute("DELETE FROM record WHERE kind IN ('identity', 'store')")
        db.execute("ALTER TABLE record DROP COLUMN checksum")
        db.execute("UPDATE schema_version SET version = 1")
        db.commit()
