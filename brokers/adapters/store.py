"""What the adapter of a broker must not forget: operators' stops, what a start has to restore, and the flow state of
objects as last observed, so that events continue where they ended before a restart. One SQLite file a broker.

The stops belong to one broker, the owner: another one whose file it becomes must not get them. `stored_stops` reads
them beside the process that has the file open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from brokers.adapters.records import Fact, Memory, StopChange, StoppedTarget, fact_of, fact_text
from brokers.engine.values.stops import Stop
from brokers.model import ObjectName
from brokers.server.sqlite_file import failures_named, open_sqlite, reading, transaction

#: Of the schema.
KIND, VERSION = "headgate-adapter", 3

#: The owner of a file whose stops were left behind.
_NO_OWNER = ""

_SCHEMA = (
    "CREATE TABLE stop (scope TEXT PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE target (id TEXT PRIMARY KEY, queues TEXT NOT NULL, restore TEXT NOT NULL, scopes TEXT NOT NULL)",
    "CREATE TABLE known (object TEXT PRIMARY KEY, attributes TEXT NOT NULL)",
    # Events that were about to be appended to the journal, see `file_records.py`.
    "CREATE TABLE pending (number INTEGER NOT NULL, fact TEXT NOT NULL)",
    # Changes of stops that have no event yet.
    "CREATE TABLE unannounced (change TEXT NOT NULL)",
    # At most one row: which broker the stops are of.
    "CREATE TABLE owner (value TEXT NOT NULL)",
)

#: Version -> statements that upgrade it to the next one.
_UPGRADES = {1: _SCHEMA[3:5], 2: _SCHEMA[5:]}


class AdapterStore:
    """Open or create the file. Every method raises StoreError if it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # FULL: a stop whose record a power cut loses would never be undone.
        self._db = open_sqlite(
            path,
            kind=KIND,
            version=VERSION,
            schema=_SCHEMA,
            upgrades=_UPGRADES,
            synchronous="FULL",
            check=True,
        )

    @property
    def owner(self) -> str | None:
        """The broker that the stops are of; None: not known, the file was not claimed yet."""
        with failures_named(self.path):
            row = self._db.execute("SELECT value FROM owner").fetchone()
        return row and str(row[0])

    @property
    def is_abandoned(self) -> bool:
        return self.owner == _NO_OWNER

    def claim(self, owner: str) -> None:
        """Make a broker the owner. The stops of another one, with what to restore and to announce, are forgotten."""
        before = self.owner
        if before == owner:
            return
        with failures_named(self.path), transaction(self._db):
            if before is not None:
                for table in ("stop", "target", "unannounced"):
                    self._db.execute(f"DELETE FROM {table}")  # noqa: S608
            self._db.execute("DELETE FROM owner")
            self._db.execute("INSERT INTO owner VALUES (?)", (owner,))

    def abandon(self) -> None:
        """Leave the stops behind: no broker gets them, whatever the process that has the file open still writes."""
        with failures_named(self.path), transaction(self._db):
            self._db.execute("DELETE FROM owner")
            self._db.execute("INSERT INTO owner VALUES (?)", (_NO_OWNER,))

    def stops(self) -> list[Stop]:
        with failures_named(self.path):
            return [Stop.from_record(json.loads(text)) for (text,) in self._db.execute("SELECT record FROM stop")]

    def targets(self) -> list[StoppedTarget]:
        """Return the targets that were, or were about to be, stopped or started."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT id, queues, restore, scopes FROM target").fetchall()
        return [StoppedTarget.from_record([id_, *map(json.loads, rest)]) for id_, *rest in rows]

    def unannounced(self) -> list[StopChange]:
        """Return the changes of stops that have no event yet."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT change FROM unannounced ORDER BY rowid").fetchall()
        return [StopChange.from_record(json.loads(text)) for (text,) in rows]

    def save_stops(
        self, stops: Iterable[Stop], targets: Iterable[StoppedTarget], unannounced: Iterable[StopChange] = ()
    ) -> None:
        """Replace the stops, their targets and the changes that have no event yet, in one transaction."""
        with failures_named(self.path), transaction(self._db):
            self._db.execute("DELETE FROM stop")
            self._db.execute("DELETE FROM target")
            self._db.executemany(
                "INSERT INTO stop VALUES (?, ?)", [(str(stop.scope), json.dumps(stop.record())) for stop in stops]
            )
            self._db.executemany("INSERT INTO target VALUES (?, ?, ?, ?)", [_row(each) for each in targets])
            self._replace_unannounced(unannounced)

    def known(self) -> dict[ObjectName, dict[str, Any]]:
        """Return the remembered attributes of objects."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT object, attributes FROM known").fetchall()
        return {ObjectName.parse(name): json.loads(attributes) for name, attributes in rows}

    def remember(
        self,
        changed: Memory,
        pending: tuple[int, Sequence[Fact]] | None = None,
        unannounced: Iterable[StopChange] | None = None,
    ) -> None:
        """Remember attributes of objects. `pending`: the number of the first of the events that are then appended to
        the journal, and these events. `unannounced`: see `save_stops`; None: they stay."""
        gone = [(str(name),) for name, attributes in changed.items() if attributes is None]
        rows = [(str(name), json.dumps(attributes)) for name, attributes in changed.items() if attributes is not None]
        with failures_named(self.path), transaction(self._db):
            self._db.executemany("DELETE FROM known WHERE object = ?", gone)
            self._db.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)
            if pending is not None:
                first, facts = pending
                self._db.execute("DELETE FROM pending")
                numbered = [(number, fact_text(fact)) for number, fact in enumerate(facts, first)]
                self._db.executemany("INSERT INTO pending VALUES (?, ?)", numbered)
            if unannounced is not None:
                self._replace_unannounced(unannounced)

    def _replace_unannounced(self, changes: Iterable[StopChange]) -> None:
        self._db.execute("DELETE FROM unannounced")
        rows = [(json.dumps(change.record()),) for change in changes]
        self._db.executemany("INSERT INTO unannounced VALUES (?)", rows)

    def pending(self) -> tuple[int, list[Fact]]:
        """Return the first number of the events that were last about to be appended, and the events; 0 without any."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT number, fact FROM pending ORDER BY number").fetchall()
        return (rows[0][0] if rows else 0), [fact_of(text) for _, text in rows]

    def close(self) -> None:
        self._db.close()


def _row(stopped: StoppedTarget) -> tuple[str, str, str, str]:
    id_, *rest = stopped.record()
    queues, restore, scopes = map(json.dumps, rest)
    return id_, queues, restore, scopes


def stored_stops(path: Path, owner: str) -> tuple[list[Stop], list[StoppedTarget]]:
    """Return the stops and targets of a broker in its file, which another process may have open; none without a file,
    and of another owner's. Raises StoreError."""
    if not path.exists():
        return [], []
    with reading(path) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        owners = db.execute("SELECT value FROM owner").fetchall() if "owner" in tables else []
        if owners not in ([], [(owner,)]):
            return [], []
        stops = db.execute("SELECT record FROM stop").fetchall() if "stop" in tables else []
        rows = db.execute("SELECT id, queues, restore, scopes FROM target").fetchall() if "target" in tables else []
    found = [Stop.from_record(json.loads(text)) for (text,) in stops]
    return found, [StoppedTarget.from_record([id_, *map(json.loads, rest)]) for id_, *rest in rows]
