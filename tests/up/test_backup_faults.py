"""Backups and restorations of folders with damaged, set-aside, new and vanishing files, and of what changes while it is
copied."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from proton import Message
from proton.utils import BlockingConnection

from brokers.server.earlier_store.salvage import mend_store
from brokers.server.journal.segment_file import CONTENT, PAGE
from brokers.server.sqlite_file import StoreError
from brokers.server.store_folder import earlier_of, file_name
from brokers.server.store_survey import FOLDER, read_store
from console.backup import broker_files, console_files, history_files, restored_console, space, taking
from console.backup.archive import BackupError, Writer
from console.backup.commands import main_backup, main_restore
from console.backup.contents import LOG
from console.backup.restoration import restore
from console.backup.snapshot import copy, pinned
from console.backup.taking import take
from console.bulk.models import BulkEdit
from console.bulk.models import State as BulkState
from console.messages.models import MessageJob
from console.messages.models import State as MessageState
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.journal.journals import BadSectors
from tests.server.test_store_identity import make_durable

pytestmark = pytest.mark.timeout(300)

STORE = Path("broker", FOLDER, file_name("default"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a broker with a durable queue and three messages."""
    folder = tmp_path_factory.mktemp("made") / "data"
    with BrokerThread(folder / "broker") as broker:
        make_durable(broker, "dq")
        client = BlockingConnection(broker.url, allowed_mechs="ANONYMOUS")
        sender = client.create_sender("dq")
        for body in ("first", "second", "third"):
            sender.send(Message(body=body, durable=True))
        client.close()
    return folder


