"""When landing files are due, from names, sizes and times alone."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from console.history.pipeline.due_work import (
    ENDED,
    FILE_BYTES,
    HOUR_NS,
    LONGEST_WAIT,
    MANY_BYTES,
    QUIET,
    SETTLED,
    SILENT,
    BrokerWork,
    DueWork,
    Processed,
    Reason,
    all_of,
)
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_listing import KINDS, LandedFile, LandingListing
from console.history.storage.landing_names import broker_of, recorder_file
from tests.history.rows import Story, land, table

HOUR_10 = 500_000 * HOUR_NS
MINUTE_NS = HOUR_NS // 60


class Clocks:
    def __init__(self) -> None:
        self.now, self.steady = HOUR_10, 1000.0
        self.due = DueWork(lambda: self.now, lambda: self.steady)

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)
        self.steady += seconds


def recorded(at: int, broker: str = "local", kind: str = "samples", size: int = 9000) -> LandedFile:
    return LandedFile(kind, f"{recorder_file(broker, at)}.parquet", broker, True, at, at, size)


def imported(at: int, broker: str = "old", name: str = "a") -> LandedFile:
    return LandedFile("events", f"log~{broker}~{name}.parquet", broker, False, at, at, 9000)


def due(work: BrokerWork) -> Reason | None:
    return work.reason if work.is_due else None


def test_files_of_the_open_hour_wait_until_it_has_closed_and_its_last_file_has_landed() -> None:
    clocks = Clocks()
    files = [recorded(HOUR_10 + minute * MINUTE_NS) for minute in range(1, 60)]
    clocks.wait(3599)
    (work,) = clocks.due.find(files, {})
    assert (due(work), work.at) == (None, HOUR_10 + HOUR_NS + SILENT)
    files.append(recorded(HOUR_10 + HOUR_NS + 10**9))  # the hour's last file lands at its end
    (work,) = clocks.due.find(files, {})
    assert (due(work), work.at) == (None, HOUR_10 + HOUR_NS + SETTLED)
    clocks.wait(1 + SETTLED / 1e9)
    assert [due(work) for work in clocks.due.find(files, {})] == [Reason.HOUR]
    assert clocks.due.find(files, all_of(files)) == []


def test_hour_of_a_recorder_that_has_ended_closes_without_a_further_file() -> None:
    clocks = Clocks()
    files = [recorded(HOUR_10 + MINUTE_NS)]
    clocks.wait(3600 + SILENT / 1e9 - 1)
    assert [due(work) for work in clocks.due.find(files, {})] == [None]
    clocks.wait(1)
    assert [due(work) for work in clocks.due.find(files, {})] == [Reason.HOUR]


@pytest.mark.domain("pipeline left open")
def test_hour_that_a_run_left_open_is_due_an_hour_after_the_recorders_last_file() -> None:
    clocks = Clocks()
    files = [recorded(HOUR_10 + 50 * MINUTE_NS), recorded(HOUR_10 + 45 * MINUTE_NS, kind="coverage")]
    (closed,) = all_of(files).values()
    left = {"local": replace(closed, is_open=True), "other": closed, "imports": Processed({}, is_open=True)}
    clocks.wait(50 * 60 + ENDED / 1e9 - 1)
    assert clocks.due.find([], left) == []
    clocks.wait(1)
    (work,) = clocks.due.find(files, left)
    assert (work.broker, work.files, due(work)) == ("local", 0, Reason.HOUR)
    assert clocks.due.find([], {"local": closed}) == []
    # The recorder has started again: the hour is rolled up with the files that wait.
    files.append(recorded(clocks.now))
    assert [(work.files, due(work)) for work in clocks.due.find(files, left)] == [(1, None)]


def test_about_a_million_rows_are_due_within_the_hour() -> None:
    clocks = Clocks()
    clocks.wait(600)
    files = [recorded(HOUR_10 + number, size=MANY_BYTES // 50 + FILE_BYTES) for number in range(50)]
    assert [due(work) for work in clocks.due.find(files[:-1], {})] == [None]
    assert [due(work) for work in clocks.due.find(files, {})] == [Reason.ROWS]


def test_import_of_many_files_is_due_once_after_the_last() -> None:
    clocks = Clocks()
    files = []
    for number in range(20):
        files.append(imported(clocks.now, name=str(number)))
        assert [due(work) for work in clocks.due.find(files, {})] == [None]
        clocks.wait(QUIET - 1)
    clocks.wait(1)
    assert [due(work) for work in clocks.due.find(files, {})] == [Reason.LATE]
    processed = all_of(files)
    assert clocks.due.find(files, processed) == []  # those that cannot be read remain, and cause no further run
    files.append(files[0]._replace(landed=clocks.now))  # imported again
    clocks.due.find(files, processed)
    clocks.wait(QUIET)
    assert [(work.files, due(work)) for work in clocks.due.find(files, processed)] == [(1, Reason.LATE)]


def test_import_of_one_broker_makes_no_other_broker_due() -> None:
    clocks = Clocks()
    files = [recorded(HOUR_10 + 1), imported(HOUR_10 - 5 * HOUR_NS)]
    clocks.due.find(files, {})
    clocks.wait(QUIET)
    assert [(work.broker, due(work)) for work in clocks.due.find(files, {})] == [("old", Reason.LATE), ("local", None)]


def test_clock_set_back_or_sequences_of_the_future_delay_a_run_by_an_hour_at_most() -> None:
    clocks = Clocks()
    decade = 87_600 * HOUR_NS
    files = [recorded(HOUR_10 + decade)]
    assert [due(work) for work in clocks.due.find(files, {})] == [None]
    clocks.steady += LONGEST_WAIT  # the time of day does not go on
    assert [due(work) for work in clocks.due.find(files, {})] == [Reason.WAIT]
    copied = [recorded(HOUR_10)._replace(order=HOUR_10 - HOUR_NS)]  # the file's time is that of the copy
    clocks.now = HOUR_10 + int(1e9) + SILENT
    assert [due(work) for work in Clocks().due.find(copied, {})] == [None]
    assert [due(work) for work in clocks.due.find(copied, {})] == [Reason.HOUR]


def test_processed_files_are_known_by_broker_and_kind() -> None:
    files = [recorded(5, kind="events"), recorded(7, kind="samples"), recorded(9, "b"), imported(11)]
    processed = all_of(files)
    assert (processed["local"].orders, processed["b"].orders) == ({"events": 5, "samples": 7}, {"samples": 9})
    assert processed["old"] == Processed({}, frozenset({files[-1].identity}))
    some = {"local": Processed({"events": 5}), "b": Processed({"samples": 9})}
    assert [(work.broker, work.files) for work in Clocks().due.find(files, some)] == [("local", 1), ("old", 1)]


def test_brokers_names_are_decoded() -> None:
    assert broker_of(recorder_file("a~b/ü.c", 1)) == "a~b/ü.c"
    assert broker_of("x.parquet") == ""


def test_listing_finds_landed_removed_and_later_files(tmp_path: Path) -> None:
    url = str(tmp_path)
    listing = LandingListing(url)
    assert listing.files() == []
    assert tuple(SCHEMAS) == KINDS
    land(url, Story().watch(0, 1).rows)
    landing = Landing(url)
    rows = Story("b~c").watch(0, 1).rows["coverage"]
    for sequence in (5, 6):
        landing.publish("coverage", table("coverage", rows), recorder_file("b~c", sequence))
    (tmp_path / "landing/coverage/.unfinished.parquet").write_bytes(b"")
    found = {file.name: file for file in listing.files()}
    file = found[f"{recorder_file('b~c', 5)}.parquet"]
    assert (len(found), file.broker, file.is_recorded, file.order) == (3, "b~c", True, 5)
    assert file.size == os.stat(f"{landing.folder('coverage')}/{file.name}").st_size
    assert abs(time.time_ns() - file.landed) < 600e9
    landing.remove("coverage", file.name)
    assert len(listing.files()) == 2
    objects = LandingListing(f"file://{tmp_path}")
    assert not objects.is_local
    assert sorted(objects.files()) == sorted(listing.files())
