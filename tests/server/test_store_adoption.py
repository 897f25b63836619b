"""Damaged stores are adopted with what can be read of them: damage is reported, and nothing is deleted."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from proton import Message

from brokers.server.journal import renumbering
from brokers.server.journal.reading import damaged_messages
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import PAGE
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of
from brokers.server.store_survey import CONFIG, FOLDER, read_store
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.server.earlier_writer.folders import RESERVE, as_of_the_release_before
from tests.server.earlier_writer.message_store import MessageStore
from tests.server.journal.journals import BadSectors
from tests.server.test_bit_rot import flip_in
from tests.server.test_store_identity import (
    STORE,
    contents,
    data,
    make_durable,
    names,
    receive,
    refused,
    send,
    snapshots,
)

__all__ = ["data", "snapshots"]  # fixtures


def damage_group(journal: Path, body: bytes) -> None:
    """Make the group with this body unreadable, as if it were singly read: not in a listing."""
    for file, header in recover(journal).headers.values():
        content = bytearray(file.path.read_bytes())
        if body in content:
            head = content.rindex(header.salt[:4], 0, content.index(body))
            content[head + 4 : head + 8] = bytes(each ^ 255 for each in content[head + 4 : head + 8])
            content[-8:] = bytes(8)  # the end of the listing, if there is one
            file.path.write_bytes(content)
            return
    raise AssertionError(f"{body!r} is not in {journal}")


def inode(file: Path) -> int:
    return file.stat().st_ino


def all_but(number: int) -> list[str]:
    return [name for name in names("m", 30) if name != f"m{number}"]


@pytest.fixture
def damaged(data: Path) -> Path:
    """A group of one message cannot be read, and so a removal may be missing."""
    damage_group(data / FOLDER / STORE, b"m17")
    assert len(read_store(data / FOLDER / STORE).damage) == 1
    return data


def of_another(data: Path) -> None:
    """Give the stores the configuration of another broker."""
    other = data.with_name("other")
    if not other.exists():
        with BrokerThread(other) as broker:
            make_durable(broker, "orders")
    shutil.copy(other / CONFIG, data / CONFIG)


def test_damaged_journal_is_adopted_and_its_damage_is_reported(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (damaged / CONFIG).unlink()
    segments = {path: content for path, content in contents(damaged / FOLDER / STORE).items() if path.suffix != ".json"}
    assert main(["adopt", "--data", str(damaged)]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{damaged / FOLDER / STORE}/")
    assert "is damaged between the groups" in first
    assert "messages may be lost, and removed ones be back" in first
    assert "queue dq was created for the 29 messages" in " ".join(others)
    after = contents(damaged / FOLDER / STORE)
    assert {path: after[path] for path in segments} == segments, "its files stay as they are"
    with BrokerThread(damaged) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        assert receive(broker, "dq") == all_but(17)
        assert receive(broker, "second") == names("s", 10)


def test_damaged_journal_of_another_broker_is_preserved_when_it_is_written_again(damaged: Path) -> None:
    of_another(damaged)
    refused(damaged)
    before = {path: content for path, content in contents(damaged / FOLDER / STORE).items() if path.name != "lock"}
    said = adopt(damaged)
    [copy] = (damaged / FOLDER).glob(f"{STORE}-damaged-*")
    assert said[1] == f"the damaged files of {damaged / FOLDER / STORE} are preserved in {copy}"
    with BrokerThread(damaged) as broker:
        assert receive(broker, "dq") == all_but(17)
    assert contents(copy) == before


def test_adoption_of_a_damaged_journal_that_is_killed_at_any_write_has_lost_none_of_its_files(
    damaged: Path, snapshots: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renumbering, "SEGMENT_BYTES", 64 << 10)
    of_another(damaged)
    before = {path: content for path, content in contents(damaged / FOLDER / STORE).items() if path.suffix != ".json"}
    del before[Path("lock")]
    snapshots.clear()
    adopt(damaged)
    assert len(snapshots) > 8
    for killed in [*snapshots, damaged]:
        adopt(killed)
        copies = list((killed / FOLDER).glob(f"{STORE}-damaged-*"))
        assert copies
        assert all(contents(copy).items() >= before.items() for copy in copies)
        with BrokerThread(killed) as broker:
            assert (broker.depth("dq"), broker.depth("second")) == (29, 10)


def test_damaged_body_costs_no_other_message_when_its_journal_is_written_again(data: Path) -> None:
    """All messages are in one group of the new one."""
    flip_in(data / FOLDER / STORE, b"m17")
    of_another(data)
    adopt(data)
    found = read_store(data / FOLDER / STORE)
    assert (found.damage, found.messages) == ([], 40)
    assert len(list(damaged_messages(found.path))) == 1
    with BrokerThread(data) as broker, connected(broker) as connection:
        receiver = connection.create_receiver("dq", credit=30)
        assert [receiver.receive(timeout=5).body for _ in range(29)] == all_but(17)
        assert receive(broker, "second") == names("s", 10)


def test_body_that_the_disk_cannot_read_is_named_and_costs_no_other_message(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is preserved: the disk may read it again."""
    with BrokerThread(data) as broker:
        send(broker, "dq", "x" * 20_000, "last")
    index = recover(data / FOLDER / STORE).index
    run = index.run_with(1, 31)
    assert run is not None
    of_another(data)
    bad = BadSectors(monkeypatch)
    bad.pages = {(run.segment.file.path.name, run.at - run.at % PAGE + 2 * PAGE)}
    before = {file: inode(file) for file in (data / FOLDER / STORE).glob("*.segment")}
    said = adopt(data)
    [copy] = (data / FOLDER).glob(f"{STORE}-damaged-*")
    path = data / FOLDER / STORE
    assert said[:2] == [
        f"the disk cannot read {path}: message 31 of queue number 1 has no body that could be delivered",
        f"the damaged files of {data / FOLDER / STORE} are preserved in {copy}",
    ]
    assert {file.name: inode(file) for file in copy.glob("*.segment")} == {f.name: at for f, at in before.items()}
    bad.pages.clear()
    assert len(list(damaged_messages(data / FOLDER / STORE))) == 1
    assert list(damaged_messages(copy)) == [], "it is there"
    with BrokerThread(data) as broker, connected(broker) as connection:
        receiver = connection.create_receiver("dq", credit=40)
        assert [receiver.receive(timeout=20).body for _ in range(31)] == [*names("m", 30), "last"]
        assert receive(broker, "second") == names("s", 10)


