"""The backlog: landing files that are not processed yet. Determined without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from console.history.storage.file_systems import of_table
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.layout import table_url

#: When each file landed, by (kind, name).
Landed = Mapping[tuple[str, str], dt.datetime]


@dataclass(frozen=True, slots=True)
class Backlog:
    """`files`: number of landing files that are in no table; `oldest`: when the first of them landed."""

    files: int = 0
    oldest: dt.datetime | None = None


def find_backlog(url: str, landed: Landed | None = None) -> Backlog:
    """Return the backlog. Raises LandingError, and deltalake's errors if the table of processed files is unreadable."""
    landed = Landing(url).landed() if landed is None else landed
    processed = processed_files(url) if landed else set()
    times = [at for (kind, name), at in landed.items() if kind in SCHEMAS and (kind, name) not in processed]
    return Backlog(len(times), min(times, default=None))


def processed_files(url: str) -> set[tuple[str, str]]:
    """Return (kind, name) of the landing files that are in the tables. Raises deltalake's errors."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    place = table_url(url, "taken")
    try:
        table = DeltaTable(place).to_pyarrow_table(columns=["kind", "file"], filesystem=of_table(place))
    except TableNotFoundError:
        return set()
    return set(zip(table["kind"].to_pylist(), table["file"].to_pylist(), strict=True))
