"""The DuckDB database of queries is replaced after a bounded number of files, which frees its cached footers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from console.history.storage import query_database
from console.history.storage.query_database import Connection, QueryDatabase

#: Many columns: the size of a footer grows with them.
ROWS = pa.table({f"c{number}": pa.array(range(20), pa.int64()) for number in range(60)})


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> QueryDatabase:
    monkeypatch.setattr(query_database, "MOST_FILES", 10)
    return QueryDatabase()


def files(folder: Path, count: int) -> Iterator[str]:
    for number in range(count):
        path = folder / f"{number}.parquet"
        pq.write_table(ROWS, path)
        yield str(path)
        path.unlink()


def total(connection: Connection, path: str) -> int:
    [row] = connection.execute("SELECT sum(c7) FROM read_parquet(?)", [path]).fetchall()
    return int(row[0])


def test_memory_does_not_grow_with_the_number_of_files_read(database: QueryDatabase, tmp_path: Path) -> None:
    """Without a replacement the footer of each file, 90 KB here, would remain in the process."""
    process, sizes = psutil.Process(), []
    for number, path in enumerate(files(tmp_path, 1200)):
        with database.connection() as connection:
            database.note([path])
            assert total(connection, path) == 190
        if number in (300, 1199):
            sizes.append(process.memory_info().rss)
    early, late = sizes
    assert late - early < 30 << 20


def test_connection_is_reused_until_its_database_is_replaced(database: QueryDatabase) -> None:
    with database.connection() as first:
        pass
    with database.connection() as again:
        assert again is first
        with database.connection() as other:  # of another query at the same time
            assert other is not first
    database.note(f"{number}.parquet" for number in range(11))
    with pytest.raises(duckdb.ConnectionException):
        first.execute("SELECT 1")
    with database.connection() as new:
        assert new.execute("SELECT 1").fetchall() == [(1,)]


def test_query_completes_although_its_database_is_replaced(database: QueryDatabase, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(ROWS, path)
    with database.connection() as connection:
        download = database.cursor()
        database.note(f"{number}.parquet" for number in range(11))
        assert total(connection, path) == total(download, path) == 190
    with pytest.raises(duckdb.ConnectionException):  # it is closed
        connection.execute("SELECT 1")
    assert total(download, path) == 190


def test_concurrent_threads_get_their_own_results(database: QueryDatabase, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(ROWS, path)
    together = threading.Barrier(6)

    def ask(thread: int) -> set[int]:
        together.wait()
        found = set()
        for number in range(60):
            with database.connection() as connection:
                database.note([f"{thread}-{number}.parquet"])  # about every tenth call replaces the database
                [row] = connection.execute("SELECT sum(c1) + ? FROM read_parquet(?)", [thread, path]).fetchall()
                found.add(int(row[0]) - 190)
        return found

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))) == [{thread} for thread in range(6)]


def test_what_does_not_fit_the_memory_takes_a_limited_part_of_the_disk(
    database: QueryDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an export might leave a broker no room for its messages."""
    limit = "SELECT current_setting('max_temp_directory_size')"
    assert database.cursor().execute(limit).fetchall() == [("1.8 GiB",)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(query_database, "_MEMORY", "48MB")
    monkeypatch.setattr(query_database, "_FILES", "1MB")
    in_order = "SELECT i, md5(i::VARCHAR) AS text FROM range(1_500_000) AS numbers(i) ORDER BY text"
    with pytest.raises(duckdb.OutOfMemoryException, match="max_temp_directory_size"):
        QueryDatabase().cursor().sql(in_order).to_arrow_reader(10_000).read_next_batch()
