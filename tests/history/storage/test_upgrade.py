"""A history of the previous release: its tables are converted, and no row is lost even if the conversion is killed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from console.history.pipeline.opening import open_tables
from console.history.pipeline.pending_rollups import PendingRollups
from console.history.storage import upgrade
from console.history.storage.commits import DeltaFolder, arrow_schema
from console.history.storage.file_systems import file_system
from console.history.storage.landing import Landing
from console.history.storage.landing_names import retained_id, rolled_id
from console.history.storage.layout import LAYOUTS, table_url
from console.history.storage.reader import Reader
from console.history.storage.upgrade import upgrade_tables
from tests.history.delta import coverage, event, read, rollup, sample
from tests.history.rows import Story, land

HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_773_446_400_000  # a whole day
#: Partitions of the previous release where they differ.
OLD = {"events": "day", "hours": "day", "holds": "day"}


def old_table(url: str, name: str, rows: list[dict[str, Any]], without: str = "") -> None:
    """Write a table as the previous release did: partitioned by time only, with files of several brokers."""
    schema = arrow_schema(name)
    values = {
        field.name: pa.array(
            [row.get(field.name) for row in rows],
            pa.int64() if pa.types.is_timestamp(field.type) else field.type,
        )
        for field in schema
    }
    columns = {
        field.name: pc.multiply(values[field.name], 1000).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else values[field.name]
        for field in schema
        if field.name != without
    }
    partition = OLD.get(name, LAYOUTS[name].partition)
    time = pc.floor_temporal(columns[LAYOUTS[name].time], unit=partition)
    columns[partition] = time.cast(pa.date32())
    write_deltalake(table_url(url, name), pa.table(columns), mode="append", partition_by=[partition])


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A history of two brokers in the middle of an hour."""
    url = str(tmp_path / "history")
    brokers = ("local", "away")
    for part in range(2):
        old_table(url, "events", [event(NOW + part * DAY, "queue-overfull", part, broker=b) for b in brokers])
        old_table(url, "samples", [sample(NOW + part * HOUR, part, broker=b) for b in brokers])
        old_table(url, "coverage", [coverage(NOW - DAY, NOW + HOUR, broker=b) for b in brokers])
        old_table(url, "minutes", [rollup(NOW + part * HOUR + 60_000 * n, broker=b) for b in brokers for n in range(3)])
        old_table(url, "hours", [rollup(NOW + part * HOUR, broker=b) for b in brokers], without="blocks")
        old_table(url, "days", [rollup(NOW - 90 * DAY * part, broker=b) for b in brokers])
    return url


def contents(url: str) -> dict[str, list[str]]:
    names = [name for name in LAYOUTS if (Path(table_url(url, name)) / "_delta_log").exists()]
    columns = {name: arrow_schema(name).names for name in names}
    found = {}
    for name in names:
        rows = read(url, name).to_pylist()
        found[name] = sorted(repr([row.get(column) for column in columns[name]]) for row in rows)
    return found


def assert_converted(url: str, before: dict[str, list[str]]) -> None:
    after = contents(url)
    for name in ("events", "samples", "coverage", "days"):
        assert after[name] == before[name]
    assert len(after["minutes"]) == len(before["minutes"]) // 2
    assert len(after["hours"]) == 2
    for name in ("minutes", "hours", "days"):
        folder = DeltaFolder(url, name)
        assert {folder.version(rolled_id(broker)) for broker in ("local", "away")} == {NOW + HOUR}
        assert all(file.broker for file in folder.files())
        assert DeltaTable(table_url(url, name)).metadata().partition_columns == ["broker", LAYOUTS[name].partition]
    assert DeltaFolder(url, "samples").version(retained_id("local")) == NOW
    rows = Reader(url).rows("SELECT broker, count(*) AS n FROM {samples} GROUP BY broker ORDER BY broker")
    assert rows == [{"broker": "away", "n": 2}, {"broker": "local", "n": 2}]


