"""`python -m tests.faults.small_stores …`: `headgate store …` with small segments, so that a test has many cuts."""

from __future__ import annotations

import sys

from brokers.server.journal import renumbering
from brokers.server.journal.journal_store import JournalStore
from brokers.server.store_command import main

SEGMENT_BYTES = 64 << 10

if __name__ == "__main__":
    renumbering.SEGMENT_BYTES = SEGMENT_BYTES
    JournalStore.__init__.__kwdefaults__["segment_bytes"] = SEGMENT_BYTES
    sys.exit(main(sys.argv[1:]))
