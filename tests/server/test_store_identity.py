"""The configuration and the message stores belong together: what does not is refused, adopted or set aside."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from brokers.server import config_store
from brokers.server.config_store import ConfigStore
from brokers.server.journal import recovery
from brokers.server.journal.segment_file import SegmentFile
from brokers.server.lineage import Lineage
from brokers.server.opening import open_folder
from brokers.server.service import Service
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import file_name
from brokers.server.store_identity import StoreMismatch, check
from brokers.server.store_set_aside import set_aside
from brokers.server.store_survey import CONFIG, FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.server.earlier_writer.folders import as_of_before_identities

ROOT = Path(__file__).resolve().parent.parent.parent
STORE = file_name("default")


def make_durable(broker: BrokerThread, *names: str, virtualhost: str = "default") -> None:
    for name in names:
        broker.do(lambda s, n=name: s.broker.create_queue(s.broker.virtualhost(virtualhost), n, {}, durable=True))


def send(broker: BrokerThread, queue: str, *bodies: str) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender(queue)
        for body in bodies:
            sender.send(Message(body=body, durable=True))


def receive(broker: BrokerThread, queue: str) -> list[str]:
    depth, found = broker.depth(queue), []
    with connected(broker) as connection:
        receiver = connection.create_receiver(queue, credit=max(depth, 1))
        for _ in range(depth):
            found.append(receiver.receive(timeout=5).body)
            receiver.accept()
    return found


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a broker that has ended in order: 30 messages in `dq`, 10 in `second`."""
    folder = tmp_path / "data"
    with BrokerThread(folder) as broker:
        make_durable(broker, "dq", "second")
        send(broker, "dq", *names("m", 30))
        send(broker, "second", *names("s", 10))
    return folder


def refused(data: Path) -> str:
    with pytest.raises(StoreMismatch) as caught:
        Service(data)
    text = str(caught.value)
    assert "\n" not in text
    for part in (str(data / CONFIG), str(data / FOLDER), "store check", "store adopt", "store set-aside", "Restore"):
        assert part in text
    return text


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.domain("9 identity")
@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_configuration_is_refused_at_every_start(data: Path, content: bytes | None) -> None:
    (data / CONFIG).unlink()
    if content is not None:
        (data / CONFIG).write_bytes(content)
    for _ in range(2):
        assert f"{data / CONFIG} is missing or empty, and {data / FOLDER / STORE} has 40 messages" in refused(data)
        assert (data / CONFIG).exists() == (content is not None)


def test_a_configuration_without_a_record_is_refused(data: Path) -> None:
    (data / CONFIG).unlink()
    ConfigStore(data / CONFIG).close()
    assert "is missing or empty" in refused(data)


def test_a_configuration_of_an_earlier_start_is_refused(data: Path, tmp_path: Path) -> None:
    shutil.copy(data / CONFIG, tmp_path / "backup")
    for _ in range(2):
        with BrokerThread(data) as broker:
            send(broker, "dq", "later")
    shutil.copy(tmp_path / "backup", data / CONFIG)
    assert f"{data / CONFIG} is older than {data / FOLDER / STORE}: of start 1, not 3" in refused(data)


