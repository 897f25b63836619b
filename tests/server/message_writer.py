"""A process that writes groups of messages as fast as it can, and says after each that it is safe. To be killed.

`python -m tests.server.message_writer FOLDER FIRST` starts with group FIRST; what stands in the journal, whose segments
are small, after each group is given by `stored_after`, so that the test that kills it knows the expected messages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from brokers.server.journal.journal_store import JournalStore

QUEUES = 3
PER_QUEUE = 7
#: Number of groups after which a message is removed.
LIFE = 5


def body_of(queue: int, number: int) -> bytes:
    return b"%d-%d;" % (queue, number) * (1 + (queue * number) % 90)


def numbers_of(group: int) -> range:
    return range(group * PER_QUEUE, (group + 1) * PER_QUEUE)


def run_of(group: int) -> range:
    """The messages that are put and removed in one call."""
    return numbers_of(group)[2:6]


def stored_after(group: int) -> set[tuple[int, int]]:
    """(queue, number) of what is stored after this group; groups count from 1, and 0 stands for an empty store."""
    groups = range(max(1, group - LIFE + 1), group + 1)
    return {(queue, number) for g in groups for number in numbers_of(g) for queue in range(QUEUES)}


def main() -> None:
    path, group = Path(sys.argv[1]), int(sys.argv[2])
    store = JournalStore(path, segment_bytes=64 << 10)
    while True:
        for queue in range(QUEUES):
            for number in numbers_of(group):
                if number not in run_of(group):
                    store.put(queue, number, body_of(queue, number))
            bodies = [body_of(queue, number) for number in run_of(group)]
            store.put_run(queue, run_of(group).start, bodies, sum(map(len, bodies)))
            if group > LIFE:
                for number in numbers_of(group - LIFE):
                    if number not in run_of(group - LIFE):
                        store.remove(queue, number)
                store.remove_run(queue, run_of(group - LIFE))
        written = store.write(store.take())
        if written.fault is not None or not written.removed:
            sys.exit(f"group {group} was not written: {written}")
        os.write(1, b"%d\n" % group)
        group += 1


if __name__ == "__main__":
    main()
