"""The files of a broker that is about to start: repaired, checked, and converted if an earlier release has left them.

In this order: what does not belong together is refused before anything of it is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store.conversion import convert_all
from brokers.server.earlier_store.survey import unlink_earlier
from brokers.server.lineage import is_of_deleted
from brokers.server.store_content import StoreFile
from brokers.server.store_folder import finish_renames, is_journal, store_files
from brokers.server.store_identity import check
from brokers.server.store_set_aside import set_unconverted_aside
from brokers.server.store_survey import CONFIG, FOLDER, Configuration, is_missing
from brokers.server.write_ahead_log import mend_logs

log = logging.getLogger("headgate.broker")


@contextmanager
def open_folder(
    data: Path,
    databases: Sequence[Path] = (),
    say: Callable[[str], None] = log.info,
    *,
    leave_unreadable: bool = False,
) -> Iterator[tuple[ConfigStore, list[StoreFile], list[str]]]:
    """Yield the configuration, which is closed if the block raises, the message stores, and a line for each damage.
    `databases`: further ones to repair. `leave_unreadable`: see `convert_all`. Raises StoreError."""
    finish_renames(data / FOLDER, ())  # else a store that was being replaced would not be seen below
    earlier = [path for path in store_files(data / FOLDER) if not is_journal(path)]
    found = mend_logs([data / CONFIG, *databases, *earlier])
    if is_missing(data / CONFIG):
        check(data, ())  # before a new one is created
    config = ConfigStore(data / CONFIG)
    try:
        finish_renames(data / FOLDER, Configuration.of(config.path, config.load()).stores)
        stores = check(data, config.load())
        found += set_unconverted_aside(data)
        if any(not is_journal(store.path) for store in stores):
            known = Configuration.of(config.path, config.load())
            for store in stores:
                if not is_journal(store.path) and is_of_deleted(known, store):
                    unlink_earlier(store.path)
            there = [store for store in stores if store.path.exists()]
            found += convert_all(config, there, say, leave_unreadable=leave_unreadable)
            stores = [store for store in check(data, config.load()) if is_journal(store.path)]
        for store in stores:
            found += store.damage
            if store.found is not None:
                found += store.found.repairs
                if store.found.incomplete:
                    log.warning("%s", store.found.incomplete)
        yield config, stores, found
    except BaseException:
        config.close()
        raise
