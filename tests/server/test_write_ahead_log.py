"""SQLite's log: a byte that flips in it costs what it hit; what cannot be mended is reported, and never invented."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from brokers.server.write_ahead_log import mend_log

ROWS = 30


@pytest.fixture(params=[512, 4096])
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A database whose rows are in its log alone, one commit each, as a kill -9 leaves it."""
    live = tmp_path / "live.sqlite3"
    with contextlib.closing(sqlite3.connect(live, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size={request.param}")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
        db.execute("INSERT INTO t VALUES (0, 'checkpointed')")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for row in range(1, ROWS + 1):
            db.execute("INSERT INTO t VALUES (?, ?)", (row, bytes([row]) * 40))
        shutil.copy(live, tmp_path / "db.sqlite3")
        shutil.copy(tmp_path / "live.sqlite3-wal", tmp_path / "db.sqlite3-wal")
    return tmp_path / "db.sqlite3"


def rows(path: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = db.execute("SELECT id, body FROM t WHERE id > 0 ORDER BY id").fetchall()
        assert all(body == bytes([row]) * 40 for row, body in found)
        return [row for row, _ in found]


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_undamaged_log_is_unchanged(killed: Path) -> None:
    before = log_of(killed).read_bytes()
    assert mend_log(killed) is None
    assert log_of(killed).read_bytes() == before
    assert len(rows(killed)) == ROWS
    assert mend_log(killed) is None, "there is none any more"


@pytest.mark.domain("9 bit rot")
def test_a_byte_that_flips_anywhere_is_named_and_mended(killed: Path, tmp_path: Path) -> None:
    log = log_of(killed).read_bytes()
    random_ = random.Random(7)
    frame = next(
        size for size in (512 + 24, 4096 + 24) if (len(log) - 32) % size == 0 and log[8:12] == (size - 24).to_bytes(4)
    )
    header = [32 + frame * n + at for n in (0, 5, (len(log) - 32) // frame - 1) for at in range(24)]
    ambiguous = 0
    for offset in [*range(32), *header, *random_.sample(range(len(log)), 60)]:
        copy = tmp_path / "copy.sqlite3"
        shutil.copy(killed, copy)
        damaged = bytearray(log)
        damaged[offset] ^= random_.randint(1, 255)
        log_of(copy).write_bytes(damaged)
        found = mend_log(copy)
        assert found is not None, offset
        assert (found.lost, str(log_of(copy)) in found.text) == (0, True), offset
        if log_of(copy).read_bytes() != log:  # several bytes might have been it: the page is as it was found
            ambiguous += 1
            continue
        assert len(rows(copy)) == ROWS
    assert ambiguous < 30


def test_damage_that_cannot_be_repaired_is_reported_with_the_loss_and_the_log_is_copied(killed: Path) -> None:
    log = bytearray(log_of(killed).read_bytes())
    page = int.from_bytes(log[8:12])
    frames = (len(log) - 32) // (page + 24)
    at = 32 + (frames // 2) * (page + 24) + 100
    log[at : at + 50] = bytes(50 * [0xEE])
    log_of(killed).write_bytes(log)
    found = mend_log(killed)
    assert found is not None
    assert found.lost > 5
    assert f"{found.lost} commits after it are lost" in found.text
    copy = killed.with_name(f"{log_of(killed).name}-damaged")
    assert copy.read_bytes() == log
    assert len(rows(killed)) == ROWS - found.lost - 1


def test_a_commit_that_was_not_finished_is_no_damage(killed: Path) -> None:
    log = log_of(killed).read_bytes()
    page = int.from_bytes(log[8:12])
    for cut in (1, 10, page, page + 10, page + 24):
        log_of(killed).write_bytes(log[:-cut])
        assert mend_log(killed) is None
        # Allocated, and not written yet when the power went.
        log_of(killed).write_bytes(log[:-cut] + bytes(cut))
        assert mend_log(killed) is None or cut == 1, "one byte of zeros is the same as one that flipped"


def test_frames_of_an_earlier_round_of_the_log_are_its_end(tmp_path: Path) -> None:
    live = tmp_path / "live.sqlite3"
    with contextlib.closing(sqlite3.connect(live, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
        for row in range(1, 40):
            db.execute("INSERT INTO t VALUES (?, ?)", (row, bytes([row]) * 40))
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")  # it begins again at the front, and what is behind stays
        db.execute("INSERT INTO t VALUES (?, ?)", (40, bytes([40]) * 40))
        shutil.copy(live, tmp_path / "db.sqlite3")
        shutil.copy(tmp_path / "live.sqlite3-wal", tmp_path / "db.sqlite3-wal")
    assert mend_log(tmp_path / "db.sqlite3") is None
    assert rows(tmp_path / "db.sqlite3") == list(range(1, 41))


@pytest.mark.parametrize("offset", [None, 300_000])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, offset: int | None) -> None:
    live = tmp_path / "live.sqlite3"
    with contextlib.closing(sqlite3.connect(live, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")  # as while a reader pins it
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
        db.execute("INSERT INTO t VALUES (1, randomblob(2000000))")
        shutil.copy(live, tmp_path / "db.sqlite3")
        shutil.copy(tmp_path / "live.sqlite3-wal", tmp_path / "db.sqlite3-wal")
    log = log_of(tmp_path / "db.sqlite3")
    size = log.stat().st_size
    assert size > 2_000_000
    if offset is not None:
        with log.open("r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))
    tracemalloc.start()
    try:
        found = mend_log(tmp_path / "db.sqlite3")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found is None) == (offset is None)
    assert peak < 1_000_000
    assert log.stat().st_size == size
    assert list(tmp_path.glob("*-mended")) == []
