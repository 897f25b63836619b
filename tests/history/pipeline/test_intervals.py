"""Intervals: merging and splitting into portions preserve the covered time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from console.history.pipeline.intervals import joined, portions
from console.history.storage.durations import DAY, HOUR, MINUTE

ANY = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)).map(lambda each: (each[0], each[0] + each[1])))


def hours(intervals: list[tuple[int, int]]) -> list[int]:
    return [hour for begin, end in intervals for hour in range(begin // HOUR, end // HOUR)]


def in_ms(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(begin * HOUR, end * HOUR) for begin, end in intervals]


@given(ANY, st.integers(1, 30))
def test_merged_intervals_are_few_ordered_disjoint_and_cover_the_given_ones(
    given: list[tuple[int, int]], most: int
) -> None:
    found = joined(in_ms(given), most)
    assert len(found) <= most
    assert all(one[1] < other[0] for one, other in itertools.pairwise(found))
    assert set(hours(found)) >= set(hours(in_ms(given)))
    if len(joined(in_ms(given), 1000)) <= most:
        assert set(hours(found)) == set(hours(in_ms(given)))


def test_years_without_samples_are_several_portions() -> None:
    """The rows of recorded time of ten years of an imported log do not fit the heap."""
    found = portions({"a": [(0, 3650 * DAY)]}, {})
    assert [hour for portion in found for hour in hours(portion["a"])] == hours([(0, 3650 * DAY)])
    minutes = [sum(end - begin for begin, end in portion["a"]) // MINUTE for portion in found]
    assert max(minutes) <= 300_000
    assert len(found) <= 20


@given(ANY, st.dictionaries(st.integers(0, 20), st.integers(1, 100)), st.integers(1, 300))
def test_portions_cover_the_same_hours_in_order_within_the_limit_or_are_one_day(
    given: list[tuple[int, int]], rows: dict[int, int], most: int
) -> None:
    by_broker = {"a": joined(in_ms(given), 20), "b": joined(in_ms(given[::2]), 20)}
    found = portions(by_broker, rows, most)
    for broker, intervals in by_broker.items():
        assert [hour for portion in found for hour in hours(portion.get(broker, []))] == hours(intervals)
    at = [{hour * HOUR // DAY for each in portion.values() for hour in hours(each)} for portion in found]
    for days in at:
        assert sum(rows.get(day, 0) for day in days) <= most or len(days & set(rows)) == 1
    assert all(max(one) < min(other) for one, other in itertools.pairwise(at)), "a day lies in one portion"
