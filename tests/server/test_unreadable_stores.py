"""A store of which nothing can be read is refused by its name, at every start, and the commands that read it say so;
none of its files is changed."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.engine.management.resources.queue import QueueResource
from brokers.server.journal import journal_store, segment_file
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import COPIES
from brokers.server.journal.stamp_file import NAME as STAMP
from brokers.server.journal.stamp_file import read_stamp
from brokers.server.sqlite_file import DiskFull
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of
from brokers.server.store_survey import FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_store.test_conversion import files
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.journal.journals import BadSectors
from tests.server.test_store_identity import STORE, contents, data, make_durable, names, receive, refused, send

__all__ = ["data"]  # a fixture


def segments(data: Path) -> list[Path]:
    return sorted((data / FOLDER / STORE).glob("*.segment"))


def garbage(data: Path) -> None:
    for file in segments(data):
        file.write_bytes(random.Random(file.name).randbytes(file.stat().st_size))


def zeros(data: Path) -> None:
    for file in segments(data):
        file.write_bytes(bytes(file.stat().st_size))


def cut_off(data: Path) -> None:
    for file in segments(data):
        os.truncate(file, 0)


def headers(data: Path) -> None:
    for file in segments(data):
        content = bytearray(file.read_bytes())
        content[:16], content[4096:4112] = b"x" * 16, b"x" * 16
        file.write_bytes(content)


def stamp(data: Path) -> None:
    (data / FOLDER / STORE / STAMP).write_bytes(b"x" * 300)


def earlier(data: Path) -> None:
    as_of_the_release_before(data)
    path = earlier_of(data / FOLDER / STORE)
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def earlier_without_schema(data: Path) -> None:
    as_of_the_release_before(data)
    path = earlier_of(data / FOLDER / STORE)
    content = path.read_bytes()
    path.write_bytes(content[:100] + random.Random(1).randbytes(len(content) - 100))


@pytest.mark.parametrize(
    "damage", [garbage, zeros, cut_off, headers, stamp, earlier, earlier_without_schema], ids=lambda each: each.__name__
)
def test_store_of_which_nothing_can_be_read_is_refused_by_its_name(
    data: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    damage(data)
    name = STORE if damage.__name__[:7] != "earlier" else earlier_of(Path(STORE)).name
    path = data / FOLDER / name
    before = files(data)
    for _ in range(2):
        assert str(path) in refused(data)
    for command in ("check", "dump", "convert", "adopt"):
        capsys.readouterr()
        assert main([command, "--data", str(data)]) == 1
        said = capsys.readouterr()
        assert str(path) in (said.out if command == "check" else said.err), command
    assert files(data) == before
    assert main(["set-aside", "--data", str(data), "--store", name]) == 0
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 0
        send(broker, "dq", "new")


@pytest.mark.parametrize("damage", [zeros, cut_off, garbage, headers], ids=lambda each: each.__name__)
def test_store_of_a_broker_that_was_killed_in_its_first_run_is_refused_if_nothing_is_left_of_it(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Its files look as if they had never been used, but the stamp knows that there was a segment."""
    with BrokerThread(tmp_path / "data") as broker:
        make_durable(broker, "dq")
        killed = [shutil.copytree(broker.data, tmp_path / "unused", ignore=shutil.ignore_patterns("*-shm"))]
        send(broker, "dq", "confirmed")
        killed.append(shutil.copytree(broker.data, tmp_path / "killed", ignore=shutil.ignore_patterns("*-shm")))
    with BrokerThread(killed[0]) as broker:
        assert broker.depth("dq") == 0
    damage(killed[1])
    for _ in range(2):
        assert f"{killed[1] / FOLDER / STORE} has lost its segments" in refused(killed[1])


def test_stamp_that_could_not_be_written_at_the_first_message_is_written_at_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages are stored all the same."""

    def full(path: Path, *_: Any) -> None:
        raise DiskFull(f"cannot write {path}")

    with BrokerThread(tmp_path) as broker:
        make_durable(broker, "dq")
        with monkeypatch.context() as patch:
            patch.setattr(journal_store, "write_stamp", full)
            send(broker, "dq", "one")
            assert read_stamp(tmp_path / FOLDER / STORE)[1] == 0
        send(broker, "dq", "two")
        assert read_stamp(tmp_path / FOLDER / STORE)[1] == 1
        assert receive(broker, "dq") == ["one", "two"]


def test_journal_whose_disk_cannot_be_read_is_refused_by_its_name_until_it_can(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(data / FOLDER)
    pread = os.pread

    def failing(descriptor: int, *given: Any) -> bytes:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".segment"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, *given)

    with monkeypatch.context() as patch:
        patch.setattr(segment_file.os, "pread", failing)
        for _ in range(2):
            assert str(data / FOLDER / STORE) in refused(data)
    assert contents(data / FOLDER) == before
    with BrokerThread(data) as broker:
        assert broker.depth("dq") == 30


def test_messages_that_can_be_read_again_are_there_with_all_that_arrived_meanwhile(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the new ones would take their numbers, and their places."""
    with BrokerThread(data) as broker:
        send(broker, "dq", *names("later", 5))
        send(broker, "second", *names("later", 5))
    bad = BadSectors(monkeypatch)
    newest = max(recover(data / FOLDER / STORE).headers.items())[1][0].path
    for turn in range(2):
        bad.pages = {(newest.name, at) for at in COPIES}
        with BrokerThread(data) as broker:
            assert broker.depth("dq") == 30 + 10 * turn
            send(broker, "dq", *names(f"meanwhile {turn} ", 10))
            send(broker, "second", *names(f"meanwhile {turn} ", 10))
            assert broker.look(lambda s: s.broker.virtualhost("default").left_out) == turn + 1
    bad.pages.clear()
    meanwhile = [*names("meanwhile 0 ", 10), *names("meanwhile 1 ", 10)]
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == [*names("m", 30), *names("later", 5), *meanwhile]
    with BrokerThread(data) as broker:
        assert receive(broker, "second") == [*names("s", 10), *names("later", 5), *meanwhile]
        assert broker.look(lambda s: s.broker.virtualhost("default").left_out) == 2 + 1, "it was named once more"


def test_numbers_that_are_left_out_count_as_no_messages(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", "later")
    bad = BadSectors(monkeypatch)
    newest = max(recover(data / FOLDER / STORE).headers.items())[1][0].path
    bad.pages = {(newest.name, at) for at in COPIES}
    with BrokerThread(data) as broker:
        send(broker, "dq", "new")
        read = QueueResource(broker.service.broker).readers
        queue = broker.look(lambda s: s.broker.virtualhost("default").queues["dq"])
        assert broker.look(lambda s: read["enqueued_messages"](queue)) == 1
        assert broker.look(lambda s: (s.broker.sample(), queue.rate_in)[1]) < 1000


def test_unreadable_store_of_one_virtual_host_is_named_and_not_the_others(data: Path) -> None:
    with BrokerThread(data) as broker:
        broker.do(lambda s: s.broker.create_virtualhost("other"))
        make_durable(broker, "q", virtualhost="other")
    garbage(data)
    text = refused(data)
    assert str(data / FOLDER / STORE) in text
    assert "other-" not in text
