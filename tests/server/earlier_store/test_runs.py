"""Runs of messages in the stores of the release before: what is read of them, also after flipped bits, and damaged
pages."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.engine.values.message import DELAYED, number_of
from brokers.server.checksums import place_mark
from brokers.server.earlier_store import salvage, tables
from brokers.server.earlier_store.reader import MessageReader
from brokers.server.earlier_store.runs import SELECT_RUN, read_or_mend
from brokers.server.earlier_store.salvage import mend_store
from brokers.server.earlier_store.verification import verify
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import StoreError, reading
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of, file_name
from brokers.server.store_survey import FOLDER, read_store
from tests.server.earlier_writer.message_groups import Written
from tests.server.earlier_writer.message_store import MessageStore

RESERVE = 1 << 20

Bodies = dict[tuple[int, int], bytes]


def write(store: MessageStore) -> Written:
    return store.write(store.take())


def write_all(store: MessageStore) -> None:
    while store.pending:
        written = write(store)
        assert (written.fault, written.removed) == (None, True)


def body_of(queue: int, number: int, size: int = 300) -> bytes:
    return random.Random(f"{queue} {number}").randbytes(random.Random(number).randrange(size))


def put(store: MessageStore, queue: int, numbers: range, size: int = 300) -> None:
    bodies = [body_of(queue, number, size) for number in numbers]
    store.put_run(queue, numbers.start, bodies, sum(map(len, bodies)))


def found(store: MessageStore | MessageReader) -> Bodies:
    """All messages, as a broker that starts finds them."""
    places = [row[:2] for row in store.recover()]
    bodies: Bodies = {}
    for queue in {queue for queue, _ in places}:
        loaded = store.load(queue, [number for each, number in places if each == queue])
        bodies.update({(queue, number): body for number, body in (loaded or {}).items()})
    return bodies


def expected(queue: int, numbers: range | list[int], size: int = 300) -> Bodies:
    return {(queue, number): body_of(queue, number, size) for number in numbers}


def rows(store: MessageStore, table: str) -> int:
    count: int = store._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages-12345678.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    store = MessageStore(path, reserve_bytes=RESERVE)
    yield store
    store.close()


@pytest.mark.parametrize("more", [1, 20])
def test_numbers_that_are_assigned_again_after_a_restart_are_other_messages(store: MessageStore, more: int) -> None:
    """A start counts on from the last message that is there: messages removed behind it were part of its run."""
    put(store, 1, range(1, 21))
    store.remove_run(1, [5, 18, 19, 20])
    write(store)
    new = [b"new %d" % number for number in range(18, 18 + more)]
    store.put_run(1, 18, new, sum(map(len, new)))
    store.fail(1, 18, 2)
    write(store)
    old = expected(1, [n for n in range(1, 18) if n != 5])
    assert found(store) == old | {(1, 18 + at): body for at, body in enumerate(new)}
    assert [entry[1] for entry in store.recover()] == [*range(1, 5), *range(6, 18 + more)]
    assert [entry[3] for entry in store.recover() if entry[1] == 18] == [2]
    store.remove_run(1, [17, *range(18, 18 + more)])
    write(store)
    assert found(store) == expected(1, [n for n in range(1, 17) if n != 5])
    store.remove_run(1, list(range(1, 17)))
    write(store)
    assert (found(store), rows(store, "run"), rows(store, "message")) == ({}, 0, 0)


def test_messages_are_in_order_where_numbers_were_assigned_again_to_a_run_and_then_singly(
    store: MessageStore, path: Path
) -> None:
    put(store, 1, range(1, 21))
    store.remove_run(1, list(range(11, 21)))
    write(store)
    put(store, 1, range(11, 15))
    write(store)
    store.put(1, 15, b"15")
    store.put(1, 17, b"17")
    write(store)
    assert rows(store, "message") == 2
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert [number for _, number, *_ in again.recover()] == [*range(1, 16), 17]


@pytest.mark.parametrize("count", [0, 68, 96, 257, -1])
def test_a_run_whose_count_was_damaged_does_not_prevent_the_start(store: MessageStore, path: Path, count: int) -> None:
    put(store, 1, range(1, 101))
    store.remove(1, 1)
    write(store)
    put(store, 2, range(1, 11))
    write(store)
    store._db.execute("UPDATE run SET count = ? WHERE queue = 1", (count,))
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert [entry for entry in again.recover() if entry[0] == 2]
        again.remove_run(1, [3, 4])
        again.remove_run(2, list(range(1, 11)))
        written = write(again)
        assert written.removed
        assert not [entry for entry in again.recover() if entry[0] == 2]


# -- damage -----------------------------------------------------------------------------------------------------------


def test_any_flipped_bit_in_the_row_of_a_run_is_repaired(store: MessageStore) -> None:
    put(store, 1, range(1, 9))
    store.fail(1, 4, 2)
    store.remove(1, 1)
    write(store)
    columns = store._db.execute(SELECT_RUN).fetchone()
    right, same = read_or_mend(columns) or (None, None)
    assert same is columns
    for at, column in enumerate(columns):
        for bit in range(8 * len(column) if isinstance(column, bytes) else 63):
            if isinstance(column, bytes):
                changed: bytes | int = bytes(b ^ (1 << bit % 8 if i == bit // 8 else 0) for i, b in enumerate(column))
            else:
                changed = column ^ 1 << bit
            assert read_or_mend((*columns[:at], changed, *columns[at + 1 :])) == (right, columns), f"{at}, bit {bit}"


def test_a_row_of_a_run_with_one_flipped_bit_is_read_as_it_was(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 101))
    write(store)
    [(parts,)] = store._db.execute("SELECT parts FROM run").fetchall()
    store._db.execute("UPDATE run SET parts = ?", (parts[:50] + bytes([parts[50] ^ 8]) + parts[51:],))
    store.close()
    assert [text for text in verify(path) if "run" in text]
    with reading(path) as db:
        assert found(MessageReader(path, db)) == expected(1, range(1, 101))


@pytest.mark.parametrize("column", ["queue", "first", "count", "size"])
def test_a_run_that_its_index_does_not_find_is_read_all_the_same(store: MessageStore, path: Path, column: str) -> None:
    put(store, 1, range(1, 51))
    write(store)
    store._db.execute(f"UPDATE run SET {column} = {column} + 256")
    store.close()
    with reading(path) as db:
        reader = MessageReader(path, db)
        assert found(reader) == expected(1, range(1, 51))
        assert reader.damaged == set()


def test_a_row_of_a_run_with_more_damage_costs_that_run(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 11))
    put(store, 2, range(1, 11))
    write(store)
    store._db.execute("UPDATE run SET parts = zeroblob(length(parts)) WHERE queue = 1")
    store.close()
    assert len(verify(path)) == 1
    with reading(path) as db:
        reader = MessageReader(path, db)
        assert found(reader) == expected(2, range(1, 11))
        assert reader.damaged == {(1, n) for n in range(1, 11)}
        assert reader.load(1, [1, 2]) == {}


def test_a_damaged_body_in_a_run_costs_only_its_message(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 101))
    write(store)
    target = next(n for n in range(40, 60) if len(body_of(1, n)) > 50)
    [(row, bodies)] = store._db.execute("SELECT id, bodies FROM run_bodies").fetchall()
    at = bodies.index(body_of(1, target)) + 10
    store._db.execute("UPDATE run_bodies SET bodies = ?", (bodies[:at] + bytes([bodies[at] ^ 1]) + bodies[at + 1 :],))
    others = [n for n in range(1, 101) if n != target]
    assert found(store) == expected(1, others)
    assert store.damaged == {(1, target)}
    store.close()
    assert verify(path) == [f"{path}: message {target} of queue number 1 (run {row}) is not as it was written"]


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_page_costs_at_most_the_messages_of_the_runs_in_it_and_what_is_lost_is_named(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    store = MessageStore(path, reserve_bytes=RESERVE)
    for first in range(1, 401, 100):
        put(store, 1, range(first, first + 100), 1500)
        store.put(2, first, b"alone")
        write_all(store)
    store.close()
    whole = expected(1, range(1, 401), 1500) | {(2, first): b"alone" for first in range(1, 401, 100)}
    content = bytearray(path.read_bytes())
    page = chance.randrange(1, len(content) // tables.PAGE_BYTES) * tables.PAGE_BYTES
    content[page : page + tables.PAGE_BYTES] = chance.randbytes(tables.PAGE_BYTES)
    path.write_bytes(content)
    try:
        said = mend_store(path, suspect=True)
    except StoreError as error:
        refusal = str(error)
        assert str(path) in refusal
        return
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        there = found(again)
    assert there.items() <= whole.items()
    if len(there) < len(whole):
        assert said or verify(path), "nothing is lost silently"
    if said:
        assert verify(path) == []
        assert f"{len(there):,} messages were saved" in said[0]


# -- files of others --------------------------------------------------------------------------------------------------


def test_a_file_of_the_release_before_runs_is_upgraded_and_not_taken_by_that_release_again(path: Path) -> None:
    store = MessageStore(path, reserve_bytes=RESERVE)
    store.set_stamp(Stamp("me", "default", 3, 1))
    for number in range(1, 11):
        store.put(1, number, body_of(1, number), 77)
    write(store)
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.create_function("place_mark", 5, place_mark, deterministic=True)
        db.executescript("DROP TABLE run; DROP TABLE run_bodies; UPDATE schema_version SET version = 3")
        db.commit()
    for _ in range(2):
        survey = read_store(path)
        assert (survey.error, survey.damage, survey.messages) == ("", [], 10)
        assert verify(path) == []
    store = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(store):
        put(store, 1, range(11, 31))
        write(store)
        assert found(store) == expected(1, range(1, 31))
        assert store._db.execute("SELECT version FROM schema_version").fetchone() == (4,)
    survey = read_store(path)
    assert survey.queues[1].messages == 30
    assert survey.queues[1].bytes == sum(len(body_of(1, n)) for n in range(1, 31))


def test_a_dump_has_every_message_and_names_the_damaged_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = earlier_of(tmp_path / FOLDER / file_name("default"))
    store = MessageStore(file, reserve_bytes=RESERVE)
    store.set_stamp(Stamp("me", "default", 1, 2))
    store.name_queue(1, "orders")
    store.name_queue(2, "other")
    put(store, 1, range(1, 301))
    store.put(1, 301, b"expires", 77)
    store.put(1, 302, b"later", DELAYED)
    store.put(1, number_of(303, 9), b"urgent")
    store.fail(1, 7, 3)
    store.remove(1, 8)
    put(store, 2, range(1, 6))
    write_all(store)
    store.close()
    assert main(["dump", "--data", str(tmp_path), "--queue", "orders", "--bodies"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    bodies = {line["number"]: b64decode(line.pop("body")) for line in lines}
    wanted = {n: body_of(1, n) for n in range(1, 301) if n != 8}
    assert bodies == wanted | {301: b"expires", 302: b"later", number_of(303, 9): b"urgent"}
    assert {line["queue"] for line in lines} == {"orders"}
    assert [line["priority"] for line in lines] == [9] + [4] * 301
    assert [line["sequence"] for line in lines if line["failed_deliveries"] == 3] == [7]
    assert [(line["expires"], line["delayed"]) for line in lines[-2:]] == [(77, False), (None, True)]
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute(
            "UPDATE run_bodies SET bodies = zeroblob(length(bodies)) WHERE id = (SELECT max(id) FROM run_bodies)"
        )
        db.commit()
    assert main(["dump", "--data", str(tmp_path)]) == 0, "no body is read"
    assert len(capsys.readouterr().out.splitlines()) == 307
    assert main(["dump", "--data", str(tmp_path), "--bodies"]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 307
    assert "queue number 2 is not as it was written" in said.err


def test_a_flipped_bit_in_the_queue_of_a_run_is_no_store_of_another_configuration(
    store: MessageStore, path: Path
) -> None:
    put(store, 1, range(1, 51))
    store.remove(1, 2)
    write(store)
    store._db.execute("UPDATE run SET queue = queue + (1 << 20)")
    store.close()
    (queue,) = read_store(path).queues.values()
    assert (queue.number, queue.messages) == (1, 49)


def test_a_flipped_bit_in_the_row_of_a_run_blocks_no_other_queue(
    store: MessageStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a store that is too large to be read through at a start."""
    monkeypatch.setattr(salvage, "READ_THROUGH_BYTES", 0)
    for queue in (1, 2, 3):
        put(store, queue, range(1, 6))
        write(store)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (root,) = store._db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'run'").fetchone()
    store.close()
    intact = path.read_bytes()
    size = int.from_bytes(intact[16:18], "big")
    page = (root - 1) * size
    cells = sorted(int.from_bytes(intact[page + 8 + 2 * n : page + 10 + 2 * n], "big") for n in range(3))
    for at in range(cells[1], cells[1] + 40):  # lengths, types, and the first columns
        for bit in range(8):
            flipped = bytearray(intact)
            flipped[page + at] ^= 1 << bit
            other = tmp_path / f"flipped-{at}-{bit}"
            other.write_bytes(flipped)
            mend_store(other, suspect=False)
            with contextlib.closing(MessageStore(other, reserve_bytes=RESERVE)) as again:
                there = [entry[:2] for entry in again.recover()]
                assert set(there) >= {(queue, n) for queue in (1, 3) for n in range(1, 6)}, (at, bit)
                for place in there:
                    again.remove(*place)
                again.put(9, 1, b"of another queue")
                written = again.write(again.take())
                assert (written.fault, written.removed) == (None, True), (at, bit)
                assert [entry[:2] for entry in again.recover()] == [(9, 1)], (at, bit)
