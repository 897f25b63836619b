"""What a recorder publishes of its broker beside the landing folder: the contract between recorders and readers. Pure.

`<HEADGATE_HISTORY_URL>/recorder/<broker>/` has, with the broker's name encoded by `landing_names.part`:

`published.json`        the catalog: which of the other files are current. Replaced atomically.
`<kind>~<...>.parquet`  the rows. A file never changes; one that the catalog no longer lists is removed after
                        `GRACE_SECONDS`.
`position.json`, `state.json`
                        the recorder's own, to resume from. Readers ignore them.

Kinds, with the columns of the table of the same name (`layout.py`, `landing.py`; times are UTC):
- `events`, `samples`, `coverage`: the *tail*, rows that are in no landing file yet; one file at most. Its `sequence` is
  that of the landing file that will have these rows: if there is a landing file of this sequence or the table's
  transaction identifier has reached it, the rows are there and the tail is obsolete.
- `minutes`, `hours`: rollups from T on, and maybe older ones, where T is the version of the table's transaction
  identifier `landing_names.rolled_id(broker)`. Rows with `at >= T` are in no table. The open minute and hour are
  included. A row is in one file only.
- `episodes`, `holds`: those that are open, and those that have ended since T. A row replaces the table's row with the
  same key (`REPLACED_BY`).

Guarantees for readers:
- The files of one catalog are consistent with each other. So read the catalog before the list of landing files and the
  tables' logs: rows move from the tail to a landing file and then to a table, never back.
- The recorder removes what the tables have only `GRACE_SECONDS` after it has seen that they have it. So an older
  version of a table may be combined with a newer catalog.
- After an unclean end the last catalog remains, and the next recorder lands its tail before it continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from console.history.storage.landing_names import part

FOLDER = "recorder"
CATALOG = "published.json"

#: Seconds for which a file that the catalog no longer lists remains, and rows that the tables have remain published.
#: Longer than a reader caches a catalog or a table's version, and than a query takes.
GRACE_SECONDS = 120.0

RAW = ("events", "samples", "coverage")
ROLLUPS = ("minutes", "hours")
INTERVALS = ("episodes", "holds")

#: A fresh row replaces the row of the table with the same values in these columns.
REPLACED_BY: Mapping[str, tuple[str, ...]] = {
    "episodes": ("broker", "id"),
    "holds": ("broker", "virtualhost", "queue", "producer", "start"),
}

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FreshFile:
    """`file`: name in the broker's folder. `first`, `last`: bounds of the rows' times, ms, inclusive: `at`, or `start`
    of intervals; of coverage `at` and `until`. `sequence`: of a tail; 0 for other kinds."""

    file: str
    first: int
    last: int
    rows: int
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Catalog:
    """`published`: time of the broker's clock, ms, up to which the files are complete. `position`: the recorder's own:
    its position after the tail of events."""

    broker: str
    published: int
    files: Mapping[str, tuple[FreshFile, ...]] = field(default_factory=dict)
    position: Mapping[str, Any] | None = None

    def tail(self, kind: str) -> FreshFile | None:
        return next(iter(self.files.get(kind, ())), None)

    def encode(self) -> bytes:
        content = {
            "format": _FORMAT,
            "broker": self.broker,
            "published": self.published,
            "position": self.position,
            "files": {kind: [asdict(file) for file in files] for kind, files in self.files.items()},
        }
        return json.dumps(content, separators=(",", ":")).encode()


def decode(content: bytes) -> Catalog:
    """Raises ValueError for damaged content, and for that of a later release."""
    try:
        found = json.loads(content)
        if found["format"] != _FORMAT:
            raise ValueError(f"its format is {found['format']!r}, and this release reads {_FORMAT}")
        files = {kind: tuple(FreshFile(**each) for each in listed) for kind, listed in found["files"].items()}
        return Catalog(found["broker"], found["published"], files, found.get("position"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its content is not as expected: {error}") from error


def folder(broker: str) -> str:
    """Return the path of the broker's folder, relative to the history's root."""
    return f"{FOLDER}/{part(broker)}"
