"""Clean landing rows for the tables: typed, with complete keys, without duplicates. Pure.

Landing rows arrive at least once, late and in any order (`storage/landing.py`); this step hides that from the
others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.storage.layout import LAYOUTS
from console.history.storage.tables import PART, arranged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def complete(kind: str, landed: DataFrame) -> DataFrame:
    """Return the rows of one kind with a complete key and a time."""
    layout = LAYOUTS[kind]
    has_all = F.lit(True)
    for column in (*layout.key, layout.time):
        has_all = has_all & F.col(column).isNotNull()
    return landed.where(has_all)


def clean(kind: str, landed: DataFrame, expected: int) -> DataFrame:
    """Return the complete rows without duplicates, arranged as in the table, so that rows are moved only once.
    `expected`: as for `Tables.append`."""
    layout = LAYOUTS[kind]
    rows = arranged(kind, complete(kind, landed), expected)
    same = Window.partitionBy("of", layout.partition, *layout.key, PART).orderBy(layout.time)
    return rows.withColumn("duplicate", F.lag(F.lit(True)).over(same)).where("duplicate IS NULL").drop("duplicate")


def not_stored(kind: str, rows: DataFrame, stored: DataFrame) -> DataFrame:
    """Return the `rows` that are not stored yet."""
    key = list(LAYOUTS[kind].key)
    return rows.join(stored.select(*key), key, "left_anti")
