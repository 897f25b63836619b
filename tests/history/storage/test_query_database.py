"""What DuckDB keeps of files goes with its database, which reads a bounded number of them."""

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

#: Many columns: what is kept of a file grows with them.
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


def test_what_is_kept_of_files_does_not_grow_with_those_that_were_read(database: QueryDatabase, tmp_path: Path) -> None:
    """Before, each file left its footer in the process for ever, 90 KB of these."""
    process, sizes = psutil.Process(), []
    for number, path in enumerate(files(tmp_path, 1200)):
        with database.connection() as connection:
            database.note([path])
            assert total(connection, path) == 190
        if number in (300, 1199):
            sizes.append(process.memory_info().rss)
    early, late = sizes
    assert late - early < 30 << 20


def test_a_connection_is_used_again_until_its_database_is_replaced(database: QueryDatabase) -> None:
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


def test_a_query_in_a_database_that_is_replaced_meanwhile_comes_to_its_end(
    database: QueryDatabase, tmp_path: Path
) -> None:
    kept = str(tmp_path / "rows.parquet")
    pq.write_table(ROWS, kept)
    with database.connection() as connection:
        download = database.cursor()
        database.note(f"{number}.parquet" for number in range(11))
        assert total(connection, kept) == total(download, kept) == 190
    with pytest.raises(duckdb.ConnectionException):  # no other query gets it
        connection.execute("SELECT 1")
    assert total(download, kept) == 190


def test_threads_that_ask_at_once_have_their_own_answers(database: QueryDatabase, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.parquet")
    pq.write_table(ROWS, path)
    together = threading.Barrier(6)

    def ask(thread: int) -> set[int]:
        together.wait()
        found = set()
        for number in range(60):
            with database.connection() as connection:
                database.note([f"{thread}-{number}.parquet"])  # each tenth or so replaces the database
                [row] = connection.execute("SELECT sum(c1) + ? FROM read_parquet(?)", [thread, path]).fetchall()
                found.add(int(row[0]) - 190)
        return found

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(6))) == [{thread} for thread in range(6)]