def test_tables_of_the_previous_release_are_converted_with_all_rows(url: str) -> None:
    before = contents(url)
    found = upgrade_tables(url)
    assert found == dict.fromkeys(("local", "away"), (NOW + HOUR, NOW + 2 * HOUR))
    assert_converted(url, before)
    assert upgrade_tables(url) == {}


@pytest.mark.parametrize("killed_at", range(1, 7))
def test_killed_conversion_is_continued(url: str, killed_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(url)
    commits = 0
    commit = DeltaFolder.commit

    def killed(self: DeltaFolder, *arguments: Any, **options: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == killed_at:
            raise KeyboardInterrupt  # after the partitions have changed, before the files are added
        commit(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaFolder, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrade_tables(url)
    upgrade_tables(url)
    assert_converted(url, before)


def test_intervals_that_a_killed_run_of_the_previous_release_had_changed_are_noted(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the conversion is killed between any two of its last effects."""
    Landing(url).put("pipeline/owed.json", b"[[5, 9], [7, null]]")
    delete = Landing.delete

    def killed(self: Landing, path: str) -> None:
        delete(self, path)
        if path in ("pipeline/upgrade/rolled.json", "pipeline/owed.json"):
            raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Landing, "delete", killed)
            with pytest.raises(KeyboardInterrupt):
                open_tables(None, url)  # type: ignore[arg-type]
    tables = open_tables(None, url)  # type: ignore[arg-type]
    end = NOW + 2 * HOUR
    ranges = PendingRollups(tables.landing).load(["local"])["local"].ranges
    assert {(NOW + HOUR, end), (5, 10), (7, end + 1)} <= set(ranges)


def test_files_that_the_ledger_names_are_removed_and_others_are_processed_later(url: str) -> None:
    land(url, Story().watch(0, 1).sample(0, 1).rows)
    (done,) = Landing(url).names("samples")
    rows = {"kind": ["samples"], "file": [done], "rows": pa.nulls(1, pa.int64()), "at": [dt.datetime.now(dt.UTC)]}
    write_deltalake(table_url(url, "taken"), pa.table(rows), mode="append")
    upgrade_tables(url)
    assert Landing(url).names("samples") == []
    assert len(Landing(url).names("coverage")) == 1
    assert not Path(table_url(url, "taken")).exists()


def test_ledger_that_was_removed_in_part_by_a_killed_conversion_is_removed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"kind": ["samples"], "file": ["gone.parquet"], "rows": pa.nulls(1, pa.int64())}
    write_deltalake(table_url(url, "taken"), pa.table(rows), mode="append")
    place = Path(table_url(url, "taken"))

    def killed(_url: str) -> Any:
        if not _url.endswith("taken"):
            return file_system(_url)
        for path in (place / "_delta_log").iterdir():
            path.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "file_system", killed)
        with pytest.raises(KeyboardInterrupt):
            upgrade_tables(url)
    assert place.exists()
    upgrade_tables(url)
    assert not place.exists()
    assert upgrade_tables(url) == {}


def test_broker_that_has_not_been_recorded_for_longer_than_minutes_are_stored_is_converted(url: str) -> None:
    old_table(url, "hours", [rollup(NOW - 200 * DAY, broker="retired")], without="blocks")
    upgrade_tables(url)
    assert [row["broker"] for row in read(url, "hours").to_pylist()].count("retired") == 1


def test_reader_that_was_opened_before_the_conversion_reads_the_same_rows_after_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.history.storage.table_versions.FRESH_SECONDS", 0.0)
    reader = Reader(url)
    before = [reader.rows(f'SELECT broker, "at" FROM {{{name}}} ORDER BY ALL') for name in ("samples", "days")]
    upgrade_tables(url)
    assert [reader.rows(f'SELECT broker, "at" FROM {{{name}}} ORDER BY ALL') for name in ("samples", "days")] == before


def test_new_history_needs_no_conversion(tmp_path: Path) -> None:
    assert upgrade_tables(str(tmp_path / "history")) == {}
    assert not (tmp_path / "history").exists()
