"""Retention does not trust the clock: one that is set ahead deletes two days a night at most. Without Spark."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from console.history.models import HistoryRun
from console.history.pipeline import maintenance
from console.history.pipeline.diagnosis import findings
from console.history.pipeline.pieces import Piece, Pieces
from console.history.pipeline.retention_date import Retained, confirm_clock, last_retention, next_date
from console.history.pipeline.status import Status
from console.history.storage.landing import Landing
from console.history.storage.layout import LAYOUTS
from console.history.storage.tables import Tables
from console.management.commands import history as command
from tests.history.delta import DAY, coverage, read, sample, write

TODAY = dt.date(2026, 3, 14)
NOON = int(dt.datetime.combine(TODAY, dt.time(12), dt.UTC).timestamp() * 1000)
YEAR = dt.timedelta(days=365)
RETAINED = LAYOUTS["samples"].keep_days or 0
#: Of the samples, in days.
AGES = (0, 10, *range(RETAINED - 21, RETAINED + 4))


def younger_than(days: int) -> list[int]:
    """Return the ages of the samples that are younger than that."""
    return [age for age in AGES if age < days]


class Nightly:
    """The nightly retention of a history, with a clock that the test sets."""

    def __init__(self, url: str) -> None:
        self.url, self.today = url, TODAY
        self.said: list[str] = []

    def run(self, today: dt.date) -> None:
        self.today = today
        Unsparked(
            self.url,
            lambda _on_step: pytest.fail("no Spark"),
            lambda *_: (0, 0.0),
            say=self.said.append,
            clock=lambda: dt.datetime.combine(self.today, dt.time(3, 40), dt.UTC),
        ).execute(Piece(HistoryRun.RETAIN))

    def days(self) -> list[int]:
        """Return the ages of the stored samples in days, as of `TODAY`."""
        return sorted((TODAY - row["at"].date()).days for row in read(self.url, "samples").to_pylist())


class Unsparked(Pieces):
    @contextlib.contextmanager
    def _usable(self, row: Any) -> Iterator[Tables]:
        yield Tables(None, self._url)  # type: ignore[arg-type]


@pytest.fixture
def nightly(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Nightly:
    """A history of forty days whose recorder has recorded until now."""
    monkeypatch.setattr(maintenance, "vacuum", lambda *_: None)
    url = settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    write(url, "samples", [sample(NOON - day * DAY, 1) for day in AGES])
    write(url, "coverage", [coverage(NOON - 39 * DAY, NOON)])
    return Nightly(url)


@pytest.mark.django_db
def test_first_retention_deletes_what_is_too_old(nightly: Nightly) -> None:
    nightly.run(TODAY)
    assert nightly.days() == younger_than(RETAINED + 1)
    assert nightly.said == []


@pytest.mark.django_db
@pytest.mark.parametrize("had_run_before", [False, True])
def test_clock_a_year_ahead_deletes_two_days_a_night_however_often_it_is_tried(
    nightly: Nightly, had_run_before: bool
) -> None:
    if had_run_before:
        nightly.run(TODAY)
    for _ in range(5):
        nightly.run(TODAY + YEAR)
    assert nightly.days() == younger_than(RETAINED - 1)
    assert "as of 2026-03-16, since the clock's date 2027-03-14 is not confirmed" in nightly.said[0]
    nightly.run(TODAY + YEAR + dt.timedelta(days=1))
    assert nightly.days() == younger_than(RETAINED - 3)


@pytest.mark.django_db
def test_clock_that_is_right_again_is_followed_at_once(nightly: Nightly) -> None:
    nightly.run(TODAY)
    nightly.run(TODAY + YEAR)
    left = nightly.days()
    for day in (1, 2, 3):
        nightly.run(TODAY + dt.timedelta(days=day))
    assert nightly.days() == left[:-1], "the third day deletes one more than the wrong night did"
    assert last_retention(Landing(nightly.url)) == Retained(*[TODAY + dt.timedelta(days=3)] * 2)


@pytest.mark.django_db
def test_retention_catches_up_after_a_pause_of_the_machine(nightly: Nightly) -> None:
    nightly.run(TODAY)
    nights = [TODAY + dt.timedelta(days=10 + night) for night in range(10)]
    for night in nights:
        nightly.run(night)
    assert nightly.days() == younger_than(RETAINED + 1 - 19)
    assert len(nightly.said) == 8


@pytest.mark.django_db
def test_clock_that_was_behind_for_a_night_delays_nothing(nightly: Nightly) -> None:
    nightly.run(TODAY)
    nightly.run(TODAY - YEAR)
    nightly.run(TODAY + dt.timedelta(days=1))
    assert nightly.days() == younger_than(RETAINED)


@pytest.mark.django_db
def test_confirmed_clock_is_followed_at_once(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly.run(TODAY)
    later = TODAY + dt.timedelta(days=20)
    nightly.run(later)
    assert nightly.days() == younger_than(RETAINED - 1)
    monkeypatch.setattr(command, "_today", lambda: later)
    monkeypatch.setattr(command.Command, "_do_once", lambda _self, work: nightly.run(later))
    call_command("history", once="retain", clock_is_right=True)
    assert nightly.days() == younger_than(RETAINED + 1 - 20)


@pytest.mark.django_db
def test_confirmation_belongs_to_retention_alone(nightly: Nightly) -> None:
    with pytest.raises(CommandError, match="belongs to --once retain"):
        call_command("history", once="compact", clock_is_right=True)
    assert last_retention(Landing(nightly.url)) is None


@pytest.mark.django_db
def test_damaged_record_of_the_last_retention_counts_as_none(nightly: Nightly) -> None:
    (Path(nightly.url) / "retention.json").write_text('{"as_of": "20')
    nightly.run(TODAY + YEAR)
    assert nightly.days() == younger_than(RETAINED - 1)


def test_limited_retention_is_a_finding_with_the_command_that_confirms_the_clock(tmp_path: Path) -> None:
    def kinds(clock: dt.date) -> list[tuple[str, str]]:
        found = findings(Status(NOON, files=1, retained=Retained(TODAY, clock)))
        return [(each.kind, each.severity) for each in found if each.kind == "retention-limited"]

    assert kinds(TODAY) == []
    assert kinds(TODAY + dt.timedelta(days=6)) == [("retention-limited", "note")]
    assert kinds(TODAY + YEAR) == [("retention-limited", "trouble")]
    (found,) = [
        each
        for each in findings(Status(NOON, files=1, retained=Retained(TODAY, TODAY + YEAR)))
        if each.kind == "retention-limited"
    ]
    assert "The clock showed 2027-03-14 at the last retention, 365 days after" in found.text
    assert "`headgate history --once retain --clock-is-right`" in found.next
    confirm_clock(Landing(str(tmp_path)), TODAY + YEAR)
    assert last_retention(Landing(str(tmp_path))) == Retained(TODAY + YEAR, TODAY + YEAR)


DATES = st.dates(dt.date(2020, 1, 1), dt.date(2040, 1, 1))


@given(st.lists(DATES, min_size=1, max_size=30))
def test_any_sequence_of_clocks_advances_the_date_by_two_days_a_night_at_most(clocks: list[dt.date]) -> None:
    last = Retained(TODAY, TODAY)
    for clock in clocks:
        date = next_date(last, clock)
        assert date <= clock
        assert date <= last.as_of + dt.timedelta(days=2)
        last = Retained(max(date, last.as_of), clock)
