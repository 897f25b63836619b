"""Mends the files of a broker that is about to start: what has flipped on the disk costs at most what it hit.

A log is mended by its checksums (`write_ahead_log.py`). A message store whose pages are not as SQLite wrote them is
written again from every message that can be read and is as it was written; the damaged file is kept beside it. Larger
stores are only looked at this closely when a look at their index fails: `manage.py store check` reads everything.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from brokers.server.message_file import open_messages
from brokers.server.sqlite_file import StoreError, failures_named
from brokers.server.store_verification import COLUMNS, sound
from brokers.server.write_ahead_log import mend_log

#: Stores up to this size are read through at each start, bytes: some tenths of a second.
READ_THROUGH_BYTES = 64 << 20
#: Findings of SQLite that are named.
NAMED = 3
#: Messages that are named.
NAMED_MESSAGES = 20

_IDS = "SELECT id FROM message NOT INDEXED ORDER BY id "
_ROW = ", ".join(("id", *COLUMNS))


def mend_logs(paths: list[Path]) -> list[str]:
    """Look through the logs of these databases, which nothing has open. What was found, a line each. Raises
    StoreError."""
    try:
        found = [mend_log(path) for path in paths]
    except OSError as error:
        raise StoreError(f"cannot mend {error.filename}: {error.strerror or error}") from error
    return [finding.text for finding in found if finding is not None]


def mend_store(path: Path, *, suspect: bool, now: datetime | None = None) -> list[str]:
    """Write a message store again if it is damaged. `suspect`: look however large it is. What was found and done, a
    line each; none if it is sound. Raises StoreError if nothing of it can be read."""
    if not suspect and path.stat().st_size > READ_THROUGH_BYTES:
        return []
    with contextlib.closing(open_messages(path)) as db:
        findings = _findings(db)
        if not findings:
            return []
        with failures_named(path):
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    draft = path.with_name(f"{path.name}-mended")
    draft.unlink(missing_ok=True)
    lost, saved = _copy(path, draft)
    kept = path.with_name(f"{path.name}-damaged-{now or datetime.now(UTC):%Y-%m-%dT%H-%M-%S}")
    try:
        os.link(path, kept)
        os.replace(draft, path)
    except OSError as error:
        raise StoreError(f"cannot mend {path}: {error.strerror or error}") from error
    return [
        f"{path} was damaged ({'; '.join(findings[:NAMED])}): {saved:,} messages were saved, {_lost(lost)}; the damaged"
        f" file is kept as {kept}"
    ]


def _findings(db: sqlite3.Connection) -> list[str]:
    try:
        found = db.execute(f"PRAGMA integrity_check({NAMED + 1})").fetchall()
        return [" ".join(text.split()) for (text,) in found if text != "ok"]
    except sqlite3.DatabaseError as error:
        return [str(error)]


def _copy(path: Path, draft: Path) -> tuple[list[tuple[str, int]], int]:
    """What can be read and is sound. Returns the messages that the index has and the copy has not, by name of the queue
    and number; and how many there are."""
    source = sqlite3.connect(path, isolation_level=None)
    with contextlib.closing(source), contextlib.closing(open_messages(draft)) as target, failures_named(path):
        source.execute("PRAGMA query_only=ON")
        names = dict(_readable(source, "SELECT id, name FROM queue"))
        places = {
            (queue, number): row
            for row, queue, number in _readable(
                source, "SELECT id, queue, number FROM message INDEXED BY message_place"
            )
        }
        rows = set(places.values())
        for order in ("ASC", "DESC"):  # up to a damaged page from both of its sides
            rows.update(row for (row,) in _readable(source, _IDS + order))
        target.execute("BEGIN IMMEDIATE")
        target.executemany("INSERT INTO queue VALUES (?, ?)", names.items())
        target.executemany("INSERT INTO store VALUES (?, ?, ?, ?)", _readable(source, "SELECT * FROM store"))
        saved = set()
        for row in sorted(each for each in rows if isinstance(each, int)):
            for found in _readable(source, f"SELECT {_ROW} FROM message NOT INDEXED WHERE id = ?", row):  # noqa: S608
                place = found[1:3]
                if sound(found[1:]) and place not in saved:
                    marks = ", ".join("?" * len(found))
                    target.execute(f"INSERT INTO message ({_ROW}) VALUES ({marks})", found)  # noqa: S608
                    saved.add(place)
        target.execute("COMMIT")
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    lost = [(names.get(queue) or f"number {queue}", number) for queue, number in sorted(set(places) - saved)]
    return lost, len(saved)


def _readable(db: sqlite3.Connection, statement: str, *given: object) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Rows up to the first that cannot be read."""
    with contextlib.suppress(sqlite3.DatabaseError):
        yield from db.execute(statement, given)


def _lost(lost: list[tuple[str, int]]) -> str:
    if not lost:
        return "and none that its index has is lost"
    named = ", ".join(f"{number} of queue {queue}" for queue, number in lost[:NAMED_MESSAGES])
    more = f" and {len(lost) - NAMED_MESSAGES:,} more" if len(lost) > NAMED_MESSAGES else ""
    return f"lost: {named}{more}"
