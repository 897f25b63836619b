"""The log of a message store while a backup reads the file: it grows, and groups are not delayed by it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server import group_writer
from brokers.server.message_store import MessageStore

RESERVE = 1 << 20


def test_groups_do_not_try_again_and_again_to_write_back_what_a_reader_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now = tmp_path / "messages.sqlite3", [100.0]
    monkeypatch.setattr(group_writer, "monotonic", lambda: now[0])
    store = MessageStore(path, reserve_bytes=RESERVE)
    log, reserve = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-reserve")
    executed: list[str] = []
    numbers = iter(range(1, 1000))

    def write_group() -> None:
        store.put(1, next(numbers), b"x" * 100_000)
        written = store.write(store.take())
        assert written.fault is None

    def attempts() -> int:
        return sum("wal_checkpoint" in statement for statement in executed)

    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        write_group()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchone()
        while log.stat().st_size <= 2 * RESERVE:
            write_group()
        now[0] += 60
        before = reserve.stat().st_ino
        store.writer._db.set_trace_callback(executed.append)
        for _ in range(10):
            write_group()
        assert attempts() == 1
        assert reserve.stat().st_ino == before, "the reserve is for a full disk"
        now[0] += 60
        write_group()
        assert attempts() == 2
        reader.execute("ROLLBACK")
    now[0] += 60
    write_group()
    assert log.stat().st_size == 0
    store.close()
