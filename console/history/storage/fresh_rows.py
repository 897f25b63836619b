"""Convert rollups, episodes and blocks, as dicts with times in ms, to the tables that a recorder publishes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from console.history.storage.layout import LAYOUTS

_UTC = pa.timestamp("ms", tz="UTC")
_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": _UTC,
    "array<string>": pa.list_(pa.string()),
}


@lru_cache
def schema_of(name: str) -> pa.Schema:
    """Return the schema of a table that is computed."""
    return pa.schema(
        [(word, _TYPES[kind]) for word, kind in (each.split() for each in LAYOUTS[name].columns.split(","))]
    )


def as_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts, with times in ms."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(index, field.name, rows.column(index).cast(_UTC).cast(pa.int64()))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def rows_of(name: str, rows: Iterable[Mapping[str, Any]] | pa.Table) -> pa.Table:
    """Return the rows in the table's order, so that files compress and readers of one queue skip the rest. Missing
    values are null. Raises pyarrow.ArrowException for a wrong type."""
    schema = schema_of(name)
    if isinstance(rows, pa.Table):
        found = rows
    else:
        found = pa.Table.from_arrays(pa.array(list(rows), pa.struct(list(schema))).flatten(), schema=schema)
    return found.sort_by([(column, "ascending") for column in LAYOUTS[name].order])
