"""The files of a table according to its Delta log, and the selection of those that a query needs.

The pipeline and the queries select files by days, values and bounds of columns.
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
    """One file, of one broker. `path`: as in the log. `partition`, `after`: first day of its partition and the day
    after it. `size`: bytes. `bounds`: column -> (minimum, maximum, has nulls); None: unknown."""

    path: str
    partition: dt.date
    after: dt.date
    rows: int
    size: int
    bounds: dict[str, tuple[Any, Any, bool]]
    broker: str = ""

    def may_have_days(self, begin: dt.datetime | None, end: dt.datetime | None) -> bool:
        """Return whether its partition overlaps [begin, end). None: no bound."""
        return (begin is None or self.after > begin.date()) and (end is None or self.partition <= end.date())

    def may_have_moments(self, column: str, begin: dt.datetime | None, end: dt.datetime | None) -> bool:
        """Return whether a row may have a value in [begin, end), or null. None: no bound."""
        least, most, null = self.bounds.get(column, (None, None, True))
        if null or least is None or most is None:
            return True
        return (end is None or least < end) and (begin is None or most >= begin)

    def may_have_text(self, column: str, value: str) -> bool:
        """Return whether a row may have this value. Statistics of long texts are truncated: any text with the maximum
        as its prefix may be in the file."""
        least, most, _null = self.bounds.get(column, (None, None, True))
        if not isinstance(least, str) or not isinstance(most, str):
            return True
        return least <= value <= f"{most}\U0010ffff"


def table_files(delta: DeltaTable, layout: Layout) -> list[TableFile]:
    """Return the files of the version that `delta` has loaded. Of a table with the partitions of an earlier release
    `broker` is empty."""
    import pyarrow as pa

    actions = pa.table(delta.get_add_actions(flatten=True))
    rows = actions.select([column for column in actions.column_names if column.startswith(_LISTED)]).to_pylist()
    bounded = [column[4:] for column in actions.column_names if column.startswith("min.")]
    found = []
    for row in rows:
        of_time = next(name for name in (layout.partition, "day", "month") if f"partition.{name}" in row)
        partition: dt.date = row[f"partition.{of_time}"]
        broker = row.get("partition.broker")  # a table of an earlier release has no such partition
        found.append(
            TableFile(
                path=row["path"],
                partition=partition,
                after=_end_of_partition(partition, of_time),
                rows=row.get("num_records") or 0,
                size=row.get("size_bytes") or 0,
                bounds={c: (row[f"min.{c}"], row.get(f"max.{c}"), row.get(f"null_count.{c}") != 0) for c in bounded}
                | ({} if broker is None else {"broker": (broker, broker, False)}),
                broker=broker or "",
            )
        )
    return found


def _end_of_partition(first: dt.date, length: str) -> dt.date:
    """Return the first day after a partition."""
    if length == "month":
        return (first.replace(day=1) + dt.timedelta(days=32)).replace(day=1)
    return first + dt.timedelta(days=1)
