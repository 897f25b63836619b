"""Commits to the tables: a process that has lost its lease changes nothing, and what no table needs is removed."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import StructType

from console.history.pipeline.maintenance import retain
from console.history.storage import tables
from console.history.storage.commits import DeltaFolder, Overtaken
from console.history.storage.landing_names import landed_id, retained_id
from console.history.storage.layout import table_url
from console.history.storage.reader import HistoryBroken, NothingRecorded, Reader
from console.history.storage.tables import PART, Tables
from tests.history.delta import DAY, read, rows_of, sample, write

NOW = 1_773_446_400_000  # a whole day
TAKEN = landed_id("samples", "local")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = str(tmp_path / "history")
    write(url, "samples", [sample(NOW, 1), sample(NOW, 1, broker="away")], {TAKEN: 5})
    return url


def owner(url: str) -> DeltaFolder:
    """Return the table as a run has it that has read its files under the broker's lease."""
    folder = DeltaFolder(url, "samples")
    folder.begin()
    folder.files()
    return folder


def append(folder: DeltaFolder, at: int, taken: int | None = None, **more: Any) -> None:
    new = folder.write_file(rows_of("samples", [sample(at, 1, **more)]))
    folder.commit(new, versions={} if taken is None else {TAKEN: taken})


def replace(folder: DeltaFolder) -> None:
    folder.commit(folder.write_file(rows_of("samples", [sample(NOW, 2)])), [folder.files()[0]])


CHANGES = (lambda each: append(each, NOW + 1), lambda each: append(each, NOW + 1, 9), replace)


@pytest.mark.domain("pipeline lost lease")
@pytest.mark.parametrize("suspended", CHANGES)
@pytest.mark.parametrize("other", CHANGES)
def test_run_that_lost_its_lease_adds_no_row_a_second_time(
    url: str, suspended: Callable[[DeltaFolder], None], other: Callable[[DeltaFolder], None]
) -> None:
    first, second = owner(url), owner(url)
    other(second)
    other(second)
    before = read(url, "samples").to_pylist()
    with pytest.raises(Overtaken, match="another process has changed the rows of local"):
        suspended(first)
    assert read(url, "samples").to_pylist() == before


def test_runs_of_other_brokers_do_not_disturb_each_other(url: str) -> None:
    first, second = owner(url), owner(url)
    append(second, NOW + 1, broker="away")
    append(first, NOW + 1)
    append(second, NOW + 2, broker="away")
    assert read(url, "samples").num_rows == 5


def test_transaction_identifiers_never_go_back(url: str) -> None:
    append(DeltaFolder(url, "samples"), NOW + 1, 7)
    with pytest.raises(Overtaken, match="beyond 6"):
        append(DeltaFolder(url, "samples"), NOW + 2, 6)
    with pytest.raises(Overtaken, match="beyond 6"):
        DeltaFolder(url, "samples").commit([], versions={TAKEN: 6})


def test_file_that_another_process_has_removed_cannot_be_replaced(url: str) -> None:
    folder = DeltaFolder(url, "samples")
    old = [file for file in folder.files() if file.broker == "local"]
    other = DeltaFolder(url, "samples")
    other.commit([], old)
    with pytest.raises(Overtaken):
        folder.commit(folder.write_file(rows_of("samples", [sample(NOW, 2)])), old)


def test_retention_limit_does_not_go_back_with_the_clock(url: str) -> None:
    today = dt.date(2026, 4, 30)
    retain(Tables(None, url), today)  # type: ignore[arg-type]
    limit = DeltaFolder(url, "samples").version(retained_id("local"))
    write(url, "samples", [sample(NOW - 60 * DAY, 1)])
    retain(Tables(None, url), today - dt.timedelta(days=40))  # type: ignore[arg-type]
    assert read(url, "samples").num_rows == 0
    assert DeltaFolder(url, "samples").version(retained_id("local")) == limit


def test_transaction_identifiers_survive_the_removal_of_old_log_entries(url: str) -> None:
    write(url, "samples", [sample(NOW + 1, 1)], {TAKEN: 8})
    log = Path(table_url(url, "samples")) / "_delta_log"
    for path in log.iterdir():
        make_old(path)
    Tables(None, url).vacuum("samples")  # type: ignore[arg-type]
    assert not (log / "00000000000000000000.json").exists()
    assert DeltaFolder(url, "samples").version(TAKEN) == 8


