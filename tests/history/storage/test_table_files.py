"""Selection of a table's files for a query: a file is skipped only if none of its rows can match."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from console.history.storage.table_files import TableFile


def at(day: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2026, 3, day, hour, tzinfo=dt.UTC)


def file(**bounds: tuple[Any, Any, bool]) -> TableFile:
    """Return a file of 3 March 2026."""
    return TableFile("part.parquet", dt.date(2026, 3, 3), dt.date(2026, 3, 4), 1, 1, bounds)


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (None, None, True),
        (at(2), at(3, 1), True),
        (at(3, 23), at(9), True),
        (at(4), None, False),
        (None, at(2, 23), False),
    ],
)
def test_partition_outside_of_the_range_is_skipped(
    begin: dt.datetime | None, end: dt.datetime | None, expected: bool
) -> None:
    assert file().may_have_days(begin, end) is expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((at(3, 1), at(3, 2), False), True),
        ((at(3, 4), at(3, 5), False), False),
        ((at(2), at(3), False), False),
        ((at(2), at(3), True), True),
        ((None, None, False), True),
        (None, True),
    ],
)
def test_bounds_of_times_skip_only_files_without_nulls(bounds: tuple[Any, Any, bool] | None, expected: bool) -> None:
    found = file() if bounds is None else file(at=bounds)
    assert found.may_have_moments("at", at(3, 1), at(3, 4)) is expected


@pytest.mark.parametrize(("value", "expected"), [("b", True), ("bz", True), ("a", False), ("c", False)])
def test_text_with_the_truncated_maximum_as_prefix_may_be_in_the_file(value: str, expected: bool) -> None:
    assert file(name=("ab", "b", False)).may_have_text("name", value) is expected


def test_column_without_statistics_skips_no_file() -> None:
    assert file().may_have_text("name", "any")
    assert file(name=(None, None, False)).may_have_text("name", "any")
