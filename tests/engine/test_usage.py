"""Limits on memory, store and temp store: valid levels, and when a resource becomes overfull."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.flow.usage import (
    NO_LEVELS,
    TABLE,
    Change,
    Input,
    Levels,
    Resource,
    Usage,
    limit_levels,
    store_levels,
)
from brokers.engine.values.limits import InvalidPolicy

BEGAN, ENDED = Change.OVERFULL_BEGAN, Change.OVERFULL_ENDED


def set_levels(usage: Usage, levels: Levels) -> Change | None:
    """Apply other levels to the present usage."""
    usage.levels = levels
    return usage.update(usage.used)


def test_store_becomes_overfull_above_one_limit_and_underfull_below_the_other() -> None:
    usage = Usage(Resource.STORE)
    assert set_levels(usage, store_levels(1000, 800)) is None
    seen = [(used, usage.update(used)) for used in (1000, 1001, 2000, 801, 800, 799, 799, 1000)]
    assert [(used, change) for used, change in seen if change] == [(1001, BEGAN), (799, ENDED)]


def test_without_an_underfull_limit_the_overfull_one_is_used_for_both() -> None:
    assert store_levels(1000, None) == Levels(1000, 1000)
    usage = Usage(Resource.STORE)
    set_levels(usage, Levels(1000, 1000))
    assert [usage.update(used) for used in (1001, 1001, 1000)] == [BEGAN, None, ENDED]


def test_underfull_above_overfull_is_refused_with_both_values() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        store_levels(1000, 1001)
    assert list(refused.value.errors) == ["store_underfull_bytes"]
    assert "1001" in str(refused.value)
    assert "1000" in str(refused.value)


@pytest.mark.parametrize("overfull", [None, 0])
def test_underfull_without_overfull_is_refused(overfull: int | None) -> None:
    with pytest.raises(InvalidPolicy, match="store_underfull_bytes is 5 and store_overfull_bytes is not set"):
        store_levels(overfull, 5)
    assert store_levels(overfull, None) is NO_LEVELS


@pytest.mark.domain("4 percentLimit and total")
def test_percentages_refer_to_the_total_or_else_to_the_available_amount() -> None:
    assert limit_levels("store_limit", "80%", total=None, available=1000) == Levels(800, 800)
    assert limit_levels("store_limit", "80%", total=0, available=1000) == Levels(800, 800)
    assert limit_levels("store_limit", "12.5%", total=4000, available=1000) == Levels(500, 500)
    assert limit_levels("temp_limit", 123, total=None, available=1000) == Levels(123, 123)
    assert limit_levels("memory_limit", "1%", total=None, available=10) == Levels(1, 1)  # small is not none
    for none in (None, 0, "0%"):
        assert limit_levels("memory_limit", none, total=None, available=10) == NO_LEVELS


def test_limit_above_its_total_is_refused_with_both_values() -> None:
    with pytest.raises(InvalidPolicy, match="store_limit is 2000 and store_total is 1000"):
        limit_levels("store_limit", 2000, total=1000, available=5000)


def test_changed_levels_apply_at_once_in_both_directions() -> None:
    usage = Usage(Resource.MEMORY)
    usage.update(500)
    assert set_levels(usage, Levels(400, 300)) is BEGAN
    assert usage.release_condition() == "memory falls below 300 bytes (now 500)"
    assert set_levels(usage, Levels(600, 550)) is ENDED
    assert set_levels(usage, Levels(499, 499)) is BEGAN
    assert usage.release_condition() == "memory falls to 499 bytes (now 500)"
    assert set_levels(usage, NO_LEVELS) is ENDED


@given(
    overfull=st.integers(1, 50), below=st.integers(0, 50), used=st.lists(st.integers(0, 100), min_size=1, max_size=50)
)
def test_begins_and_ends_alternate_and_agree_with_the_levels(overfull: int, below: int, used: list[int]) -> None:
    usage = Usage(Resource.TEMP)
    set_levels(usage, store_levels(overfull, max(1, overfull - below)))
    changes = []
    for each in used:
        changes.append(usage.update(each))
        assert usage.overfull or each <= overfull
        assert not usage.overfull or each >= usage.levels.underfull
    reported = [c for c in changes if c]
    assert reported == [BEGAN, ENDED] * (len(reported) // 2) + [BEGAN] * (len(reported) % 2)
    assert usage.overfull == bool(len(reported) % 2)


def test_table_names_every_change_once() -> None:
    assert {change for _, change in TABLE.values()} == set(Change)
    assert all(state is not overfull for (overfull, _), (state, _) in TABLE.items())
    assert {seen for _, seen in TABLE} == set(Input)
