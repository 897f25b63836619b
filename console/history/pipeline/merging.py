"""Merge rollups of which some raw rows are no longer stored with what later rows add. Pure.

Retention deletes samples long before rollups. A rollup made from the remaining rows alone would lose what is known, so
it is not replaced: of each total and each maximum the greater value remains, and means, percentiles, rates and levels
are those of the row with the longer known time. So merging is idempotent and does not depend on the order, and no total
becomes smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from console.history.storage.layout import LEVELS, MAXIMA, MEANS, PERCENTILES, RATES, RECORDED, ROLLUP_KEY, SUMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GREATEST = (*RECORDED, *SUMS, *MAXIMA)
_OF_LONGER = (*MEANS, *PERCENTILES, *RATES, *LEVELS)
#: The columns of a merged row.
COLUMNS = (*ROLLUP_KEY, *_GREATEST, *_OF_LONGER)


def merged(stored: DataFrame, found: DataFrame) -> DataFrame:
    """Return a row for each key of `stored` and `found`, rows of the same rollup table."""
    both = (
        stored.select(*COLUMNS)
        .withColumn("stored", F.lit(1))
        .unionByName(found.select(*COLUMNS).withColumn("stored", F.lit(0)))
    )
    rank = F.struct(F.coalesce("known_ms", F.lit(0).cast("bigint")), "stored")
    return both.groupBy(*ROLLUP_KEY).agg(
        *(F.max(name).alias(name) for name in _GREATEST),
        *(F.max_by(name, F.when(F.col(name).isNotNull(), rank)).alias(name) for name in _OF_LONGER),
    )
