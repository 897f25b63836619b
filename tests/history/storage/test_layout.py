"""Each column of the rollups is in one of the lists by which all parts of the history combine rows."""

from __future__ import annotations

import duckdb

from console.history.pipeline import merging
from console.history.rollups.rows import row_of_minute
from console.history.storage import combined, layout
from console.history.storage.commits import arrow_schema

LISTS = (
    layout.ROLLUP_KEY,
    layout.RECORDED,
    layout.SUMS,
    layout.MAXIMA,
    layout.MEANS,
    layout.PERCENTILES,
    layout.RATES,
    layout.LEVELS,
)


def test_each_column_of_a_rollup_is_in_one_list() -> None:
    for name in ("minutes", "hours", "days"):
        assert sorted(arrow_schema(name).names) == sorted(column for each in LISTS for column in each)


def test_intervals_contribute_to_sums_and_measures_are_columns_of_episodes() -> None:
    assert set(layout.OF_INTERVALS) < set(layout.SUMS)
    assert set(layout.MEASURES) < set(arrow_schema("episodes").names)


def test_every_part_that_combines_rows_combines_all_columns() -> None:
    columns = arrow_schema("days").names
    assert sorted(merging.COLUMNS) == sorted(columns)
    assert sorted(row_of_minute("b", 0, 0, ("queue", "v", "q", "q"), None)) == sorted(columns)
    rows = arrow_schema("days").empty_table()
    with duckdb.connect() as database:
        database.register("stored", rows)
        database.register("fresh", rows)
        found = database.sql(f"FROM {combined.days(columns, 'stored', 'fresh', {}, 0)}").columns
    assert found == columns
