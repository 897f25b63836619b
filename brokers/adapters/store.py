"""What the adapter of a broker must not forget: operators' stops, what a start has to restore, and the flow state of
objects as last observed, so that events continue where they ended before a restart. One SQLite file a broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.adapters.adapter import StopTarget
from brokers.adapters.observation import Attributes
from brokers.engine.values.stops import Stop
from brokers.model import ObjectName
from brokers.server.sqlite_file import failures_named, open_sqlite, transaction

_SCHEMA = (
    "CREATE TABLE stop (scope TEXT PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE target (id TEXT PRIMARY KEY, queues TEXT NOT NULL, restore TEXT NOT NULL, scopes TEXT NOT NULL)",
    "CREATE TABLE known (object TEXT PRIMARY KEY, attributes TEXT NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class StoppedTarget:
    """A target with its value before the stop, and the scopes (as text) of the stops that need it. Without any it has
    to be started."""

    target: StopTarget
    scopes: frozenset[str]


class AdapterStore:
    """Open or create the file. Every method raises StoreError if it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # FULL: a stop whose record a power cut loses would never be undone.
        self._db = open_sqlite(path, kind="headgate-adapter", version=1, schema=_SCHEMA, synchronous="FULL", check=True)

    def stops(self) -> list[Stop]:
        with failures_named(self.path):
            return [Stop.from_record(json.loads(text)) for (text,) in self._db.execute("SELECT record FROM stop")]

    def targets(self) -> list[StoppedTarget]:
        """Return the targets that were, or were about to be, stopped or started."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT id, queues, restore, scopes FROM target").fetchall()
        return [
            StoppedTarget(
                StopTarget(id_, frozenset(map(ObjectName.parse, json.loads(queues))), json.loads(restore)),
                frozenset(json.loads(scopes)),
            )
            for id_, queues, restore, scopes in rows
        ]

    def save_stops(self, stops: Iterable[Stop], targets: Iterable[StoppedTarget]) -> None:
        """Replace the stops and their targets, in one transaction."""
        with failures_named(self.path), transaction(self._db):
            self._db.execute("DELETE FROM stop")
            self._db.execute("DELETE FROM target")
            self._db.executemany(
                "INSERT INTO stop VALUES (?, ?)", [(str(stop.scope), json.dumps(stop.record())) for stop in stops]
            )
            self._db.executemany("INSERT INTO target VALUES (?, ?, ?, ?)", [_row(each) for each in targets])

    def known(self) -> dict[ObjectName, dict[str, Any]]:
        """Return the remembered attributes of objects."""
        with failures_named(self.path):
            rows = self._db.execute("SELECT object, attributes FROM known").fetchall()
        return {ObjectName.parse(name): json.loads(attributes) for name, attributes in rows}

    def remember(self, changed: Mapping[ObjectName, Attributes | None]) -> None:
        """Remember attributes of objects; None: forget the object."""
        gone = [(str(name),) for name, attributes in changed.items() if attributes is None]
        rows = [(str(name), json.dumps(attributes)) for name, attributes in changed.items() if attributes is not None]
        with failures_named(self.path), transaction(self._db):
            self._db.executemany("DELETE FROM known WHERE object = ?", gone)
            self._db.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)

    def close(self) -> None:
        self._db.close()


def _row(stopped: StoppedTarget) -> tuple[str, str, str, str]:
    target = stopped.target
    queues, scopes = sorted(map(str, target.queues)), sorted(stopped.scopes)
    return target.id, json.dumps(queues), json.dumps(dict(target.restore)), json.dumps(scopes)
