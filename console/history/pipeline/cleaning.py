"""Landing rows to rows that the tables take: typed, complete in what identifies them, each once. Pure.

Landing rows are at least once, late and in any order (`storage/landing.py`). After this step none of
that shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from console.history.storage.layout import LAYOUTS
from console.history.storage.tables import partition_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def complete(kind: str, landed: DataFrame) -> DataFrame:
    """Rows of one kind that have their key and their time."""
    layout = LAYOUTS[kind]
    has_all = F.lit(True)
    for column in (*layout.key, layout.time):
        has_all = has_all & F.col(column).isNotNull()
    return landed.where(has_all)


def clean(kind: str, landed: DataFrame) -> DataFrame:
    """The same without doubles among themselves, and with the column that the table is partitioned by.

    They are brought together by that and sorted, as they will lie in the table, so that nothing is moved twice."""
    layout = LAYOUTS[kind]
    rows = complete(kind, landed).withColumn(layout.partition, partition_column(layout.partition, F.col(layout.time)))
    same = Window.partitionBy(layout.partition, *layout.key).orderBy(layout.time)
    rows = rows.repartition(layout.partition).withColumn("double", F.lag(F.lit(True)).over(same))
    return rows.where("double IS NULL").drop("double")


def unknown(kind: str, rows: DataFrame, stored: DataFrame) -> DataFrame:
    """Those of `rows` that are not among the stored ones."""
    key = list(LAYOUTS[kind].key)
    return rows.join(stored.select(*key), key, "left_anti")
