"""Open the tables for runs: convert those of an earlier release first, and note what has to be rolled up again then."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from console.history.pipeline.pending_rollups import Changes, PendingRollups
from console.history.storage.tables import Range, Tables
from console.history.storage.upgrade import upgrade_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where an earlier release noted the intervals that a killed run had changed: (from, to), ms; null: open.
_NOTE = "pipeline/owed.json"


def open_tables(spark: SparkSession, url: str, on_step: Callable[[str], None] = lambda _name: None) -> Tables:
    """Return the tables of a history. The caller owns all leases if they are of an earlier release. Raises
    LandingError, deltalake's errors."""
    tables = Tables(spark, url)
    landing = tables.landing
    pending = PendingRollups(landing)

    def note(changed: Mapping[str, Range]) -> None:
        for broker, (begin, end) in changed.items():
            ranges = [(begin, end)]
            for since, until in json.loads(landing.get(_NOTE) or b"[]"):
                ranges.append((since, max(since, end if until is None else until) + 1))
            pending.store(Changes(broker, begin, ranges))

    upgrade_tables(url, on_step, note=note)
    landing.delete(_NOTE)
    return tables
