"""Select the landing files of the next run, from their names and footers. No row is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from console.history.storage.landing import Landing, LandingError
from console.history.storage.layout import LAYOUTS

if TYPE_CHECKING:
    from console.history.storage.tables import Range, Tables

KINDS = ("events", "samples", "coverage")

#: Maximum number of landing files, and of rows, per kind and run, so that a large backlog is processed in steps that
#: fit the heap.
MOST_FILES, MOST_ROWS = 400, 10_000_000

_ALL_TIMES = (dt.datetime(1, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC))


@dataclass(frozen=True, slots=True)
class Batch:
    """Files, row counts and bounds by kind. `bounds`: first and last time of the rows; `more`: further files exist;
    `unreadable`: file -> reason."""

    files: Mapping[str, list[str]]
    rows: Mapping[str, int]
    bounds: Mapping[str, Range]
    more: bool = False
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.files.values()))


def find_batch(tables: Tables) -> Batch:
    """Return the next batch. Raises LandingError."""
    found = {kind: tables.landing.names(kind) for kind in KINDS}
    processed: set[tuple[str, str]] = set()
    if any(found.values()):
        rows = tables.gather("taken", ["kind", "file"])
        processed = set(zip(rows["kind"].to_pylist(), rows["file"].to_pylist(), strict=True))
    files: dict[str, list[str]] = {kind: [] for kind in KINDS}
    counts = dict.fromkeys(KINDS, 0)
    bounds: dict[str, Range] = {}
    more, unreadable = False, {}
    for kind, names in found.items():
        for name in names:
            if (kind, name) in processed:
                continue
            if len(files[kind]) >= MOST_FILES or counts[kind] >= MOST_ROWS:
                more = True
                break
            try:
                count, (first, last) = _footer(tables.landing, kind, name)
            except LandingError as error:
                unreadable[f"{kind}/{name}"] = str(error)
                continue
            files[kind].append(name)
            counts[kind] += count
            known = bounds.get(kind, (first, last))
            bounds[kind] = (min(known[0], first), max(known[1], last))
    return Batch(files, counts, bounds, more, unreadable)


def _footer(landing: Landing, kind: str, name: str) -> tuple[int, Range]:
    """Return the number of rows of a file, and their first and last time. Raises LandingError."""
    footer: pq.FileMetaData = landing.footer(kind, name)
    at = footer.schema.names.index(LAYOUTS[kind].time) if LAYOUTS[kind].time in footer.schema.names else None
    if at is None:
        raise LandingError(f"{name} has no column {LAYOUTS[kind].time}")
    statistics = [footer.row_group(group).column(at).statistics for group in range(footer.num_row_groups)]
    moments = [value for each in statistics if each is not None and each.has_min_max for value in (each.min, each.max)]
    if len(moments) < 2 * len(statistics) or not moments:
        return footer.num_rows, _ALL_TIMES
    utc = [value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC) for value in moments]
    return footer.num_rows, (min(utc), max(utc))
