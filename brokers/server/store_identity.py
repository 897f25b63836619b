"""The identity of a broker's configuration and message stores: the same in all of them, with one count of starts.

A store's messages are known by numbers that only the configuration gives a meaning. So one that is lost, or restored
from a backup, must not meet stores that have gone on without it: numbers would be given again, and the messages of one
queue be delivered from another. Each has the identity of its broker and the *generation*, how often it has started.

A start writes in this order, each step on the disk before the next: the configuration's intention (`next`), every
store's generation, the configuration's own. Killed anywhere between, the next start finds each store at `generation` or
at `next`, and goes on with the same `next`; a completed one leaves both the same. A store that is behind, ahead or of
another broker is a mismatch, and so is one that knows of a queue whose number the configuration has not given yet.
Stores of before there were identities have none; they are given one when their numbers agree.

Here it is decided; `store_survey.py` reads what there is, `lineage.py` writes what a start writes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from brokers.server.sqlite_file import StoreError
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import journal_of, store_files
from brokers.server.store_in_doubt import advice, in_doubt, reason
from brokers.server.store_survey import CONFIG, FOLDER, Configuration, Record, read_store


class StoreMismatch(StoreError):
    """The configuration and the stores do not belong together. The message gives the possible actions."""


def mismatches(config: Configuration, stores: Sequence[StoreFile]) -> list[str]:
    """Return why the configuration and the stores do not belong together; empty if they do."""
    doubtful = in_doubt(config)
    found = [reason(config, path) for path in doubtful]
    there = {store.path.name for store in stores} | {path.name for path in doubtful}
    aside = {journal_of(path) for path in doubtful}
    found += [why for store in stores if store.path not in aside and (why := _mismatch(config, store))]
    return found + [_missing(config, name) for name in sorted(config.stores) if name not in there]


def _missing(config: Configuration, name: str) -> str:
    store = f"{config.path.parent / FOLDER / name}, the message store of virtual host {config.stores[name]}"
    return f"{store}, is missing, and {config.path} says that it was there"


def _mismatch(config: Configuration, store: StoreFile) -> str:
    stamp, recorded = store.stamp, store.path.name in config.stores
    if store.error:
        return "" if store.blank and not recorded else store.error  # created just before a kill -9
    if not config.there:
        return f"{config.path} is missing or empty, and {_contents(store)}" if store.holds else ""
    if stamp is None:
        if config.generation and (store.holds or recorded):
            return f"{store.path} is older than {config.path}: it has no identity yet"
    elif config.identity and stamp.identity != config.identity:
        different = f"{store.path} is of another broker than {config.path}: the identities differ"
        return different if store.holds or recorded else ""
    elif stamp.generation < config.generation:
        return f"{store.path} is older than {config.path}: of start {stamp.generation:,}, not {config.generation:,}"
    elif store.holds and (not config.identity or stamp.generation > config.next):
        ahead = f"of start {config.generation:,}, not {stamp.generation:,}"
        return f"{config.path} is older than {store.path}: {ahead}; {_contents(store)}"
    if store.holds and store.last_queue > config.last_queue:
        unknown = f"the numbers of its queues end at {config.last_queue:,}, not at {store.last_queue:,}"
        return f"{config.path} is older than {store.path}: {unknown}; {_contents(store)}"
    return ""


def _contents(store: StoreFile) -> str:
    if store.damage:
        return store.damage[0]
    count = store.messages
    return f"{store.path} has {count:,} {'message' if count == 1 else 'messages'}"


def check(data: Path, records: Sequence[Record]) -> list[StoreFile]:
    """Return the message stores. Raises StoreMismatch, with the possible actions, if they do not belong to the
    configuration with these records; StoreError if a record is damaged, or the folder cannot be written. Writes
    nothing."""
    folder = data / FOLDER
    # Its stores could not even be read, and would seem not to belong to the configuration.
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"cannot write {folder}: give write permission to the user that runs the broker")
    stores = [read_store(path) for path in store_files(data / FOLDER)]
    config = Configuration.of(data / CONFIG, records)
    found = mismatches(config, stores)
    if doubtful := in_doubt(config):
        raise StoreMismatch(
            f"{'; '.join(found)}. The broker does not start, so that no message is lost or delivered twice."
            f" {advice(data, doubtful)}"
        )
    if found:
        raise StoreMismatch(
            f"{'; '.join(found)}. The broker does not start, so that no message is lost or delivered from another"
            f" queue. `headgate store check --data {data}` lists which messages belong to which queue. Restore"
            f" {data / CONFIG} and {data / FOLDER} as of one moment; or keep the messages with `headgate store"
            f" adopt --data {data}`, in recovered queues where the configuration has none; or start without them after"
            f" `headgate store set-aside --data {data}`, which moves the stores to a dated folder beside them"
        )
    return stores
