"""The configuration store: what was committed is there after a restart, and files that cannot work say why."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.config_store import ConfigStore, StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "config.sqlite3"


def test_committed_records_persist(path: Path) -> None:
    store = ConfigStore(path)
    store.put("queue", "b", {"capacity_bytes": 1 << 62, "text": "ü€", "none": None, "list": [1, {"x": 2}]})
    store.put("queue", "a", {})
    store.put("broker", "", {"n": 1})
    store.commit()
    store.close()
    again = ConfigStore(path)
    assert again.load() == [
        ("broker", "", {"n": 1}),
        ("queue", "a", {}),
        ("queue", "b", {"capacity_bytes": 1 << 62, "text": "ü€", "none": None, "list": [1, {"x": 2}]}),
    ]
    again.close()


def test_changes_without_commit_are_not_stored(path: Path) -> None:
    store = ConfigStore(path)
    store.put("queue", "a", {"n": 1})
    store.commit()
    store.put("queue", "a", {"n": 2})
    store.put("queue", "b", {})
    store.remove("queue", "a")
    assert store.load() == [("queue", "a", {"n": 1})]
    store.close()
    again = ConfigStore(path)
    assert again.load() == [("queue", "a", {"n": 1})]
    again.close()


def test_the_last_of_several_buffered_changes_counts(path: Path) -> None:
    store = ConfigStore(path)
    store.put("queue", "changed", {"n": 1})
    store.remove("queue", "changed")
    store.put("queue", "changed", {"n": 2})
    store.put("queue", "gone", {"n": 1})
    store.remove("queue", "gone")
    store.remove("queue", "never")
    store.commit()
    store.commit()
    assert store.load() == [("queue", "changed", {"n": 2})]
    store.close()


def test_value_changed_after_put_is_stored_as_it_was(path: Path) -> None:
    store = ConfigStore(path)
    value = {"n": 1}
    store.put("queue", "a", value)
    value["n"] = 2
    store.commit()
    assert store.load() == [("queue", "a", {"n": 1})]
    store.close()


def test_a_failed_commit_keeps_the_buffer_for_the_next(path: Path) -> None:
    store = ConfigStore(path)
    store.put("queue", "a", {"n": 1})
    store._db.execute("CREATE TRIGGER full BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(StoreError, match="disk is full") as caught:
        store.commit()
    assert str(path) in str(caught.value)
    store._db.execute("DROP TRIGGER full")
    store.put("queue", "b", {"n": 2})
    store.commit()
    assert store.load() == [("queue", "a", {"n": 1}), ("queue", "b", {"n": 2})]
    store.close()


def test_new_files_are_private(path: Path) -> None:
    store = ConfigStore(path)
    store.put("queue", "a", {})
    store.commit()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
        "config.sqlite3": 0o600,
        "config.sqlite3-shm": 0o600,
        "config.sqlite3-wal": 0o600,
    }
    store.close()


def test_committed_records_outlive_a_killed_process(path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from brokers.server.config_store import ConfigStore\n"
        "store = ConfigStore(Path(sys.argv[1])); store.put('queue', 'a', {'n': 1}); store.commit()\n"
        "store.put('queue', 'b', {'n': 1}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=30)
    assert done.returncode == -9
    store = ConfigStore(path)
    assert store.load() == [("queue", "a", {"n": 1})]
    store.close()


def test_error_of_a_folder_that_cannot_be_created_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / "config.sqlite3"
    with pytest.raises(StoreError, match="cannot write") as caught:
        ConfigStore(path)
    assert str(path) in str(caught.value)


def test_a_damaged_file_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database, whatever it says in its name" * 100)
    with pytest.raises(StoreError, match="is damaged") as caught:
        ConfigStore(path)
    assert str(path) in str(caught.value)


def test_damage_inside_the_file_is_named(path: Path) -> None:
    store = ConfigStore(path)
    for n in range(500):
        store.put("queue", f"queue-{n}", {"text": "x" * 100})
    store.commit()
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="is damaged") as caught:
        ConfigStore(path)
    assert str(path) in str(caught.value)


def test_error_of_a_record_that_is_not_a_map_names_it(path: Path) -> None:
    store = ConfigStore(path)
    store._db.execute("INSERT INTO record (kind, key, value) VALUES ('queue', 'a', '[]')")
    with pytest.raises(StoreError, match="record queue a is not a map"):
        store.load()
    store.close()


def test_a_file_of_a_later_release_is_refused(path: Path) -> None:
    ConfigStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE schema_version SET version = 99")
    db.close()
    with pytest.raises(StoreError, match="later release: schema 99"):
        ConfigStore(path)


@pytest.mark.parametrize("make", ["CREATE TABLE other (x)", "CREATE TABLE schema_version (kind, version)"])
def test_another_programs_database_is_refused(path: Path, make: str) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute(make)
    db.close()
    with pytest.raises(StoreError, match="is not a") as caught:
        ConfigStore(path)
    assert str(path) in str(caught.value)


def test_file_can_be_read_by_another_process_while_it_is_written(path: Path) -> None:
    """As a backup does. The lock of the data folder excludes a second broker."""
    store = ConfigStore(path)
    store.put("queue", "a", {"capacity": 1})
    store.commit()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reading:
        reading.execute("BEGIN")
        assert reading.execute("SELECT key FROM record").fetchall() == [("a",)]
        store.put("queue", "b", {"capacity": 2})
        store.commit()
        assert reading.execute("SELECT key FROM record").fetchall() == [("a",)]
    assert [key for _, key, _ in store.load()] == ["a", "b"]


def test_value_that_json_does_not_support_is_refused_at_once(path: Path) -> None:
    store = ConfigStore(path)
    with pytest.raises(TypeError):
        store.put("queue", "a", {"set": {1}})
    with pytest.raises(ValueError, match="JSON"):
        store.put("queue", "a", {"nan": float("nan")})
    store.commit()
    assert store.load() == []
    store.close()
