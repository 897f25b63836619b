"""Maintenance of the history: removal of processed landing files, retention, compaction.

Each job may be stopped at any time and repeated. The caller owns the lease, since rewriting a partition and running
the pipeline on it at the same time would make one of the two fail.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.history.storage.backlog import processed_files
from console.history.storage.landing import SETTLED_SECONDS, Landing
from console.history.storage.layout import LAYOUTS

if TYPE_CHECKING:
    from console.history.storage.tables import Tables

#: Maximum number of files of a partition that still grows; with more it is compacted.
MOST_FILES = 40


#: Older unfinished files in the landing folder are those of a writer that was killed.
ABANDONED = dt.timedelta(days=1)


def sweep(url: str, now: dt.datetime) -> int:
    """Remove processed landing files that no writer reads any more, and unfinished files of writers that were killed;
    return the number of the former."""
    landing = Landing(url)
    landing.remove_unfinished(now - ABANDONED)
    settled = now - dt.timedelta(seconds=SETTLED_SECONDS)
    processed = processed_files(url)
    done = [file for file, at in landing.landed().items() if at < settled and file in processed]
    for kind, name in done:
        landing.remove(kind, name)
    return len(done)


def compact(tables: Tables, today: dt.date, on_step: Callable[[str], None] = lambda _name: None) -> int:
    """Rewrite every partition with several files as one sorted file, a growing one only if it has many; return the
    number of rewritten partitions."""
    rewritten = 0
    for name, layout in LAYOUTS.items():
        on_step(name)
        growing = today.replace(day=1) if layout.partition == "month" else today
        full = [part for part in tables.crowded(name) if part < growing]
        crowded = [part for part in tables.crowded(name, MOST_FILES) if part >= growing]
        for partition in [*full, *crowded]:
            tables.compact(name, [partition])
        rewritten += len(full) + len(crowded)
    return rewritten


def retain(tables: Tables, today: dt.date, on_step: Callable[[str], None] = lambda _name: None) -> None:
    """Delete rows beyond their retention, then remove files that no table version in use needs."""
    for name, layout in LAYOUTS.items():
        on_step(name)
        if layout.keep_days is not None:
            tables.delete_before(name, today - dt.timedelta(days=layout.keep_days))
        tables.vacuum(name)
