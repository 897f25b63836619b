"""What a message store of an earlier release has, without reading a body or changing the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from brokers.server.earlier_store.runs import SELECT_RUN, read_or_mend
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import StoreError, failures_named, reading
from brokers.server.store_content import Extent, StoredQueue, StoreFile

#: How the names of the files end, and those of files beside each that belong to it.
SUFFIX = ".sqlite3"
_BESIDE = ("-wal-mended", "-wal", "-shm", "-reserve", "-mended")


def earlier_files(folder: Path) -> list[Path]:
    """Return the stores of an earlier release in a folder, without the temporary one."""
    return sorted(path for path in folder.glob(f"*-*{SUFFIX}") if path.is_file())


def unlink_earlier(path: Path) -> None:
    """Delete such a store with what belongs to it, the store last: without it the rest would never be found. Copies of
    damaged ones stay."""
    for end in (*_BESIDE, ""):
        with suppress(OSError):
            path.with_name(path.name + end).unlink()


def read_earlier_stamp(path: Path) -> Stamp | None:
    """Return the stamp of such a store; None if it is of before there were stamps. Raises StoreError."""
    with reading(path) as db, failures_named(path):
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store'").fetchone():
            return None
        row = db.execute("SELECT identity, virtualhost, generation, last_queue FROM store").fetchone()
        return Stamp(*row) if row else None


def read_earlier(found: StoreFile) -> None:
    """Fill in the content of the store at `found.path`."""
    path = found.path
    try:
        if path.stat().st_size == 0:
            found.error, found.blank = f"{path} is empty", True
            return
        with reading(path) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if "message" not in tables:
                found.error, found.blank = f"{path} has no messages in it, and no table for them", not tables
                return
            names: dict[int, str] = {}
            if "store" in tables:
                row = db.execute("SELECT identity, virtualhost, generation, last_queue FROM store").fetchone()
                found.stamp = Stamp(*row) if row else None
                names = dict(db.execute("SELECT id, name FROM queue"))
            try:
                for queue, messages, size in _totals(db, found.extent, with_runs="run" in tables):
                    found.listed[queue] = StoredQueue(queue, names.get(queue, ""), messages, size)
            except sqlite3.DatabaseError as error:
                found.damage.append(f"{path} is damaged: {error}")
    except OSError as error:
        found.error = f"cannot read {path}: {error.strerror or error}"
    except StoreError as error:
        found.error = str(error)


def _totals(db: sqlite3.Connection, extent: Extent, *, with_runs: bool) -> Iterator[tuple[int, int, int]]:
    """Yield each queue with its number of messages and their bytes, and fill in the extent. Raises
    sqlite3.DatabaseError."""
    totals = {}
    for queue, messages, size, largest in db.execute(
        "SELECT queue, count(*), sum(size), max(size) FROM message INDEXED BY message_place GROUP BY queue"
    ):
        totals[queue] = (messages, size)
        extent.alone += messages
        extent.largest = max(extent.largest, largest if isinstance(largest, int) else 0)
    for row in db.execute(SELECT_RUN) if with_runs else ():
        found = read_or_mend(row)
        if found is None:
            extent.runs += 1
            continue  # a damaged one is a matter of `verification.py`
        run, _ = found
        count, size = run.count, run.size
        if run.state.gone or run.state.failed:
            sizes = [size for _, _, size, *_ in run.entries()]
            count, size = len(sizes), sum(sizes)
            extent.alone += count
        else:
            extent.runs += 1
        extent.largest = max((extent.largest, *run.parts[: run.count]))
        before = totals.get(run.queue, (0, 0))
        totals[run.queue] = (before[0] + count, before[1] + size)
    for queue, (messages, size) in totals.items():
        yield queue, messages, size
