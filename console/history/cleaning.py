"""Landing rows to rows that the tables take: typed, complete in what identifies them, each once. Pure.

Landing rows are at least once, late and in any order (`landing.py`). After this step none of that can be told any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.layout import LAYOUTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def clean(kind: str, landed: DataFrame) -> DataFrame:
    """Rows of one kind, without doubles among themselves; those without their key or their time are left out."""
    layout = LAYOUTS[kind]
    needed = (*layout.key, layout.time)
    complete = F.lit(True)
    for column in needed:
        complete = complete & F.col(column).isNotNull()
    return landed.where(complete).dropDuplicates(list(layout.key))


def unknown(kind: str, rows: DataFrame, stored: DataFrame) -> DataFrame:
    """Those of `rows` that are not among the stored ones."""
    key = list(LAYOUTS[kind].key)
    return rows.join(stored.select(*key), key, "left_anti")
