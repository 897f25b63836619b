"""The power is cut while `manage.py store` converts stores of the release before, adopts stores or sets them aside: no
message is lost, and the same command goes on where it was."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message

from brokers.server.journal import renumbering
from brokers.server.journal.journal_store import JournalStore
from brokers.server.lineage import Lineage
from brokers.server.opening import open_folder
from brokers.server.store_adoption import adopt
from brokers.server.store_command import examine
from brokers.server.store_folder import store_files
from brokers.server.store_identity import CONFIG, FOLDER, read_store
from brokers.server.store_set_aside import set_aside
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.faults.disk import Disk, read_log
from tests.faults.nursery import ROOT
from tests.faults.power import compiled
from tests.faults.small_stores import SEGMENT_BYTES
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.test_store_adoption import damage_group
from tests.server.test_store_identity import make_durable

QUEUES = {"dq": 9, "second": 4}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a broker that was killed."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    with BrokerThread(folder.with_name("running"), segment_bytes=SEGMENT_BYTES) as broker:
        for name, messages in QUEUES.items():
            broker.do(lambda s, n=name: s.broker.create_queue(s.broker.virtualhost("default"), n, {}, durable=True))
            with connected(broker) as connection:
                sender = connection.create_sender(name)
                for number in range(messages):
                    sender.send(Message(body=f"{name} {number}", durable=True))
        broker.look(lambda s: shutil.copytree(folder.with_name("running"), folder))
    return folder


def cuts(library: Path, root: Path, *command: str) -> Iterator[tuple[str, Path]]:
    """What is on the disk after a cut at each operation of the command, and between which it was."""
    disk, log = Disk.of(root), root.with_name("file.log")
    watched = {"LD_PRELOAD": str(library), "FILE_LOG_ROOT": str(root), "FILE_LOG": str(log)}
    arguments = [sys.executable, "-m", "tests.faults.small_stores", *command, "--data", str(root / "data")]
    subprocess.run(arguments, cwd=ROOT, env=os.environ | watched, capture_output=True, text=True, check=True)
    chance = random.Random(1)
    for number, operation in enumerate([None, *read_log(log)]):
        if operation is not None:
            disk.apply(operation)
        survives = chance.choice((0.0, 0.0, 0.2, 0.5, 0.8, 1.0))
        folder = root.with_name("cut")
        folder.mkdir()
        disk.cut(folder, chance, survives)
        what = f"{operation.kind} {operation.path} {operation.data[-60:]!r}" if operation else "nothing"
        yield f"cut {number} after {what}, {survives:g} of the rest survives", folder / "data"
        shutil.rmtree(folder)


def queues(data: Path) -> dict[str | None, int]:
    """Messages by the names of their queues, None for those without one."""
    found = examine(data, quick=False)
    assert not found["damage"], found["damage"]
    return {queue["name"]: queue["messages"] for store in found["stores"] for queue in store["queues"]}


@pytest.fixture
def root(killed: Path, tmp_path: Path) -> Path:
    shutil.copytree(killed, tmp_path / "root" / "data")
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renumbering, "SEGMENT_BYTES", SEGMENT_BYTES)
    monkeypatch.setitem(JournalStore.__init__.__kwdefaults__, "segment_bytes", SEGMENT_BYTES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("of", ["no broker", "another broker"])
def test_no_message_is_lost_when_the_power_is_cut_during_an_adoption(
    library: Path, root: Path, tmp_path: Path, of: str
) -> None:
    """Stores of another broker are written again, with other numbers of their queues."""
    (root / "data" / CONFIG).unlink()
    (root / "data" / f"{CONFIG}-wal").unlink()
    if of == "another broker":
        with BrokerThread(tmp_path / "other", segment_bytes=SEGMENT_BYTES) as broker:
            make_durable(broker, "orders")
        shutil.copy(tmp_path / "other" / CONFIG, root / "data" / CONFIG)
    moments = set()
    for moment, data in cuts(library, root, "adopt"):
        together = examine(data, quick=True)["belongs_together"]
        if together:
            assert queues(data) == QUEUES, f"{moment}: the broker would start"
        adopt(data)
        assert queues(data) == QUEUES, moment
        assert examine(data, quick=True)["belongs_together"], moment
        moments.add(together)
    assert moments == {False, True}


@pytest.mark.timeout(600)
def test_no_file_of_a_damaged_journal_is_lost_when_the_power_is_cut_during_its_adoption(
    library: Path, root: Path, tmp_path: Path
) -> None:
    """It is written again, with other numbers of its queues."""
    data = root / "data"
    [journal] = store_files(data / FOLDER)
    damage_group(journal, b"dq 4")
    damaged = {file.name: file.read_bytes() for file in journal.glob("*.segment")}
    with BrokerThread(tmp_path / "other", segment_bytes=SEGMENT_BYTES) as broker:
        make_durable(broker, "orders")
    (data / f"{CONFIG}-wal").unlink()
    shutil.copy(tmp_path / "other" / CONFIG, data / CONFIG)
    moments = set()
    for moment, cut in cuts(library, root, "adopt"):
        for _ in range(2):  # after the cut, and after what it has interrupted was done
            folders = [cut / FOLDER / journal.name, *(cut / FOLDER).glob(f"{journal.name}[.-]*")]
            whole = [
                folder
                for folder in folders
                if folder.is_dir() and all(_content(folder / name) == content for name, content in damaged.items())
            ]
            assert whole, moment
            adopt(cut)
        assert all("-damaged-" in folder.name for folder in whole), moment
        assert queues(cut) == QUEUES | {"dq": QUEUES["dq"] - 1}, moment
        assert examine(cut, quick=True)["belongs_together"], moment
        moments.add(len(whole))
    assert 1 in moments


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


@pytest.mark.timeout(600)
def test_no_message_is_lost_when_the_power_is_cut_while_stores_are_set_aside(library: Path, root: Path) -> None:
    there = set()
    for moment, data in cuts(library, root, "set-aside"):
        found = examine(data, quick=True)
        aside = [read_store(path).messages for path in sorted(data.glob(f"{FOLDER}-set-aside-*/*-*.journal"))]
        here = [read_store(path).messages for path in store_files(data / FOLDER)]
        assert sum(QUEUES.values()) in (*aside, *here), f"{moment}: {here} are there and {aside} set aside"
        if found["belongs_together"]:
            assert here in ([], [sum(QUEUES.values())]), f"{moment}: the broker would start"
        set_aside(data)
        assert examine(data, quick=True)["belongs_together"], moment
        aside = [read_store(path).messages for path in data.glob(f"{FOLDER}-set-aside-*/*-*.journal")]
        assert not store_files(data / FOLDER), moment
        assert sum(QUEUES.values()) in aside, moment
        there.add(found["belongs_together"])
    assert there == {False, True}


@pytest.mark.timeout(600)
def test_no_message_is_lost_when_the_power_is_cut_during_a_conversion(library: Path, root: Path) -> None:
    """The broker starts after each cut: with the file of the release before or with its journal, never without."""
    data = root / "data"
    with open_folder(data) as (config, stores, _), closing(config):  # the journal gets the configuration's start
        Lineage(config, stores)
    as_of_the_release_before(data)
    kinds = set()
    for moment, cut in cuts(library, root, "convert"):
        found = examine(cut, quick=False)
        kinds.add(Path(found["stores"][0]["file"]).suffix)
        assert queues(cut) == QUEUES, moment
        with open_folder(cut) as (config, stores, findings), closing(config):
            assert findings == [], moment
            Lineage(config, stores)
        assert queues(cut) == QUEUES, moment
        assert [path.suffix for path in store_files(cut / FOLDER)] == [".journal"]
    assert kinds == {".sqlite3", ".journal"}


def test_earlier_store_is_copied_where_a_file_can_have_one_name_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    data = root / "data"
    as_of_the_release_before(data)
    before = {path.name: path.read_bytes() for path in (data / FOLDER).glob("*-*.sqlite3*")}
    monkeypatch.setattr("os.link", refuse)
    set_aside(data)
    aside = {path.name: path.read_bytes() for path in data.glob(f"{FOLDER}-set-aside-*/*")}
    assert aside == before
    assert not store_files(data / FOLDER)
