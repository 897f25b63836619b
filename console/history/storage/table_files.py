"""The files of a table, as Delta's log lists them, and which of them may have the rows that a query needs.

The pipeline and the web side choose files here, each by what it knows: days, values, bounds of a column.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from console.history.storage.layout import Layout

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LISTED = ("path", "size_bytes", "num_records", "partition.", "min.", "max.", "null_count.")


@dataclass(frozen=True, slots=True)
class TableFile:
    """`path`: as in the log. `partition`, `after`: the days of its partition, half-open. `size`: bytes. `bounds`: of
    columns, as (least, most, whether some are null); values are None where they are not known."""

    path: str
    partition: dt.date
    after: dt.date
    rows: int
    size: int
    bounds: dict[str, tuple[Any, Any, bool]]

    def may_have_days(self, begin: dt.datetime | None, end: dt.datetime | None) -> bool:
        """Whether its partition touches [begin, end). None: no bound."""
        return (begin is None or self.after > begin.date()) and (end is None or self.partition <= end.date())

    def may_have_moments(self, column: str, begin: dt.datetime | None, end: dt.datetime | None) -> bool:
        """Whether a row may have a value in [begin, end), or null. None: no bound."""
        least, most, null = self.bounds.get(column, (None, None, True))
        if null or least is None or most is None:
            return True
        return (end is None or least < end) and (begin is None or most >= begin)

    def may_have_text(self, column: str, value: str) -> bool:
        """Whether a row may have this value. The statistics of a long text are cut short: any text that begins as they
        do may be in the file."""
        least, most, _null = self.bounds.get(column, (None, None, True))
        if not isinstance(least, str) or not isinstance(most, str):
            return True
        return least <= value <= f"{most}\U0010ffff"


def table_files(delta: DeltaTable, layout: Layout) -> list[TableFile]:
    """The files of the version that `delta` has loaded."""
    import pyarrow as pa

    actions = pa.table(delta.get_add_actions(flatten=True))
    rows = actions.select([column for column in actions.column_names if column.startswith(_LISTED)]).to_pylist()
    bounded = [column[4:] for column in actions.column_names if column.startswith("min.")]
    found = []
    for row in rows:
        partition: dt.date = row[f"partition.{layout.partition}"]
        found.append(
            TableFile(
                path=row["path"],
                partition=partition,
                after=_end_of_partition(partition, layout),
                rows=row.get("num_records") or 0,
                size=row.get("size_bytes") or 0,
                bounds={c: (row[f"min.{c}"], row.get(f"max.{c}"), row.get(f"null_count.{c}") != 0) for c in bounded},
            )
        )
    return found


def _end_of_partition(first: dt.date, layout: Layout) -> dt.date:
    """The first day after it."""
    if layout.partition == "month":
        return (first.replace(day=1) + dt.timedelta(days=32)).replace(day=1)
    return first + dt.timedelta(days=1)
