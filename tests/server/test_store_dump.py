"""`headgate store dump` and `check` of journals: every message in its order with all that is known of it, and damage is
named and changes the exit code."""

from __future__ import annotations

import json
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.engine.values.message import DELAYED, number_of
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.segment_file import PAGE
from brokers.server.journal.stamp_file import Stamp
from brokers.server.store_command import main
from brokers.server.store_folder import file_name
from brokers.server.store_survey import CONFIG, FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.server.journal.journals import BadSectors
from tests.server.test_bit_rot import flip_in
from tests.server.test_store_adoption import damage_group
from tests.server.test_store_identity import contents, make_durable, send

NAME = file_name("default")


def body_of(queue: int, number: int) -> bytes:
    return b"%d-%d," % (queue, number) * (1 + number % 40)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Without a configuration: the store knows the names of its queues."""
    with closing(JournalStore(tmp_path / FOLDER / NAME, segment_bytes=64 << 10)) as store:
        store.set_stamp(Stamp("me", "default", 1, 2))
        store.name_queue(1, "orders ü")
        store.name_queue(2, "other")
        for first in (1, 101, 201):
            store.put_run(1, first, [body_of(1, n) for n in range(first, first + 100)], 1)
            store.write(store.take())
        store.put(1, 301, b"expires", 77)
        store.put(1, 302, b"later", DELAYED)
        store.put(1, 303, b"later, and expires", 78 | DELAYED)
        store.put(1, number_of(304, 9), b"urgent")
        store.put(1, number_of(305, 0), b"when there is time")
        store.write(store.take())
        store.fail(1, 7, 3)
        store.remove(1, 8)
        store.put_run(2, 1, [body_of(2, n) for n in range(1, 6)], 1)
        store.write(store.take())
    return tmp_path


def dump(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, Any]], list[str]]:
    capsys.readouterr()
    code = main(["dump", "--data", str(data), *options])
    said = capsys.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines()], said.err.splitlines()


def test_dump_has_every_message_of_a_queue_in_its_order(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(data / FOLDER)
    code, lines, errors = dump(data, capsys, "--queue", "orders ü", "--bodies")
    assert (code, errors) == (0, [])
    wanted = {n: body_of(1, n) for n in range(1, 301) if n != 8}
    wanted |= {301: b"expires", 302: b"later", 303: b"later, and expires"}
    wanted |= {number_of(304, 9): b"urgent", number_of(305, 0): b"when there is time"}
    assert {line["number"]: b64decode(line["body"]) for line in lines} == wanted
    assert [line["number"] for line in lines] == sorted(wanted)
    assert all(line["size"] == len(b64decode(line["body"])) for line in lines)
    assert {(line["virtualhost"], line["queue"], line["queue_number"]) for line in lines} == {
        ("default", "orders ü", 1)
    }
    assert [(line["sequence"], line["priority"]) for line in lines] == [
        (304, 9),
        *((n, 4) for n in range(1, 304) if n != 8),
        (305, 0),
    ]
    assert {line["sequence"]: line["failed_deliveries"] for line in lines if line["failed_deliveries"]} == {7: 3}
    special = {
        line["sequence"]: (line["expires"], line["delayed"]) for line in lines if line["expires"] or line["delayed"]
    }
    assert special == {301: (77, False), 302: (None, True), 303: (78, True)}
    assert contents(data / FOLDER) == before


def test_dump_of_one_queue_has_none_of_another_and_of_no_queue_none(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = dump(data, capsys, "--queue", "other")
    assert (code, [line["number"] for line in lines]) == (0, [1, 2, 3, 4, 5])
    assert "body" not in lines[0]
    assert dump(data, capsys, "--queue", "ord") == (0, [], [])
    code, lines, _ = dump(data, capsys)
    assert (code, len(lines)) == (0, 309)
    assert [line["queue_number"] for line in lines] == sorted(line["queue_number"] for line in lines)


def test_dump_takes_the_names_of_the_configuration_where_it_has_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker, "dq", "second")
        send(broker, "dq", "a", "b")
        send(broker, "second", "c")
    code, lines, _ = dump(tmp_path, capsys, "--queue", "dq")
    assert (code, [line["queue"] for line in lines]) == (0, ["dq", "dq"])
    (tmp_path / CONFIG).unlink()
    assert dump(tmp_path, capsys, "--queue", "dq")[1] == lines


def test_dump_names_damaged_bodies_and_ends_with_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip_in(data / FOLDER / NAME, body_of(2, 4))
    flip_in(data / FOLDER / NAME, b"urgent")
    code, lines, errors = dump(data, capsys)
    assert (code, len(lines), errors) == (0, 309, []), "no body is read"
    code, lines, errors = dump(data, capsys, "--bodies")
    assert (code, len(lines)) == (1, 309)
    what = f"store: {data / FOLDER / NAME}: message"
    assert errors == [
        f"{what} {number_of(304, 9)} of queue number 1 is not as it was written",
        f"{what} 4 of queue number 2 is not as it was written",
    ]
    assert [(line["queue_number"], line["sequence"]) for line in lines if line["body"] is None] == [(1, 304), (2, 4)]
    assert dump(data, capsys, "--bodies", "--queue", "other")[::2] == (1, errors[1:])


def test_dump_names_groups_that_cannot_be_read_and_ends_with_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage_group(data / FOLDER / NAME, body_of(1, 110))
    code, lines, errors = dump(data, capsys)
    assert code == 1
    assert len(lines) == 209
    [error] = errors
    assert "is damaged between the groups" in error
    assert "messages may be lost, and removed ones be back" in error


def test_dump_of_a_journal_that_cannot_be_read_ends_with_1_and_its_name(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (data / FOLDER / NAME).glob("*.segment"):
        file.unlink()
    assert dump(data, capsys) == (1, [], [f"store: {data / FOLDER / NAME} has lost its segments"])


def test_dump_names_what_cannot_be_read_and_goes_on_with_the_next_store(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("another", "zz last"):
        with closing(JournalStore(data / FOLDER / file_name(name), segment_bytes=64 << 10)) as store:
            store.set_stamp(Stamp("me", name, 1, 3))
            store.put(3, 1, b"text")
            store.write(store.take())
    for file in (data / FOLDER / NAME).glob("*.segment"):
        file.unlink()
    code, lines, errors = dump(data, capsys)
    assert (code, errors) == (1, [f"store: {data / FOLDER / NAME} has lost its segments"])
    assert [line["virtualhost"] for line in lines] == ["another", "zz last"]


def test_dump_without_a_configuration_that_can_be_read_has_the_names_of_the_stores(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dump(data, capsys)[1]
    (data / CONFIG).write_bytes(b"no database" * 1000)
    code, lines, errors = dump(data, capsys)
    assert (code, lines) == (1, before)
    [error] = errors
    assert error.startswith(f"store: {data / CONFIG} is damaged")


def test_dump_names_sectors_that_the_disk_cannot_read(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [(file, at)] = [
        (file, content.index(body_of(2, 4)))
        for file in (data / FOLDER / NAME).glob("*.segment")
        if body_of(2, 4) in (content := file.read_bytes())
    ]
    bad = BadSectors(monkeypatch)
    bad.pages = {(file.name, at - at % PAGE)}
    code, lines, errors = dump(data, capsys, "--bodies")
    assert (code, len(lines)) == (1, 309)
    assert f"store: {data / FOLDER / NAME}: message 4 of queue number 2 is not as it was written" in errors
    assert f"store: the disk cannot read byte {at - at % PAGE:,} of {file}" in errors


def check(data: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["check", "--data", str(data), "--json", *options])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker, "dq", "second")
        send(broker, "dq", *(f"text {number}" for number in range(10)))
        send(broker, "second", "last")
    return tmp_path


def test_check_names_damaged_bodies_of_journals_and_ends_with_1(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(stopped, capsys)[0] == 0
    flip_in(stopped / FOLDER / NAME, b"text 6")
    flip_in(stopped / FOLDER / NAME, b"last")
    before = contents(stopped / FOLDER)
    code, found = check(stopped, capsys)
    what = f"{stopped / FOLDER / NAME}: message"
    assert (code, found["belongs_together"]) == (1, True)
    assert found["damage"] == [
        f"{what} 7 of queue number 1 is not as it was written",
        f"{what} 1 of queue number 2 is not as it was written",
    ]
    assert found["stores"][0]["messages"] == 11
    assert check(stopped, capsys, "--quick")[0] == 0, "no body is read"
    assert main(["check", "--data", str(stopped)]) == 1
    assert f"Damage: {what} 7 of queue number 1 is not as it was written" in capsys.readouterr().out
    assert contents(stopped / FOLDER) == before


@pytest.mark.parametrize("options", [(), ("--quick",)])
def test_check_names_groups_of_journals_that_cannot_be_read(
    stopped: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    damage_group(stopped / FOLDER / NAME, b"text 6")
    code, found = check(stopped, capsys, *options)
    assert (code, found["belongs_together"]) == (1, True)
    [line] = found["damage"]
    assert line.startswith(f"{stopped / FOLDER / NAME}/")
    assert "is damaged between the groups" in line
