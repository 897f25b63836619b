"""The stores of virtual hosts that are created and deleted: nothing of a deleted one is left, or in a new one of its
name, and what is being deleted is never taken for a store."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proton import Message

from brokers.admin import AdminError
from brokers.server import virtualhost_stores
from brokers.server.journal import journal_store
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.segment_file import SegmentFile, WriteFailed
from brokers.server.journal.stamp_file import read_stamp
from brokers.server.message_groups import Group, Written
from brokers.server.opening import open_folder
from brokers.server.service import Service
from brokers.server.store_folder import DELETED, file_name, store_files
from brokers.server.store_survey import FOLDER, read_store
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.server.test_store_identity import make_durable, send

NAME = file_name("second")


def create(broker: BrokerThread) -> None:
    broker.do(lambda s: s.broker.create_virtualhost("second"))
    make_durable(broker, "q", virtualhost="second")


def delete(broker: BrokerThread) -> None:
    broker.do(lambda s: s.broker.delete_virtualhost(s.broker.virtualhost("second")))


def put(service: Service, count: int, text: str = "x") -> None:
    for number in range(count):
        service.broker.queue("second", "q").enqueue(bytes(Message(body=f"{text}{number}", durable=True).encode()))


def test_folder_of_a_deleted_virtual_host_is_deleted(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        create(broker)
        broker.do(lambda s: put(s, 20))
        assert (tmp_path / FOLDER / NAME).exists()
        delete(broker)
        wait_until(lambda: not list((tmp_path / FOLDER).glob("second*")), "it is deleted")
    with BrokerThread(tmp_path) as broker:
        create(broker)
        assert broker.look(lambda s: s.broker.queue("second", "q").gate.depth_messages) == 0


def test_new_virtual_host_of_the_same_name_has_nothing_of_one_whose_group_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of the first one would create files in the folder of the second."""
    writing, go = threading.Event(), threading.Event()
    write = JournalStore.write

    def stepped(store: JournalStore, group: Group) -> Written:
        if store.path.name.startswith(NAME) and not go.is_set():
            writing.set()
            assert go.wait(20)
        return write(store, group)

    monkeypatch.setattr(JournalStore, "write", stepped)
    with BrokerThread(tmp_path, segment_bytes=64 << 10) as broker:
        create(broker)
        broker.do(lambda s: put(s, 2000, "of the first " * 20))
        assert writing.wait(20)
        threading.Timer(0.1, go.set).start()  # the deletion waits for the group
        delete(broker)
        create(broker)
        broker.do(lambda s: put(s, 1, "of the second "))
        wait_until(lambda: read_store(tmp_path / FOLDER / NAME).messages == 1, "it is stored")
        assert not any(b"of the first" in file.read_bytes() for file in (tmp_path / FOLDER / NAME).iterdir())
    with BrokerThread(tmp_path) as broker:
        assert broker.look(lambda s: s.broker.queue("second", "q").gate.depth_messages) == 1


