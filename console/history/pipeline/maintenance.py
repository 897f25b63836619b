"""Maintenance of the history: removal of processed landing files, retention, compaction.

Each job may be stopped at any time and repeated. The caller owns the leases of the brokers, since rewriting a partition
and running the pipeline on it at the same time would make one of the two fail.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection
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
    """Remove processed landing files that no writer and no reader needs any more, and unfinished files of writers that
    were killed; return the number of the former."""
    landing = Landing(url)
    landing.remove_unfinished(now - ABANDONED)
    settled = now - dt.timedelta(seconds=SETTLED_SECONDS)
    landed = landing.landed()
    processed = processed_files(url, landed)
    done = [file for file in processed if landed[file] < settled]
    for kind, name in done:
        landing.remove(kind, name)
    return len(done)


def compact(
    tables: Tables,
    today: dt.date,
    on_step: Callable[[str], None] = lambda _name: None,
    *,
    brokers: Collection[str] | None = None,
) -> int:
    """Rewrite every partition with more files than its rows need, a growing one only if it has many; return the number
    of rewritten partitions. `brokers`: None for all."""
    rewritten = 0
    with tables.owned():
        for name, layout in LAYOUTS.items():
            on_step(name)
            growing = today.replace(day=1) if layout.partition == "month" else today
            for (broker, partition), count in tables.crowded(name, brokers).items():
                if partition < growing or count > MOST_FILES:
                    tables.compact(name, broker, partition)
                    rewritten += 1
    return rewritten


def retain(
    tables: Tables,
    today: dt.date,
    on_step: Callable[[str], None] = lambda _name: None,
    *,
    brokers: Collection[str] | None = None,
) -> None:
    """Delete rows beyond their retention. `brokers`: None for all."""
    with tables.owned():
        for name, layout in LAYOUTS.items():
            on_step(name)
            if layout.keep_days is not None:
                tables.delete_before(name, today - dt.timedelta(days=layout.keep_days), brokers)


def newest_day(tables: Tables) -> dt.date | None:
    """Return the day up to which the newest broker has been recorded; None: nothing has."""
    ends = (file.bounds.get("until", (None, None, True))[1] for file in tables.files("coverage"))
    return max((end.date() for end in ends if end is not None), default=None)


def vacuum(tables: Tables, on_step: Callable[[str], None] = lambda _name: None) -> None:
    """Remove files that no table version in use needs."""
    for name in LAYOUTS:
        on_step(name)
        tables.vacuum(name)