@pytest.fixture
def data(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATABASE_URL", "HEADGATE_HISTORY_URL", "HEADGATE_DATA"):
        monkeypatch.delenv(name, raising=False)
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "b.headgate"


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    return tmp_path / "restored"


def damage_table(path: Path, table: str) -> None:
    """Overwrite the first page of a table."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [root] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        [size] = db.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = random.Random(1).randbytes(size)
    path.write_bytes(content)


# -- damaged files ------------------------------------------------------------------------------------------------


def damage_segment(store: Path) -> None:
    """Overwrite the first group of the segment that is in use, and its listing."""
    segment = max(store.glob("*.segment"))
    content = bytearray(segment.read_bytes())
    content[CONTENT : CONTENT + 40] = random.Random(1).randbytes(40)
    content[-1] ^= 0xFF
    segment.write_bytes(content)


@pytest.fixture
def earlier(data: Path) -> Path:
    """The store of the folder, as the release before left it."""
    [path] = as_of_the_release_before(data / "broker")
    return path


def test_damaged_and_set_aside_stores_are_carried_as_they_are(data: Path, file: Path, restored: Path) -> None:
    aside = data / "broker" / f"{FOLDER}-set-aside-2026-01-01T00-00-00Z" / file_name("old")
    shutil.copytree(data / STORE, aside)
    damage_segment(aside)
    preserved = data / f"{earlier_of(STORE)}-damaged-2026-01-01T00-00-00"
    earlier_aside = earlier_of(aside)
    for path in (preserved, earlier_aside):
        path.write_bytes(random.Random(3).randbytes(50_000))
    log = earlier_aside.with_name(f"{earlier_aside.name}-wal")
    log.write_bytes(b"the newest messages")
    paths = [*(path for path in aside.rglob("*") if path.name != "lock"), preserved, earlier_aside, log]
    content = {path.relative_to(data): path.read_bytes() for path in paths}
    assert take(data, file, {})["damage"] == {}
    assert restore(file, restored, {})["damaged"] == {}
    assert {name: (restored / name).read_bytes() for name in content} == content
    assert content == {name: (data / name).read_bytes() for name in content}


def test_damaged_store_is_backed_up_with_an_error_and_what_is_readable_is_there_after_the_restoration(
    data: Path, file: Path, restored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_segment(data / STORE)
    assert main_backup([str(file), "--data", str(data)]) == 1
    assert f"headgate backup: it was made, but {STORE} is damaged (" in capsys.readouterr().err
    assert main_restore([str(file), "--data", str(restored)]) == 0
    assert f"{STORE} is damaged (" in capsys.readouterr().out
    assert read_store(restored / STORE).messages == read_store(data / STORE).messages
    assert [line.replace(str(restored), str(data)) for line in read_store(restored / STORE).damage] == read_store(
        data / STORE
    ).damage


def test_store_of_which_the_disk_cannot_read_a_body_is_backed_up_with_an_error(
    data: Path, file: Path, restored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = next(path for path in (data / STORE).glob("*.segment") if b"second" in path.read_bytes())
    page = segment.read_bytes().index(b"second") // PAGE * PAGE
    bad = BadSectors(monkeypatch)
    bad.pages = {(segment.name, page)}
    assert main_backup([str(file), "--data", str(data)]) == 1
    error = f"it was made, but {STORE} is damaged (the disk cannot read byte {page:,} of {segment})"
    assert error in capsys.readouterr().err
    bad.pages.clear()
    assert main_restore([str(file), "--data", str(restored)]) == 0


def test_damaged_store_of_the_release_before_is_backed_up_with_an_error_and_repaired_after_the_restoration(
    data: Path, file: Path, restored: Path, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_table(earlier, "message")
    assert main_backup([str(file), "--data", str(data)]) == 1
    name = earlier.relative_to(data)
    assert f"headgate backup: it was made, but {name} is damaged (" in capsys.readouterr().err
    assert main_restore([str(file), "--data", str(restored)]) == 0
    assert "damaged" in mend_store(restored / name, suspect=True)[0]
    assert not read_store(restored / name).damage


def test_store_that_cannot_be_opened_stops_no_backup(data: Path, file: Path, restored: Path) -> None:
    for path in (data / STORE).glob("*.segment"):
        path.write_bytes(random.Random(2).randbytes(path.stat().st_size))
    assert list(take(data, file, {})["damage"]) == [str(STORE)]
    restore(file, restored, {})
    for path in (data / STORE).glob("*.segment"):
        assert (restored / STORE / path.name).read_bytes() == path.read_bytes()
    assert (restored / "broker" / "config.sqlite3").exists()


@pytest.mark.parametrize("name", ["broker/config.sqlite3", "console/console.sqlite3"])
def test_damaged_configuration_or_console_database_is_named_and_not_restored(
    data: Path, file: Path, restored: Path, name: str
) -> None:
    (data / "console").mkdir()
    with closing(sqlite3.connect(data / "console" / "console.sqlite3")) as db:
        db.execute("CREATE TABLE django_migrations (app, name)")
    table = "django_migrations" if "console" in name.partition("/")[0] else "record"
    damage_table(data / name, table)
    assert list(take(data, file, {})["damage"]) == [name]
    with pytest.raises(BackupError, match=f"{name} in the backup is damaged"):
        restore(file, restored, {})
    assert not restored.exists()


def test_damaged_store_of_the_release_before_is_not_rewritten_while_a_backup_reads_it(earlier: Path) -> None:
    damage_table(earlier, "message")
    with closing(sqlite3.connect(earlier)) as writer:  # the log has pages
        writer.execute("CREATE TABLE later (id)")
        writer.commit()
        with pinned({"store": earlier}):
            before = earlier.stat().st_ino
            with pytest.raises(StoreError, match="a backup reads it"):
                mend_store(earlier, suspect=True)
            assert earlier.stat().st_ino == before
    assert "was damaged" in mend_store(earlier, suspect=True)[0]


# -- files that come and go -----------------------------------------------------------------------------------------


def test_virtual_host_whose_name_begins_with_a_dot_is_backed_up(tmp_path: Path, file: Path, restored: Path) -> None:
    data = tmp_path / "dotted"
    with BrokerThread(data / "broker") as broker:
        broker.do(lambda s: s.broker.create_virtualhost(".x"))
        make_durable(broker, "dq", virtualhost=".x")
    name = Path("broker", FOLDER, file_name(".x"))
    aside = Path("broker", f"{FOLDER}-set-aside-2026-01-01T00-00-00Z", file_name(".x"))
    shutil.copytree(data / name, data / aside)
    take(data, file, {})
    restore(file, restored, {})
    assert (restored / name / "stamp.json").exists()
    assert (restored / aside / "stamp.json").exists()


def test_empty_store_of_a_virtual_host_that_is_being_created_is_no_damage(
    data: Path, file: Path, restored: Path
) -> None:
    new = data / "broker" / FOLDER / file_name("new")
    new.mkdir()
    earlier = earlier_of(new.with_name(file_name("of the release before")))
    earlier.touch()
    assert take(data, file, {})["damage"] == {}
    restore(file, restored, {})
    with BrokerThread(restored / "broker") as broker:
        assert broker.depth("dq") == 3


def test_store_that_goes_while_it_is_listed_is_left_out(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = data / "broker" / "gone.txt"
    gone.touch()
    whole = broker_files.pinned

    def pinned_then(paths: Any) -> Any:
        gone.unlink(missing_ok=True)
        return whole(paths)

    monkeypatch.setattr(broker_files, "pinned", pinned_then)
    assert take(data, file, {})["damage"] == {}


def test_moment_is_before_anything_is_pinned(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Any] = []
    whole, clock = broker_files.pinned_journal, broker_files.datetime

    class Clock:
        @staticmethod
        def now(zone: Any) -> Any:
            assert began == []
            return clock.now(zone)

    def pinned_later(path: Any) -> Any:
        began.append(path)
        return whole(path)

    monkeypatch.setattr(broker_files, "datetime", Clock)
    monkeypatch.setattr(broker_files, "pinned_journal", pinned_later)
    broker_files.take(data, tmp_path / "copies", lambda: None)
    assert len(began) == 1


# -- the console's database -----------------------------------------------------------------------------------------


@pytest.fixture
def console(data: Path) -> Path:
    """The console's database in the data folder, with a secret."""
    path = data / "console" / "console.sqlite3"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE django_migrations (app, name)")
        db.execute("CREATE TABLE secret (encrypted)")
        db.execute("INSERT INTO secret VALUES ('with key 1')")
        db.commit()
    (path.parent / "brokers.key").write_text("key 1")
    (path.parent / "brokers.lock").touch()
    return path


def test_database_in_another_file_is_not_taken_for_the_one_in_the_folder(
    data: Path, file: Path, restored: Path, tmp_path: Path, console: Path
) -> None:
    elsewhere = {"DATABASE_URL": f"sqlite:///{tmp_path}/other.sqlite3"}
    here = {"DATABASE_URL": f"sqlite:///{console}"}
    assert take(data, file, elsewhere)["database"] == "another SQLite file"
    with pytest.raises(BackupError, match="the console's database was another SQLite file"):
        restore(file, restored, {})
    restore(file, restored, elsewhere)
    assert not (restored / "console" / "console.sqlite3").exists()
    assert take(data, tmp_path / "c.headgate", here)["database"] == "sqlite"
    restore(tmp_path / "c.headgate", tmp_path / "second", {})
    assert (tmp_path / "second" / "console" / "console.sqlite3").exists()


def test_database_that_is_not_there_is_named_in_both_commands(
    data: Path, file: Path, restored: Path, console: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console.unlink()
    assert main_backup([str(file), "--data", str(data)]) == 0
    assert "Not in it: the console's database, which was not in the data folder" in capsys.readouterr().out
    assert main_restore([str(file), "--data", str(restored)]) == 0
    assert "It is without the console's database" in capsys.readouterr().out


def test_both_names_of_postgresql_are_one(data: Path, file: Path, restored: Path) -> None:
    assert take(data, file, {"DATABASE_URL": "postgres://db/h"})["database"] == "postgresql"
    restore(file, restored, {"DATABASE_URL": "postgresql://db/h"})


def test_keys_fit_the_database_although_they_are_changed_meanwhile(
    data: Path, file: Path, restored: Path, console: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is tried when the database is pinned, and done when the lock is free: as `rotate_broker_key` does."""
    whole, excluded = console_files.pinned, []

    def rotate() -> None:
        (console.parent / "brokers.key").write_text("key 2")
        with closing(sqlite3.connect(console)) as db:
            db.execute("UPDATE secret SET encrypted = 'with key 2'")
            db.commit()

    def is_locked() -> bool:
        with (console.parent / "brokers.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @contextmanager
    def pinned_then(paths: Any) -> Iterator[Any]:
        with whole(paths) as connections:
            excluded.append(is_locked())
            if not excluded[0]:
                rotate()
            yield connections

    def copied_later(*given: Any) -> None:
        if not is_locked():
            rotate()
        copy(*given)

    monkeypatch.setattr(console_files, "pinned", pinned_then)
    monkeypatch.setattr(console_files, "copy", copied_later)
    take(data, file, {})
    assert (console.parent / "brokers.key").read_text() == "key 2", "a change is not delayed by the copy"
    restore(file, restored, {})
    with closing(sqlite3.connect(restored / "console" / "console.sqlite3")) as db:
        [found] = db.execute("SELECT encrypted FROM secret").fetchone()
    assert found == f"with {(restored / 'console' / 'brokers.key').read_text()}" == "with key 1"


# -- the history, which changes while it is copied ------------------------------------------------------------------


def put(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@contextmanager
def after_adding(monkeypatch: pytest.MonkeyPatch, ending: str, then: Callable[[], None]) -> Iterator[None]:
    """Have something happen once, when the first file whose name ends so is in the archive."""
    whole, happened = Writer.add, []

    def add(self: Writer, name: str, path: Path) -> None:
        whole(self, name, path)
        if name.endswith(ending) and not happened:
            happened.append(name)
            then()

    monkeypatch.setattr(Writer, "add", add)
    yield
    assert happened


def test_note_of_a_run_that_ends_while_logs_are_copied_is_there_or_its_last_commit(
    data: Path, file: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = data / "history"
    note = put(history / "pipeline" / "pending" / "local.json", "{}")
    put(history / "events" / LOG / "0.json")
    put(history / "minutes" / LOG / "0.json")
    whole, ended = history_files._log, []

    def log_then(log: Path) -> dict[Path, bytes]:
        found = whole(log)
        if log.parent.name == "minutes" and not ended:
            ended.append(put(history / "minutes" / LOG / "1.json"))
            note.unlink()
        return found

    monkeypatch.setattr(history_files, "_log", log_then)
    take(data, file, {})
    restore(file, restored, {})
    assert ended
    has_note = (restored / note.relative_to(data)).exists()
    has_rollups = (restored / "history" / "minutes" / LOG / "1.json").exists()
    assert (has_note, has_rollups) in ((True, False), (False, True))


def test_note_of_unfinished_work_is_restored(data: Path, file: Path, restored: Path) -> None:
    note = put(data / "history" / "pipeline" / "pending" / "local.json", "{}")
    put(data / "history" / "minutes" / LOG / "0.json")
    take(data, file, {})
    restore(file, restored, {})
    assert (restored / note.relative_to(data)).read_text() == "{}"


def test_position_of_an_import_is_not_after_its_rows(
    data: Path, file: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = put(data / "history" / "imports" / "other~1.json", "1")
    landing = data / "history" / "landing" / "events"
    put(landing / "1.parquet")

    def import_more() -> None:
        put(landing / "2.parquet")
        position.write_text("2")

    with after_adding(monkeypatch, "/1.parquet", import_more):
        take(data, file, {})
    restore(file, restored, {})
    rows = len(list((restored / landing.relative_to(data)).iterdir()))
    assert int((restored / position.relative_to(data)).read_text()) <= rows


def test_files_that_a_recorders_catalog_names_are_in_the_backup(
    data: Path, file: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data / "history" / "recorder" / "local"
    put(folder / "events~1.parquet")
    put(folder / "published.json", '["events~1.parquet"]')

    def publish() -> None:
        put(folder / "events~2.parquet")
        put(folder / "published.json", '["events~2.parquet"]')

    with after_adding(monkeypatch, "events~1.parquet", publish):
        take(data, file, {})
    restore(file, restored, {})
    there = restored / folder.relative_to(data)
    assert all((there / name).exists() for name in json.loads((there / "published.json").read_text()))


# -- after a restoration, and around both ---------------------------------------------------------------------------


def test_jobs_that_ran_are_interrupted_and_sessions_have_ended(
    data: Path, file: Path, restored: Path, console: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(console)) as db:
        db.execute("CREATE TABLE django_session (session_key)")
        db.execute("INSERT INTO django_session VALUES ('stolen')")
        db.execute("CREATE TABLE message_jobs_messagejob (state, error, blocked)")
        db.execute("INSERT INTO message_jobs_messagejob VALUES ('running', '', 'full'), ('done', '', '')")
        db.execute("CREATE TABLE bulk_bulkedit (state, error)")
        db.execute("INSERT INTO bulk_bulkedit VALUES ('running', '')")
        db.commit()
    take(data, file, {})
    assert main_restore([str(file), "--data", str(restored)]) == 0
    said = capsys.readouterr().out
    assert "All sessions have ended. Users, roles and API tokens are those of the backup" in said
    assert "that were running are interrupted (2)" in said
    assert "Do not run it beside the original" in said
    with closing(sqlite3.connect(restored / "console" / "console.sqlite3")) as db:
        assert db.execute("SELECT * FROM django_session").fetchall() == []
        assert [state for (state,) in db.execute("SELECT state FROM bulk_bulkedit")] == ["interrupted"]
        jobs = db.execute("SELECT state, blocked FROM message_jobs_messagejob").fetchall()
    assert jobs == [("interrupted", ""), ("done", "")]
    assert not list((restored / "console").glob("*-wal"))


def test_tables_of_jobs_have_the_names_that_a_restoration_knows() -> None:
    assert (MessageJob._meta.db_table, BulkEdit._meta.db_table) == restored_console._JOBS
    assert Session._meta.db_table == restored_console._SESSIONS
    assert (MessageState.RUNNING, MessageState.INTERRUPTED) == ("running", "interrupted")
    assert (BulkState.RUNNING, BulkState.INTERRUPTED) == ("running", "interrupted")


def test_user_and_password_of_a_url_are_in_neither_output_nor_manifest(data: Path, file: Path) -> None:
    facts = take(data, file, {"HEADGATE_HISTORY_URL": "s3://key:sec@ret@host/history"})
    assert facts["history"] == "s3://host/history"


def test_terminated_backup_leaves_nothing_behind(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with after_adding(monkeypatch, "config.sqlite3", lambda: os.kill(os.getpid(), signal.SIGTERM)):
        assert main_backup([str(file), "--data", str(data)]) == 1
    assert "stopped; nothing was left behind" in capsys.readouterr().err
    assert [path.name for path in file.parent.iterdir()] == ["data"]


def test_unfinished_work_of_killed_backups_is_removed_unless_they_run(data: Path, file: Path, tmp_path: Path) -> None:
    killed, runs = tmp_path / ".monday.headgate.partial", tmp_path / ".tuesday.headgate.partial"
    put(killed / "archive")
    put(runs / "archive")
    descriptor = os.open(runs, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    take(data, file, {})
    os.close(descriptor)
    assert not killed.exists()
    assert (runs / "archive").exists()


def test_file_system_without_hard_links_has_whole_backups_too(
    data: Path, file: Path, restored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    take(data, file, {})
    with pytest.raises(BackupError, match="exists: choose another name"):
        taking._publish(put(file.parent / "draft"), file)
    restore(file, restored, {})


def test_symbolic_link_to_an_empty_folder_is_restored_into(data: Path, file: Path, tmp_path: Path) -> None:
    take(data, file, {})
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert main_restore([str(file), "--data", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / STORE).exists()


# -- disk space -----------------------------------------------------------------------------------------------------


def test_backup_that_does_not_fit_is_refused_before_it_begins(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    monkeypatch.setattr(space, "_free", lambda _: free)
    with pytest.raises(BackupError, match="of free disk space, and the backup needs up to"):
        take(data, file, {})
    assert [path.name for path in file.parent.iterdir()] == ["data"]


def test_backup_leaves_the_space_of_logs_and_of_journals_that_grow(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "_free", lambda _: 1 << 30)
    for name, size in ((f"{earlier_of(STORE)}-reserve", 1 << 30), (STORE / "00000001.segment", 1 << 28)):
        path = data / name
        before = path.read_bytes() if path.exists() else b""
        path.touch()
        os.truncate(path, size)
        with pytest.raises(BackupError, match="the backup needs up to"):
            take(data, file, {})
        path.write_bytes(before)
    take(data, file, {})


@pytest.mark.parametrize("at", ["config.sqlite3", "_copy_"])
def test_backup_stops_when_the_disk_of_the_data_folder_gets_full(
    data: Path, file: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    left, copies = [1 << 30], []

    def copied(*given: Any) -> None:
        copies.append(given)
        if at == "_copy_":
            left[0] = 1000
        copy(*given)

    monkeypatch.setattr(broker_files, "copy", copied)
    monkeypatch.setattr(space, "_free", lambda _: left[0])
    whole = Writer.add

    def add(self: Writer, name: str, path: Path) -> None:
        if name.endswith(at):
            left[0] = 1000
        whole(self, name, path)

    monkeypatch.setattr(Writer, "add", add)
    with pytest.raises(BackupError, match="it was stopped, since the disk of"):
        take(data, file, {})
    assert len(copies) == (1 if at == "_copy_" else 2), "it is not tried again"
    assert sorted(path.name for path in file.parent.iterdir()) == ["data"]
