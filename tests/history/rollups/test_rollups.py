"""The rollups that the recorder keeps in memory equal those of a search through all rows, however they are fed."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.history.rollups.broker import SAMPLE_COLUMNS, BrokerRollups, SnapshotError
from console.history.rollups.interval_sums import corrected
from tests.history.rollups.oracle import Oracle
from tests.history.rollups.random_histories import START, RandomHistory, Row, random_history


class Fed:
    """Rollups and all that they have closed."""

    def __init__(self, broker: str) -> None:
        self.rollups = BrokerRollups(broker)
        self.closed_minutes: list[Row] = []
        self.closed_hours: list[Row] = []

    def take(self, samples: Iterable[Row], events: Iterable[Row], coverage: Iterable[Row]) -> None:
        closed = self.rollups.take(samples, events, coverage)
        broker = self.rollups.broker
        for table, rows in (("minutes", self.closed_minutes), ("hours", self.closed_hours)):
            rows[:] = corrected(broker, rows, [each for each in closed.corrections if each["table"] == table])
        self.closed_minutes += closed.minutes
        self.closed_hours += closed.hours

    def restart(self) -> None:
        self.rollups = BrokerRollups.restore(json.loads(json.dumps(self.rollups.snapshot())))

    @property
    def minutes(self) -> list[Row]:
        return self.closed_minutes + self.rollups.open_minutes()

    @property
    def hours(self) -> list[Row]:
        return self.closed_hours + self.rollups.open_hours()


def feed(history: RandomHistory, chance: random.Random | None = None) -> Fed:
    """Feed a history at once; with `chance`, each row of coverage after the rows of its time, and with restarts."""
    fed = Fed(history.broker)
    if chance is None:
        fed.take(history.samples, history.events, history.coverage)
        return fed
    samples, events = list(history.samples), list(history.events)
    for row in history.coverage:
        until = row["until"]
        for rows, name in ((samples, "samples"), (events, "events")):
            early = [each for each in rows if each["at"] < until or chance.random() < 0.1]
            rows[:] = [each for each in rows if not any(each is other for other in early)]
            chance.shuffle(early)
            some = chance.randint(0, len(early))
            for part in (early[:some], early[some:]):
                fed.take(*((part, ()) if name == "samples" else ((), part)), ())
        for part in _split(chance, row):
            if chance.random() < 0.2:
                fed.restart()
            fed.take((), (), [part])
            if chance.random() < 0.2:
                fed.rollups.open_minutes()  # changes nothing
    return fed


def _split(chance: random.Random, row: Row) -> list[Row]:
    """Return a row of coverage in parts, the last one perhaps again."""
    middle = chance.randint(row["at"], row["until"])
    parts = [{**row, "until": middle}, {**row, "at": middle}]
    return parts + parts[1:] if chance.random() < 0.2 else parts


def by_key(rows: list[Row]) -> dict[Any, Row]:
    found = {(row["at"], row["kind"], row["virtualhost"], row["name"], row["queue"]): row for row in rows}
    assert len(found) == len(rows), "two rows have the same key"
    return found


SEEDS = st.integers(0, 10**9)


def assert_equal_rows(table: str, found: list[Row], expected: list[Row]) -> None:
    if table in ("holds", "episodes"):  # several may begin and end at the same time
        mine, others = (Counter(repr(sorted(row.items())) for row in rows) for rows in (found, expected))
        assert (sorted(mine - others), sorted(others - mine)) == ([], []), table
        return
    rows, of_others = by_key(found), by_key(expected)
    assert sorted(rows, key=repr) == sorted(of_others, key=repr), table
    for key, row in rows.items():
        assert row == {name: _like(row, name, value) for name, value in of_others[key].items()}, (table, key)


def _like(row: Row, name: str, value: Any) -> Any:
    """Return the row's value in place of one that differs in the last digits of a sum of fractions."""
    own = row.get(name)
    if isinstance(value, float) and isinstance(own, float | int):
        return own if own == pytest.approx(value, rel=1e-9) else value
    return value


def assert_equals_oracle(fed: Fed, oracle: Oracle) -> None:
    assert_equal_rows("holds", fed.rollups.holds(), oracle.holds)
    assert_equal_rows("episodes", fed.rollups.episodes(), oracle.episodes())
    assert_equal_rows("minutes", fed.minutes, oracle.minutes())
    assert_equal_rows("hours", fed.hours, oracle.hours())


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 60))
def test_rollups_equal_those_of_a_search_through_all_rows(seed: int, rows: int) -> None:
    history = random_history(random.Random(seed), rows=rows)
    assert_equals_oracle(feed(history), Oracle(history))


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 40))
def test_rows_in_parts_with_restarts_give_the_same(seed: int, rows: int) -> None:
    chance = random.Random(seed)
    history = random_history(chance, rows=rows, since=False)
    assert_equals_oracle(feed(history, chance), Oracle(history))


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(1, 40))
def test_late_rows_are_counted_and_harm_nothing(seed: int, rows: int) -> None:
    """They arrive in any order after all others: what was known stays, but for intervals that were ongoing."""
    chance = random.Random(seed)
    history, late = random_history(chance, rows=rows), random_history(chance, rows=rows)
    fed = feed(history)
    covered = fed.rollups.covered or 0
    before = fed.rollups.holds(), fed.rollups.episodes()
    late.samples = [row for row in late.samples if row["at"] < covered]
    late.events = [row for row in late.events if row["at"] < covered]
    chance.shuffle(late.events)
    later = {**history.coverage[-1], "at": covered, "until": covered + 1}
    fed.take(late.samples, late.events, [later])
    assert fed.rollups.late == len(late.samples) + len(late.events)
    for old, new in zip(before, (fed.rollups.holds(), fed.rollups.episodes()), strict=True):
        ended = [row["start"] for row in old if row["end"] is not None and row.get("settled", True)]
        assert set(ended) <= {row["start"] for row in new}
    fed.restart()
    by_key(fed.minutes)
    by_key(fed.hours)


def test_late_events_of_a_queue_that_is_known_to_be_normal_begin_nothing() -> None:
    rollups = BrokerRollups("b")
    normal = dict.fromkeys(SAMPLE_COLUMNS) | {"at": START + 50_000, "virtualhost": "default", "queue": "q"}
    normal |= {"whole": True, "state": "NORMAL", "blocked_producers": 0}
    rollups.take([normal], [], [{"at": START, "until": START + 60_000, "followed": True}])
    queue = {"virtualhost": "default", "queue": "q"}
    late = [
        queue | {"at": START + 10_000, "sequence": 1, "kind": "queue-overfull"},
        queue | {"at": START + 10_000, "sequence": 2, "kind": "producer-blocked", "object": "p"},
    ]
    rollups.take([], late, [{"at": START + 60_000, "until": START + 70_000, "followed": True}])
    assert (rollups.late, rollups.episodes(), rollups.holds()) == (2, [], [])


def test_snapshot_of_another_version_is_refused() -> None:
    state = BrokerRollups("b").snapshot()
    with pytest.raises(SnapshotError, match="version 99, not 1"):
        BrokerRollups.restore({**state, "version": 99})
    with pytest.raises(SnapshotError, match="damaged"):
        BrokerRollups.restore({"version": 1})
    assert BrokerRollups.restore(state).covered is None
