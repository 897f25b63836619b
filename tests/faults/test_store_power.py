"""The power is cut while `manage.py store` adopts stores or sets them aside: no message is lost, and the same command
goes on where it was."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from brokers.server.store_adoption import adopt, set_aside
from brokers.server.store_command import examine
from brokers.server.store_identity import CONFIG, FOLDER, read_store, store_files
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.faults.disk import Disk, read_log
from tests.faults.nursery import ROOT
from tests.faults.power import compiled

QUEUES = {"dq": 9, "second": 4}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a broker that was killed: its messages are in the stores' logs."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    with BrokerThread(folder.with_name("running")) as broker:
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
    arguments = [sys.executable, "manage.py", "store", *command, "--data", str(root / "data"), "--json"]
    done = subprocess.run(arguments, cwd=ROOT, env=os.environ | watched, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["done"]
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


@pytest.mark.timeout(600)
def test_no_message_is_lost_when_the_power_is_cut_during_an_adoption(
    library: Path, killed: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(killed, root / "data")
    (root / "data" / CONFIG).unlink()
    (root / "data" / f"{CONFIG}-wal").unlink()
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
def test_no_message_is_lost_when_the_power_is_cut_while_stores_are_set_aside(
    library: Path, killed: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(killed, root / "data")
    there = set()
    for moment, data in cuts(library, root, "set-aside"):
        found = examine(data, quick=True)
        aside = [read_store(path).messages for path in sorted(data.glob(f"{FOLDER}-set-aside-*/*-*.sqlite3"))]
        here = [read_store(path).messages for path in store_files(data / FOLDER)]
        assert sum(QUEUES.values()) in (*aside, *here), f"{moment}: {here} are there and {aside} set aside"
        if found["belongs_together"]:
            assert here in ([], [sum(QUEUES.values())]), f"{moment}: the broker would start"
        set_aside(data)
        assert examine(data, quick=True)["belongs_together"], moment
        aside = [read_store(path).messages for path in data.glob(f"{FOLDER}-set-aside-*/*-*.sqlite3")]
        assert not store_files(data / FOLDER), moment
        assert sum(QUEUES.values()) in aside, moment
        there.add(found["belongs_together"])
    assert there == {False, True}


def test_a_store_is_copied_where_a_file_can_have_one_name_only(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*names: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    data = tmp_path / "data"
    shutil.copytree(killed, data)
    before = {path.name: path.read_bytes() for path in (data / FOLDER).glob("*-*.sqlite3*")}
    monkeypatch.setattr("os.link", refuse)
    set_aside(data)
    aside = {path.name: path.read_bytes() for path in data.glob(f"{FOLDER}-set-aside-*/*")}
    assert aside == {name: content for name, content in before.items() if not name.endswith("-reserve")}
    assert not store_files(data / FOLDER)