def test_a_configuration_of_the_same_start_that_lacks_a_queue_with_messages_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerThread(data) as broker:
        make_durable(broker, "dq")
        send(broker, "dq", "one")
        broker.look(lambda s: s.store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        shutil.copy(data / CONFIG, tmp_path / "backup")
        make_durable(broker, "later")
        send(broker, "later", "two")
    shutil.copy(tmp_path / "backup", data / CONFIG)
    assert "the numbers of its queues end at 1, not at 2" in refused(data)


@pytest.mark.domain("9 identity")
def test_stores_of_an_earlier_start_are_refused(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / FOLDER, tmp_path / "backup")
    for _ in range(2):
        with BrokerThread(data):
            pass
    shutil.rmtree(data / FOLDER)
    shutil.copytree(tmp_path / "backup", data / FOLDER)
    assert f"{data / FOLDER / STORE} is older than {data / CONFIG}: of start 1, not 3" in refused(data)


def test_the_configuration_of_another_broker_is_refused(data: Path, tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "other") as broker:
        make_durable(broker, "orders")
        send(broker, "orders", "x")
    shutil.copy(tmp_path / "other" / CONFIG, data / CONFIG)
    assert "is of another broker" in refused(data)


def test_a_store_that_is_missing_or_has_lost_all_its_files_is_refused(data: Path) -> None:
    for segment in sorted((data / FOLDER / STORE).glob("*.segment"), reverse=True):  # the last one is in use
        segment.unlink()
        assert f"{data / FOLDER / STORE} has lost its segments" in refused(data)
    (data / FOLDER / STORE / "stamp.json").unlink()
    assert f"{data / FOLDER / STORE} is empty" in refused(data)
    shutil.rmtree(data / FOLDER)
    assert f"{data / FOLDER / STORE}, the message store of virtual host default, is missing" in refused(data)


def test_a_process_that_is_refused_ends_with_one_line_and_exit_code_1(data: Path) -> None:
    (data / CONFIG).unlink()
    command = [sys.executable, "manage.py", "broker", "--port", "0", "--data", str(data)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"broker: {data / CONFIG} is missing or empty")
    assert ended.stderr.count("\n") == 1


def test_a_start_reads_each_store_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes seconds."""
    read, whole = list[str](), recovery._recover

    def counted(folder: Path) -> recovery.Found:
        read.append(folder.name)
        return whole(folder)

    monkeypatch.setattr(recovery, "_recover", counted)
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30
    assert read == [STORE]


# -- what is not ----------------------------------------------------------------------------------------------------


def test_a_folder_without_messages_starts_without_its_configuration(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerThread(data) as broker:
        make_durable(broker, "dq")
        send(broker, "dq", "one")
        assert receive(broker, "dq") == ["one"]
    (data / CONFIG).unlink()
    with BrokerThread(data) as broker:
        make_durable(broker, "other")
        assert broker.see("other", lambda q: q.store_id) == 2, "a number is never given twice"


def test_a_folder_of_before_identities_gets_one_and_keeps_its_messages(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_of_before_identities(data)
    for _ in range(2):
        with BrokerThread(data) as broker:
            assert (broker.depth("dq"), broker.depth("second")) == (30, 10)
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == names("m", 30)
    (data / CONFIG).unlink()
    refused(data)


def test_a_folder_of_before_identities_whose_numbers_do_not_agree_is_refused(data: Path) -> None:
    as_of_before_identities(data)
    with contextlib.closing(sqlite3.connect(data / CONFIG)) as db:
        db.execute("UPDATE record SET value = json_set(value, '$.last_store_id', 1) WHERE kind = 'broker'")
        db.commit()
    assert "the numbers of its queues end at 1, not at 2" in refused(data)


def test_a_full_disk_does_not_keep_the_broker_from_starting(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = ConfigStore.commit

    def full(store: ConfigStore) -> None:
        if store._buffer:
            raise config_store.DiskFull("the disk is full")
        commit(store)

    with monkeypatch.context() as patched:
        patched.setattr(ConfigStore, "commit", full)
        with contextlib.closing(ConfigStore(data / CONFIG)) as config:
            Lineage(config, check(data, config.load()))
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30


@pytest.mark.parametrize("counted", [0, 1], ids=["not begun", "begun"])
def test_virtual_host_created_after_a_start_that_a_full_disk_did_not_count_is_there_at_the_next(
    data: Path, monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    """Also where the disk was full only after the configuration's intention was written."""
    commit, left = ConfigStore.commit, [counted]

    def full(store: ConfigStore) -> None:
        if any(kind == "identity" for kind, _ in store._buffer):
            left[0] -= 1
            if left[0] < 0:
                raise config_store.DiskFull("the disk is full")
        commit(store)

    with monkeypatch.context() as patched:
        patched.setattr(ConfigStore, "commit", full)
        with BrokerThread(data) as broker:
            broker.do(lambda s: s.broker.create_virtualhost("second"))
            make_durable(broker, "other", virtualhost="second")
            body = bytes(Message(body="one", durable=True).encode())
            broker.do(lambda s: s.broker.queue("second", "other").enqueue(body))
            broker.until(lambda s: not s.broker.virtualhost("second").store.pending, "it is stored")
    assert left[0] < 0
    for _ in range(2):
        with BrokerThread(data) as broker:
            assert broker.depth("dq") == 30
            assert broker.look(lambda s: s.broker.queue("second", "other").gate.depth_messages) == 1


@pytest.fixture
def snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """A copy of the data folder before and after every write, rename and deletion of its files: what a kill -9 there
    would leave."""
    taken: list[Path] = []
    numbers = itertools.count()
    lock = threading.RLock()  # the writers' threads write, too

    def take() -> None:
        if (tmp_path / "data").exists():
            taken.append(tmp_path / f"killed-{next(numbers)}")
            with contextlib.suppress(shutil.Error):  # files that go meanwhile
                shutil.copytree(tmp_path / "data", taken[-1], ignore=shutil.ignore_patterns("broker.log*", "temp.*"))

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **how: Any) -> Any:
            with lock:
                take()
                done = call(*given, **how)
                take()
                return done

        return called

    transaction = config_store.transaction

    @contextlib.contextmanager
    def watched(db: sqlite3.Connection) -> Iterator[None]:
        with lock:
            take()
            with transaction(db):
                yield
            take()

    monkeypatch.setattr(config_store, "transaction", watched)
    monkeypatch.setattr(SegmentFile, "write", around(SegmentFile.write))
    monkeypatch.setattr(os, "replace", around(os.replace))
    monkeypatch.setattr(os, "rename", around(os.rename))
    monkeypatch.setattr(shutil, "rmtree", around(shutil.rmtree))
    yield taken
    monkeypatch.undo()