def test_deletion_waits_for_no_group_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does any other turn meanwhile, and a store is written until its folder is deleted."""
    writing, go = threading.Event(), threading.Event()
    write = JournalStore.write

    def stepped(store: JournalStore, group: Group) -> Written:
        if store.path.name == NAME:
            writing.set()
            assert go.wait(20)
        return write(store, group)

    monkeypatch.setattr(JournalStore, "write", stepped)
    with BrokerThread(tmp_path) as broker:
        create(broker)
        make_durable(broker, "dq")
        broker.do(lambda s: put(s, 20))
        assert writing.wait(20)
        delete(broker)
        send(broker, "dq", "meanwhile")
        assert "second" not in broker.look(lambda s: set(s.broker.virtualhosts))
        assert not go.is_set()
        assert (tmp_path / FOLDER / NAME).exists()
        go.set()
        wait_until(lambda: not list((tmp_path / FOLDER).glob("second*")), "it is deleted")
    assert not [text for text in caplog.messages if NAME in text], "no fault of the disk is reported"
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("dq") == 1


def test_broker_that_stops_finishes_the_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleting, go = threading.Event(), threading.Event()
    rmtree = shutil.rmtree

    def stepped(folder: Path, **how: Any) -> None:
        deleting.set()
        assert go.wait(20)
        rmtree(folder, **how)

    monkeypatch.setattr(virtualhost_stores, "rmtree", stepped)
    with BrokerThread(tmp_path) as broker:
        create(broker)
        delete(broker)
        assert deleting.wait(20)
        create(broker)  # its name is free meanwhile
        assert (tmp_path / FOLDER / NAME).exists()
        delete(broker)
        threading.Timer(0.1, go.set).start()
    assert not list((tmp_path / FOLDER).glob("second*"))


def test_deletion_that_is_killed_is_finished_by_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anywhere: with all of its files, or some."""
    data = tmp_path / "data"
    with BrokerThread(data, segment_bytes=64 << 10) as broker:
        create(broker)
        broker.do(lambda s: put(s, 300, "x" * 500))
        wait_until(lambda: read_store(data / FOLDER / NAME).messages == 300, "they are stored")
        left: list[Path] = []
        done = threading.Event()

        def killed(folder: Path, **_: Any) -> None:
            files = sorted(folder.iterdir())
            for count in range(len(files) + 1):
                left.append(tmp_path / f"killed-{count}")
                shutil.copytree(data, left[-1])
                for file in sorted((left[-1] / FOLDER / folder.name).iterdir())[:count]:
                    file.unlink()
            done.set()

        monkeypatch.setattr(virtualhost_stores, "rmtree", killed)
        delete(broker)
        assert done.wait(20)
    assert len(left) > 5
    for copy in left:
        assert store_files(copy / FOLDER) == []
        with BrokerThread(copy) as broker:
            assert "second" not in broker.look(lambda s: set(s.broker.virtualhosts))
            assert not list((copy / FOLDER).glob("second*"))


def test_store_whose_configuration_was_committed_just_before_a_kill_is_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerThread(data) as broker:
        create(broker)
        broker.do(lambda s: put(s, 5))
        wait_until(lambda: read_store(data / FOLDER / NAME).messages == 5, "they are stored")
        shutil.copytree(data / FOLDER / NAME, tmp_path / "store")
        delete(broker)
    os.rename(tmp_path / "store", data / FOLDER / NAME)
    with BrokerThread(data):
        assert not list((data / FOLDER).glob("second*"))


@pytest.mark.parametrize("what", ["stamp", "disk"])
def test_store_that_could_not_be_opened_is_opened_once_the_disk_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its stamp could not be written, or no file: the next attempt finds it neither locked nor without its stamp."""

    def full(path: Path, *_: Any, **__: Any) -> None:
        raise WriteFailed(path, OSError(28, "No space left on device"))

    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: s.broker.create_virtualhost("second"))
        with monkeypatch.context() as patch:
            if what == "stamp":
                patch.setattr(journal_store, "write_stamp", full)
            else:
                patch.setattr(SegmentFile, "create", full)
            for _ in range(2):
                with pytest.raises(AdminError, match="the disk is full"):
                    make_durable(broker, "q", virtualhost="second")
        make_durable(broker, "q", virtualhost="second")
        broker.do(lambda s: put(s, 3))
    stamp, _ = read_stamp(tmp_path / FOLDER / NAME)
    assert stamp is not None
    with BrokerThread(tmp_path) as broker:
        assert broker.look(lambda s: s.broker.queue("second", "q").gate.depth_messages) == 3


def test_folders_that_only_look_like_what_is_deleted_stay(tmp_path: Path) -> None:
    """A virtual host may have any name."""
    with BrokerThread(tmp_path) as broker:
        for name in (f"a.journal{DELETED}", "b.journal.new", "temp"):
            broker.do(lambda s, n=name: s.broker.create_virtualhost(n))
            make_durable(broker, "q", virtualhost=name)
        send(broker, "temp", "x")
    with open_folder(tmp_path) as (config, stores, found), closing(config):
        assert len(stores) == 4
        assert found == []
    with BrokerThread(tmp_path) as broker:
        assert len(broker.look(lambda s: set(s.broker.virtualhosts))) == 4
