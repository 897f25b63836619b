"""A journal whose queues get other numbers has the same messages, with all that is known of each; what was damaged
stays so."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from brokers.engine.values.message import DELAYED, number_of
from brokers.server.journal import renumbering
from brokers.server.journal.reading import JournalReader, damaged_messages
from brokers.server.journal.recovery import recover
from brokers.server.journal.renumbering import write_renumbered
from brokers.server.journal.stamp_file import Stamp, read_stamp
from tests.server.journal.journals import SEGMENT, Stored, after_crash, content, files, opened, write, write_all
from tests.server.test_bit_rot import flip_in

OFFSET = 40
STAMP = Stamp("another", "default", 7, OFFSET + 9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(renumbering, "SEGMENT_BYTES", SEGMENT)
    monkeypatch.setattr(renumbering, "COPIED", 16 << 10)
    return tmp_path / "copy.journal"


def fill(path: Path) -> Stored:
    """Write some of everything into some segments; return what is stored."""
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 3))
        store.name_queue(1, "orders")
        store.name_queue(2, "other ü")
        store.name_queue(9, "without messages")
        for first in range(0, 300, 30):
            store.put_run(1, first + 1, [b"run %d " % n * 60 for n in range(first, first + 30)], 30 * 420)
            write(store)
        for sequence, priority in enumerate((9, 4, 0, 5, 4), 301):
            store.put(1, number_of(sequence, priority), b"of priority %d" % priority)
        store.put(1, number_of(306, 9), b"urgent and expires", 1_900_000_000_000)
        store.put(2, 1, b"has an expiry", 1_900_000_000_001)
        store.put(2, 2, b"later", 1_900_000_000_002 | DELAYED)
        store.put(2, 3, b"at some time", DELAYED)
        store.put(2, 4, b"")
        write(store)
        store.fail(1, 7, 3)
        store.fail(1, 8, 1)
        store.fail(1, number_of(301, 9), 2)
        store.fail(2, 1, 5)
        store.fail(2, 3, 6)
        store.remove_run(1, [1, 2, 8, 100, *range(150, 200)])
        store.put(3, 1, b"of a queue that was deleted")
        write(store)
        store.drop_queue(3)
        store.move((1, 50), (2, 5), b"moved", 77)
        write_all(store)
        stored = content(store)
    assert len(files(path)) > 3
    return stored


def renumbered(stored: Stored) -> Stored:
    return {(queue + OFFSET, number): value for (queue, number), value in stored.items()}


def test_copy_has_all_that_is_known_of_each_message(path: Path, copy: Path) -> None:
    stored = fill(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    write_renumbered(recover(path), copy, STAMP, OFFSET)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert read_stamp(copy) == (STAMP, max(recover(copy).headers))
    found = recover(copy)
    assert (found.findings, found.repairs, found.incomplete) == ([], [], "")
    assert found.index.names == {OFFSET + 1: "orders", OFFSET + 2: "other ü"}
    expected = renumbered(stored)
    assert {value[1] for value in expected.values()} == {0, 2, 3, 5, 6}, "failed deliveries"
    assert len({value[2] for value in expected.values()}) == 6, "expiries, and delays"
    assert after_crash(copy) == expected
    with closing(opened(copy)) as store:
        assert content(store) == expected
        assert store.stamp() == STAMP
        urgent = [number for queue, number in expected if queue == OFFSET + 1][:2]
        assert urgent == [number_of(301, 9), number_of(306, 9)]
        store.remove_run(OFFSET + 1, [number for queue, number in expected if queue == OFFSET + 1])
        store.put(OFFSET + 2, 6, b"it goes on")
        write_all(store)
        left = {place: value for place, value in expected.items() if place[0] == OFFSET + 2}
        assert content(store) == after_crash(copy) == left | {(OFFSET + 2, 6): (b"it goes on", 0, 0)}


def test_bodies_that_were_damaged_are_so_in_the_copy(path: Path, copy: Path) -> None:
    stored = fill(path)
    for body in (b"run 20 ", b"has an expiry", b"of priority 0"):
        flip_in(path, body)
    was = list(damaged_messages(path))
    assert len(was) == 3
    write_renumbered(recover(path), copy, STAMP, OFFSET)
    said = {line.replace(f"queue number {OFFSET + 1} ", "queue number 1 ") for line in damaged_messages(copy)}
    said = {line.replace(f"queue number {OFFSET + 2} ", "queue number 2 ") for line in said}
    assert said == {line.replace(str(path), str(copy)) for line in was}
    expected = renumbered(stored)
    lost = [(OFFSET + 1, 21), (OFFSET + 2, 1), (OFFSET + 1, number_of(303, 0))]
    with closing(JournalReader(copy)) as reader:
        entries = list(reader.recover())
        assert [entry[:2] for entry in entries] == sorted(expected), "they are there, and are not delivered"
        for queue, number, _, failed, expires in entries:
            body = reader.load(queue, [number]).get(number)
            there, *others = expected[queue, number]
            assert (body, failed, expires) == (None if (queue, number) in lost else there, *others)
        assert reader.damaged == set(lost)


@pytest.mark.parametrize("seed", range(4))
def test_group_of_which_one_bit_flipped_is_copied_as_it_was(path: Path, copy: Path, seed: int) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"%d" % n * 30 for n in range(40)], 1200)
        write(store)
        head = store._segments.head
        file, end = head.file.path, head.end
        store.put_run(2, 1, [b"%d" % n * 30 for n in range(40)], 1200)
        write(store)
        after = content(store)
        whole = file.read_bytes()
    changed = bytearray(whole)
    chance = random.Random(seed)
    at = chance.randrange(8, 300)  # its head, and its changes
    changed[end + at] ^= 1 << chance.randrange(8)
    file.write_bytes(changed)
    found = recover(path)
    assert len(found.repairs) == 1
    write_renumbered(found, copy, STAMP, OFFSET)
    assert recover(copy).repairs == []
    assert after_crash(copy) == renumbered(after)


def test_copy_that_was_not_completed_is_made_from_the_beginning(path: Path, copy: Path) -> None:
    stored = fill(path)
    copy.mkdir()
    for file in path.iterdir():  # of another use
        (copy / file.name).write_bytes(file.read_bytes())
    write_renumbered(recover(path), copy, STAMP, OFFSET)
    assert after_crash(copy) == renumbered(stored)