def test_a_kill_between_any_two_writes_is_no_reason_to_refuse(tmp_path: Path, snapshots: list[Path]) -> None:
    data = tmp_path / "data"
    with BrokerThread(data, segment_bytes=64 << 10) as broker:
        make_durable(broker, "dq")
        send(broker, "dq", "one", "two")
    with BrokerThread(data, segment_bytes=64 << 10) as broker:
        broker.do(lambda s: s.broker.create_virtualhost("second"))
        make_durable(broker, "other", virtualhost="second")
        broker.do(lambda s: s.broker.delete_virtualhost(s.broker.virtualhost("second")))
        make_durable(broker, "third")
        send(broker, "third", "three")
        broker.do(lambda s: s.broker.delete_queue(s.broker.queue("default", "dq")))
    with BrokerThread(data):
        pass
    assert len(snapshots) > 40
    for killed in list(snapshots):
        for _ in range(2):  # a start that is killed itself goes on where it was
            with open_folder(killed) as (config, stores, found), contextlib.closing(config):
                assert found == []
                Lineage(config, stores)


# -- what to do -----------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.domain("9 identity")
def test_check_lists_which_messages_belong_to_which_queue(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = command(capsys, "check", "--data", str(data))
    assert (code, found["belongs_together"], found["problems"], found["damage"]) == (0, True, [], [])
    [store] = found["stores"]
    assert (store["virtualhost"], store["messages"], store["orphaned_messages"]) == ("default", 40, 0)
    assert [(q["number"], q["name"], q["messages"], q["orphaned"]) for q in store["queues"]] == [
        (1, "dq", 30, False),
        (2, "second", 10, False),
    ]
    (data / CONFIG).unlink()
    code, found = command(capsys, "check", "--data", str(data))
    assert (code, found["belongs_together"], len(found["problems"])) == (1, False, 1)
    [store] = found["stores"]
    assert store["orphaned_messages"] == 40
    assert [(q["number"], q["name"], q["name_in_store"], q["orphaned"]) for q in store["queues"]] == [
        (1, None, "dq", True),
        (2, None, "second", True),
    ]
    assert not (data / CONFIG).exists()
    assert main(["check", "--data", str(data)]) == 1
    text = capsys.readouterr().out
    assert "orphaned, was called dq" in text
    assert "store adopt" in text


def test_check_changes_nothing_also_of_a_broker_that_was_killed(data: Path, tmp_path: Path) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", "the last one")
        shutil.copytree(data / FOLDER, tmp_path / "killed" / FOLDER)
    before = contents(tmp_path / "killed" / FOLDER)
    assert main(["check", "--data", str(tmp_path / "killed")]) == 1  # without a configuration
    assert contents(tmp_path / "killed" / FOLDER) == before


def test_adopted_messages_are_in_queues_of_their_old_names(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / CONFIG).unlink()
    code, found = command(capsys, "adopt", "--data", str(data))
    assert code == 0
    assert found["done"][0].startswith("virtual host default: queue dq was created for the 30 messages")
    with BrokerThread(data) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        make_durable(broker, "other")
        assert broker.see("other", lambda q: q.store_id) == 3
        send(broker, "other", "new")
        assert receive(broker, "other") == ["new"]
        assert receive(broker, "dq") == names("m", 30)
        assert receive(broker, "second") == names("s", 10)


def test_messages_of_another_broker_are_adopted_beside_those_of_this_one(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with BrokerThread(other) as broker:
        make_durable(broker, "orders", "dq")
    shutil.copy(other / CONFIG, data / CONFIG)
    refused(data)
    adopt(data)
    with BrokerThread(data) as broker:
        assert receive(broker, "recovered-3") == names("m", 30)
        assert receive(broker, "second") == names("s", 10)
        assert (broker.depth("orders"), broker.depth("dq")) == (0, 0)
        make_durable(broker, "next")
        assert broker.see("next", lambda q: q.store_id) == 5


def test_an_adoption_that_is_killed_at_any_write_is_finished_by_the_next(
    data: Path, tmp_path: Path, snapshots: list[Path]
) -> None:
    other = tmp_path / "other"
    with BrokerThread(other) as broker:
        make_durable(broker, "orders")
    shutil.copy(other / CONFIG, data / CONFIG)
    snapshots.clear()
    adopt(data)
    assert len(snapshots) >= 2
    for killed in [*snapshots, data]:
        adopt(killed)
        with BrokerThread(killed) as broker:
            assert (broker.depth("dq"), broker.depth("second")) == (30, 10)
            assert len(broker.look(lambda s: list(s.broker.queues()))) == 3


def test_stores_that_are_set_aside_are_moved_to_a_dated_folder(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / CONFIG).unlink()
    before = contents(data / FOLDER / STORE)
    code, found = command(capsys, "set-aside", "--data", str(data))
    assert code == 0
    [aside] = data.glob("messages-set-aside-20*")
    assert contents(aside / STORE) == before
    assert found["done"] == [f"{data / FOLDER / STORE} was moved to {aside / STORE}"]
    with BrokerThread(data) as broker:
        make_durable(broker, "other")
        send(broker, "other", "new")
        assert receive(broker, "other") == ["new"]


def test_stores_set_aside_twice_within_a_second_are_moved_to_two_folders(data: Path) -> None:
    now, store = datetime(2026, 11, 22, 9, 31, 14, tzinfo=UTC), data / FOLDER / STORE
    shutil.copytree(store, data / "copy")
    for _ in range(3):
        set_aside(data, now=now)
        shutil.copytree(data / "copy", store)
    folders = sorted(data.glob("messages-set-aside-*"))
    assert [folder.name.partition("31-14Z")[2] for folder in folders] == ["", "-2", "-3"]
    assert [contents(folder / STORE) for folder in folders] == [contents(data / "copy")] * 3


def test_a_missing_store_is_forgotten_when_stores_are_set_aside_or_adopted(data: Path) -> None:
    shutil.rmtree(data / FOLDER)
    refused(data)
    set_aside(data)
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 0
        send(broker, "dq", "new")
    shutil.rmtree(data / FOLDER)
    assert "is missing: it starts empty" in adopt(data)[0]
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 0


def test_a_store_in_use_is_neither_adopted_nor_set_aside(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerThread(data):
        for what in ("check", "adopt", "set-aside"):
            assert main([what, "--data", str(data)]) == 1
            assert "is in use by another broker process" in capsys.readouterr().err
