"""The backlog: landing files that are not processed yet. Determined without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_names import broker_of, landed_id, sequence_of
from console.history.storage.layout import table_url

#: When each file landed, by (kind, name).
Landed = Mapping[tuple[str, str], dt.datetime]


@dataclass(frozen=True, slots=True)
class Backlog:
    """`files`: number of landing files that are in no table; `oldest`: when the first of them landed."""

    files: int = 0
    oldest: dt.datetime | None = None


def find_backlog(url: str, landed: Landed | None = None) -> Backlog:
    """Return the backlog. Raises LandingError, and deltalake's errors if a table is unreadable."""
    landed = Landing(url).landed() if landed is None else landed
    processed = processed_files(url, landed)
    times = [at for file, at in landed.items() if file[0] in SCHEMAS and file not in processed]
    return Backlog(len(times), min(times, default=None))


def processed_files(url: str, landed: Landed | None = None) -> set[tuple[str, str]]:
    """Return (kind, name) of the landing files whose rows are in the tables: those of a recorder, up to the last
    committed sequence. Other files are removed once they are processed. Raises LandingError, deltalake's errors."""
    landed = Landing(url).landed() if landed is None else landed
    done: set[tuple[str, str]] = set()
    for kind in SCHEMAS:
        numbers = {name: number for of, name in landed if of == kind and (number := sequence_of(name)) is not None}
        brokers = {broker_of(name) for name in numbers}
        versions = _versions(url, kind, brokers) if brokers else {}
        done |= {(kind, name) for name, number in numbers.items() if number <= versions.get(broker_of(name), 0)}
    return done


def _versions(url: str, kind: str, brokers: set[str]) -> dict[str, int]:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(table_url(url, kind))
    except TableNotFoundError:
        return {}
    return {broker: table.transaction_version(landed_id(kind, broker)) or 0 for broker in brokers}
