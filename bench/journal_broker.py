"""Our broker with messages in a journal (`brokers/server/journal`) instead of SQLite, to measure it before it is used.

`python bench/journal_broker.py broker --port ...`, in a checkout that has the journal. The broker finds its stores only
as files, so that it starts with an empty folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, os.getcwd())

from brokers.server import virtualhost_stores
from brokers.server.journal.journal_store import JournalStore


class JournalBesideSqlite(JournalStore):
    """In a folder beside the file of the SQLite store, which there is not."""

    def __init__(self, path: Path, *, durable: bool = True, reserve_bytes: int = 0) -> None:
        super().__init__(path.with_suffix(".journal"), durable=durable)


if __name__ == "__main__":
    virtualhost_stores.ReadableStore = JournalBesideSqlite  # type: ignore[assignment, misc]
    from brokers.server.main import main

    sys.exit(main(sys.argv[2:]))