def test_journal_that_cannot_be_read_at_all_is_refused_with_the_command_that_moves_it_away(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (data / FOLDER / STORE).glob("*.segment"):
        file.unlink()
    (data / CONFIG).unlink()
    before = contents(data)
    assert main(["adopt", "--data", str(data)]) == 1
    text = capsys.readouterr().err
    assert f"{data / FOLDER / STORE} has lost its segments: nothing was adopted" in text
    assert f"`headgate store set-aside --data {data} --store {STORE}`" in text
    assert contents(data) == before
    assert main(["set-aside", "--data", str(data), "--store", STORE]) == 0
    with BrokerThread(data) as broker:
        make_durable(broker, "dq")


def test_damage_of_a_store_of_the_release_before_is_reported_by_the_adoption(data: Path) -> None:
    as_of_the_release_before(data)
    (data / CONFIG).unlink()
    path = earlier_of(data / FOLDER / STORE)
    content = path.read_bytes()
    at = content.index(b"m17")
    path.write_bytes(content[:at] + b"M" + content[at + 1 :])
    said = adopt(data)
    assert said[0].startswith(f"{path} was damaged")
    assert "18 of queue number 1" in said[0]
    with BrokerThread(data) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        assert receive(broker, "dq") == all_but(17)
    assert list((data / FOLDER).glob("*-damaged-*"))


def test_flipped_byte_in_the_log_of_a_store_of_the_release_before_costs_no_message(data: Path) -> None:
    """It would be the end of the log for SQLite."""
    as_of_the_release_before(data)
    (data / CONFIG).unlink()
    path = earlier_of(data / FOLDER / STORE)
    log = path.with_name(f"{path.name}-wal")
    with closing(MessageStore(path, reserve_bytes=RESERVE)) as store:
        for number in range(31, 34):
            store.put(1, number, bytes(Message(body=f"m{number - 1}", durable=True).encode()))
            assert store.write(store.take()).fault is None
        killed = {file: bytearray(file.read_bytes()) for file in (path, log)}
    killed[log][32 + 24 + 100] ^= 1
    for file, content in killed.items():
        file.write_bytes(content)
    said = adopt(data)
    assert said[0].startswith(f"{log} was damaged at byte")
    with BrokerThread(data) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        assert receive(broker, "dq") == names("m", 33)
