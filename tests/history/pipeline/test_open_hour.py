"""The hour that a recorder is in is not rolled up, whatever is ingested; it is once it has closed."""

from __future__ import annotations

from typing import Any

import pytest

from console.history.pipeline.pending_rollups import Changes
from console.history.pipeline.run import Report, Run
from console.history.storage.backlog import find_backlog
from console.history.storage.fresh import CATALOG, Catalog, FreshFile, folder
from console.history.storage.landing import Landing
from console.history.storage.landing_names import recorder_file, rolled_id
from console.history.storage.tables import Tables
from tests.history.delta import coverage, write
from tests.history.rows import Story, at, table
from tests.history.runs import DERIVED, History

pytestmark = pytest.mark.timeout(600)

MINUTE, HOUR = 60, 3600


def recorded(begin: int, end: int) -> Story:
    """Return the rows from `begin` to `end`, seconds, of a broker with an episode a quarter of an hour."""
    story = Story(numbers_from=begin + 1).watch(begin, end)
    for second in range(begin, end, 300):
        counts = {"enqueued_messages": second * 3, "dequeued_messages": second * 2}
        story.sample(second, second % 97, whole=True, **counts)
        if second % 900 == 0:
            story.overfull(second + 20).blocked(second + 20).released(second + 50).underfull(second + 50)
    return story


def land_as_recorder(history: History, story: Story, second: int) -> None:
    for kind, rows in story.rows.items():
        name = recorder_file("b", int(at(second).timestamp() * 1e9))
        Landing(history.url).publish(kind, table(kind, rows), name)


def run(history: History, second: int) -> None:
    Run(history.tables, now=lambda: int(at(second).timestamp() * 1000)).run()


def times(history: History, name: str) -> set[Any]:
    return {row["at"] for row in history.rows(name)}


def ms(second: int) -> int:
    return int(at(second).timestamp() * 1000)


def rolled_until(history: History) -> set[int | None]:
    return {history.tables.version(name, rolled_id("b")) for name in ("minutes", "hours", "days")}


def test_rollups_end_with_the_last_closed_hour_of_an_active_recorder(
    spark: Any, history: History, tmp_path: Any
) -> None:
    land_as_recorder(history, recorded(0, 30 * MINUTE), 30 * MINUTE)
    run(history, 31 * MINUTE)
    assert len(history.rows("samples")) == 6, "rows are ingested"
    assert len(history.rows("episodes")) == 2
    assert find_backlog(history.url).files == 0
    assert not history.rows("minutes")

    land_as_recorder(history, recorded(30 * MINUTE, HOUR + 100), HOUR + 100)
    run(history, HOUR + 2 * MINUTE)
    assert times(history, "minutes") == {at(second) for second in range(0, HOUR, MINUTE)}
    assert times(history, "hours") == {at(0)}
    assert rolled_until(history) == {int(at(HOUR).timestamp() * 1000)}
    assert {row["watched_ms"] for row in history.rows("days")} == {HOUR * 1000}

    late = Story(source="log", numbers_from=9000).watch(500, 501).overfull(500, "late")
    history.land(late)
    run(history, HOUR + 3 * MINUTE)
    assert times(history, "minutes") == {at(second) for second in range(0, HOUR, MINUTE)}
    assert history.rows("minutes", name="late")

    end = Story(source="log", numbers_from=9500).watch(600, 601).underfull(600, "late")
    history.land(end)
    run(history, 4 * HOUR)
    assert rolled_until(history) == {int(at(2 * HOUR).timestamp() * 1000)}, "the recorder has ended since"
    at_once = History(spark, str(tmp_path / "at-once"))
    at_once.land(recorded(0, 30 * MINUTE), recorded(30 * MINUTE, HOUR + 100), late, end)
    at_once.run()
    for name in DERIVED:
        assert history.rows(name) == at_once.rows(name)
        assert history.rows(name)


def tail(history: History, sequence: int) -> None:
    """Publish a tail of coverage, as a recorder that was killed leaves it."""
    catalog = Catalog("b", sequence // 1_000_000, {"coverage": (FreshFile("tail.parquet", 0, 1, 1, sequence),)})
    Landing(history.url).put(f"{folder('b')}/{CATALOG}", catalog.encode())


@pytest.mark.domain("pipeline left open")
def test_hour_of_a_recorder_that_has_ended_is_completed_without_a_further_file(
    spark: Any, history: History, tmp_path: Any
) -> None:
    land_as_recorder(history, recorded(0, 50 * MINUTE), 50 * MINUTE)

    def complete(second: int) -> Report:
        return Run(history.tables, brokers=["b"], now=lambda: int(at(second).timestamp() * 1000)).run()

    report = complete(61 * MINUTE)
    assert (report.files, report.active) == (3, {"b"}), "it may land more"
    assert not history.rows("minutes")
    assert complete(62 * MINUTE).active == {"b"}
    assert not history.rows("minutes")

    last = int(at(50 * MINUTE).timestamp() * 1e9)
    tail(history, last + 1)
    assert complete(2 * HOUR).active == set()
    assert not history.rows("minutes"), "the rest of the hour is in the tail, which the next recorder lands"
    tail(history, last)  # it has landed
    assert complete(2 * HOUR).active == set()
    assert rolled_until(history) == {int(at(HOUR).timestamp() * 1000)}
    at_once = History(spark, str(tmp_path / "at-once"))
    at_once.land(recorded(0, 50 * MINUTE))
    at_once.run()
    for name in DERIVED:
        assert history.rows(name) == at_once.rows(name)
        assert history.rows(name)
    before = {name: history.tables.files(name) for name in DERIVED}
    complete(3 * HOUR)
    assert {name: history.tables.files(name) for name in DERIVED} == before, "nothing is left to do"


@pytest.mark.parametrize(("recorder", "reached"), [("runs", HOUR), ("has ended", 91 * HOUR)])
def test_imported_rows_with_a_future_time_do_not_end_the_hour_of_an_active_recorder(
    tmp_path: Any, recorder: str, reached: int
) -> None:
    """Without Spark."""
    url, (begin, now, future) = str(tmp_path), (ms(second) for second in (0, HOUR + 100, 90 * HOUR))
    write(url, "coverage", [coverage(begin, now, "b"), coverage(future, future + 1000, "b", source="log")])
    landing = Landing(url)
    story = recorded(0, HOUR + 100)
    landing.publish("coverage", table("coverage", story.rows["coverage"]), recorder_file("b", now * 1_000_000))
    landing.put(f"{folder('b')}/{CATALOG}", Catalog("b", now).encode())
    tables = Tables(None, url)  # type: ignore[arg-type]
    run = Run(tables, now=lambda: now if recorder == "runs" else now + 2 * HOUR * 1000)
    changes = {"b": Changes("b", begin, [(begin, now), (future, future + 1000)])}
    assert run._rolled(changes).until == {"b": ms(reached)}
