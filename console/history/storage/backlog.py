"""Which landing files wait to be taken, told without Spark: for deciding whether to start it, and for the status."""

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
    """`files` that landed and are in no table; `oldest`: when the first of them landed."""

    files: int = 0
    oldest: dt.datetime | None = None


def find_backlog(url: str, landed: Landed | None = None) -> Backlog:
    """Raises LandingError, or deltalake's errors when the table of what was taken cannot be read."""
    landed = Landing(url).landed() if landed is None else landed
    taken = taken_files(url) if landed else set()
    times = [at for (kind, name), at in landed.items() if kind in SCHEMAS and (kind, name) not in taken]
    return Backlog(len(times), min(times, default=None))


def taken_files(url: str) -> set[tuple[str, str]]:
    """(kind, name) of the landing files that are in the tables."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    place = table_url(url, "taken")
    try:
        table = DeltaTable(place).to_pyarrow_table(columns=["kind", "file"], filesystem=of_table(place))
    except TableNotFoundError:
        return set()
    return set(zip(table["kind"].to_pylist(), table["file"].to_pylist(), strict=True))