@pytest.mark.domain("pipeline disk")
def test_files_of_killed_runs_and_empty_folders_are_removed_a_day_later(url: str) -> None:
    table = Path(table_url(url, "samples"))
    folder = DeltaFolder(url, "samples")
    (killed,) = folder.write_file(rows_of("samples", [sample(NOW, 2)]))
    (current,) = folder.write_file(rows_of("samples", [sample(NOW, 3)]))
    temporary = table / "spark" / "_temporary" / "0" / "part.parquet"
    temporary.parent.mkdir(parents=True)
    temporary.write_bytes(b"half")
    empty = table / "0123" / "of=4567" / "day=2026-03-14"
    empty.mkdir(parents=True)
    new = table / "89ab" / "of=4567"
    new.mkdir(parents=True)
    for path in (*empty.parents[:2], empty, table / killed.path, *temporary.parents[:3], temporary):
        make_old(path)
    Tables(None, url).vacuum("samples")  # type: ignore[arg-type]
    assert not (table / killed.path).exists()
    assert not empty.parent.parent.exists()
    assert not temporary.exists()
    assert (table / current.path).exists(), "it may belong to a run that commits it later"
    assert new.exists()
    assert read(url, "samples").num_rows == 2


def test_table_that_an_operator_removed_is_created_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processes that have it open, too: nothing needs a restart."""
    monkeypatch.setattr("console.history.storage.table_versions.FRESH_SECONDS", 0.0)
    for number in range(3):
        write(url, "samples", [sample(NOW + number, 1)])
    writer, other, reader = DeltaFolder(url, "samples"), DeltaFolder(url, "samples"), Reader(url)
    count = "SELECT count(*) AS n FROM {samples}"
    for folder in (writer, other):
        assert len(folder.files()) == 5
    assert reader.rows(count) == [{"n": 5}]
    shutil.rmtree(table_url(url, "samples"))
    with pytest.raises(NothingRecorded):
        reader.rows(count)
    assert writer.files() == []
    append(writer, NOW, 1)
    assert len(other.files()) == 1
    assert reader.rows(count) == [{"n": 1}]


def test_damaged_log_of_a_table_is_an_error_that_names_the_table(url: str) -> None:
    (entry,) = (Path(table_url(url, "samples")) / "_delta_log").glob("*1.json")
    entry.write_text('{"add":{"path"')
    with pytest.raises(HistoryBroken, match=r"The table 'samples' of the history cannot be read: .*Json error"):
        DeltaFolder(url, "samples").files()


@pytest.mark.domain("pipeline durable")
def test_rows_are_on_the_disk_before_the_commit_and_the_commit_before_it_returns(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The landing files with these rows are removed then, and a power failure may follow."""
    table = Path(table_url(url, "samples"))
    log = table / "_delta_log" / "00000000000000000002.json"
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append((os.fstat(number).st_ino, log.exists())))
    folder = DeltaFolder(url, "samples")
    (new,) = folder.write_file(rows_of("samples", [sample(NOW + 1, 1)]))
    folder.commit([new])
    file = table / new.path
    assert (file.stat().st_ino, False) in synced
    assert (file.parent.stat().st_ino, False) in synced
    assert synced[-2:] == [(log.stat().st_ino, True), (log.parent.stat().st_ino, True)]


def make_old(path: Path) -> None:
    long_ago = time.time() - 3 * 86_400
    os.utime(path, (long_ago, long_ago))


def test_failed_write_leaves_no_files(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts are repeated: on a full disk their files would fill what is freed."""
    folders = set(Path(table_url(url, "samples")).iterdir())

    def full(place: str) -> None:
        part = Path(place.removeprefix("file:")) / "of=0123" / "day=2026-03-14" / "part.parquet"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"half")
        raise OSError("No space left on device")

    rows = MagicMock(columns=[PART])
    written = rows.select.return_value.sortWithinPartitions.return_value.write
    written.partitionBy.return_value.option.return_value.parquet.side_effect = full
    monkeypatch.setattr(tables, "schema", lambda _name: StructType([]))
    with pytest.raises(OSError, match="No space left"):
        Tables(None, url).append("samples", rows, expected=1)  # type: ignore[arg-type]
    assert set(Path(table_url(url, "samples")).iterdir()) == folders


def test_compaction_leaves_a_partition_that_needs_several_files(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 1)
    write(url, "samples", [sample(NOW + 1, 1)])
    assert Tables(None, url).crowded("samples") == {}  # type: ignore[arg-type]
    monkeypatch.setattr(tables, "ROWS_PER_FILE", 2)
    assert Tables(None, url).crowded("samples") == {("local", dt.date(2026, 3, 14)): 2}  # type: ignore[arg-type]
