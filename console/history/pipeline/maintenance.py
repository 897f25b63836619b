"""Maintenance of the history: landing files that are in the tables go, old rows go, small files are compacted.

Each job may be stopped at any moment and done again. The caller holds the lease, since rewriting a partition and
running the pipeline on it at once would make one of the two fail.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.history.storage.backlog import taken_files
from console.history.storage.landing import SETTLED_SECONDS, Landing
from console.history.storage.layout import LAYOUTS

if TYPE_CHECKING:
    from console.history.storage.tables import Tables

#: Files that a partition which still grows may lie in before it is put together.
MOST_FILES = 40


#: What lies unfinished in the landing folder for so long belongs to a writer that died.
ABANDONED = dt.timedelta(days=1)


def sweep(url: str, now: dt.datetime) -> int:
    """Remove the landing files that are in the tables and that no writer looks back at, and what writers that died have
    left unfinished; return how many of the former."""
    landing = Landing(url)
    landing.remove_unfinished(now - ABANDONED)
    settled = now - dt.timedelta(seconds=SETTLED_SECONDS)
    taken = taken_files(url)
    done = [file for file, at in landing.landed().items() if at < settled and file in taken]
    for kind, name in done:
        landing.remove(kind, name)
    return len(done)


def compact(tables: Tables, today: dt.date, on_step: Callable[[str], None] = lambda _name: None) -> int:
    """Lay every partition that lies in several files in one sorted file, those that still grow only when they lie in
    many; return how many partitions were rewritten."""
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
    """Drop what is kept no longer, then remove the files that no version of the tables in use needs."""
    for name, layout in LAYOUTS.items():
        on_step(name)
        if layout.keep_days is not None:
            tables.forget(name, today - dt.timedelta(days=layout.keep_days))
        tables.vacuum(name)
