"""A queue that is deleted or purged is gone at once, and its messages are taken out of the index in portions: other
queues wait for one of them, and a crash in between changes nothing."""

from __future__ import annotations

import random
from array import array
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal import message_index
from brokers.server.journal.journal_store import JournalStore
from tests.server.journal.journals import SEGMENT, Disk, after_crash, bodies, content, opened, write, write_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_index, "DROPPED_COST", 5)
    monkeypatch.setattr(message_index, "REMOVED_AT_ONCE", 5)


def body_of(number: int) -> bytes:
    return b"%d " % number * 200


def left(store: JournalStore) -> int:
    return sum(segment.left for segment in store._index.segments.values())


def fill(store: JournalStore, queue: int, count: int) -> None:
    """Each message in a run of its own."""
    for number in range(1, count + 1):
        store.put(queue, 2 * number, body_of(number))
        if number % 20 == 0:
            write_all(store)
    write_all(store)


@pytest.mark.parametrize("durable", [True, False])
def test_messages_of_a_deleted_queue_are_gone_at_once_and_taken_out_in_portions(path: Path, durable: bool) -> None:
    with closing(opened(path, durable=durable)) as store:
        fill(store, 1, 300)
        fill(store, 2, 10)
        expected = {(2, 2 * n): body_of(n) for n in range(1, 11)}
        store.drop_queue(1)
        portions = 0
        while True:
            before = left(store)
            store.put(2, 100 + portions, b"another")
            expected[2, 100 + portions] = b"another"
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            assert bodies(content(store)) == expected
            assert before + 1 - left(store) <= 5, "the other message is confirmed after one portion"
            if durable and portions % 15 == 0:
                assert bodies(after_crash(path)) == expected
            portions += 1
            if left(store) == len(expected):
                break
            assert written.unfinished, "it goes on without another group"
        assert 60 <= portions < 100
        write_all(store)
        assert store.used_bytes == sum(len(body) + 32 for body in expected.values())
        if durable:
            assert bodies(after_crash(path)) == expected


def test_portions_go_on_while_an_error_delays_what_else_is_to_be_done(path: Path) -> None:
    with closing(opened(path)) as store:
        fill(store, 1, 40)
        store.drop_queue(1)
        write(store)
        store.writer._not_before, store.writer._failed = float("inf"), True
        while write(store).unfinished:
            pass
        assert left(store) == 0


def test_change_that_drops_a_queue_stays_until_the_last_of_its_messages_is_taken_out(path: Path) -> None:
    """Its segment has no messages, and those of which it has removed some are free, but not yet all."""
    with closing(opened(path)) as store:
        fill(store, 1, 300)
        store.put(3, 1, bytes(SEGMENT - 9000))  # begins another segment
        write_all(store)
        store.remove(3, 1)
        store.drop_queue(1)
        for number in range(2, 50):
            store.put(3, number, bytes(SEGMENT - 9000))
            write(store)
            store.remove(3, number)
            if number % 6 == 0:
                assert set(after_crash(path)) == {(3, number)}
        assert left(store) > 20, "there are still some"
        write_all(store)
        assert after_crash(path) == content(store) == {}


@pytest.mark.parametrize("room", [10_000, 14])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_deleted_queues_have_what_was_confirmed_after_each_crash(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, room: int
) -> None:
    """Also on a disk that is full, where messages are copied and segments freed meanwhile."""
    disk, chance = Disk(monkeypatch), random.Random(seed)
    disk.room = room
    monkeypatch.setattr("brokers.server.journal.journal_writer.JournalWriter._room_on_disk", lambda self: 0)
    monkeypatch.setattr(message_index, "DROPPED_COST", 2)
    expected: dict[tuple[int, int], bytes] = {}
    queues, newest = [1, 2, 3], 3
    with closing(opened(path)) as store:
        for number in range(1, 500):
            queue = chance.choice(queues)
            body = bytes([number % 256]) * chance.choice((10, 700, 3000))
            store.put(queue, 2 * number, body)
            gone = chance.sample(sorted(expected), min(len(expected), chance.choice((0, 0, 1, 2))))
            for place in gone:
                store.remove(*place)
                del expected[place]
            if chance.random() < 0.03:
                dropped = chance.choice([each for each in queues if each != queue])
                store.drop_queue(dropped)
                expected = {place: value for place, value in expected.items() if place[0] != dropped}
                newest += 1
                queues = [each for each in queues if each != dropped] + [newest]
            written = write(store)
            assert written.removed
            if written.fault is None:
                expected[queue, 2 * number] = body
            assert {entry[:2] for entry in store.recover()} == expected.keys()
            if number % 25 == 0:
                assert bodies(after_crash(path)) == expected
        assert bodies(content(store)) == bodies(after_crash(path)) == expected


@pytest.mark.parametrize("durable", [True, False])
def test_purged_messages_are_gone_at_once_and_taken_out_in_portions(path: Path, durable: bool) -> None:
    with closing(opened(path, durable=durable)) as store:
        fill(store, 1, 300)
        fill(store, 2, 10)
        expected = {(2, 2 * n): body_of(n) for n in range(1, 11)} | {(1, 2 * n): body_of(n) for n in range(291, 301)}
        store.purge(1, array("q", range(1, 2 * 290 + 1)))  # every other one is not there
        store.put(1, 2000, b"later")
        expected[1, 2000] = b"later"
        portions = 0
        while True:
            before = left(store)
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            if durable and portions % 15 == 0:
                assert bodies(after_crash(path)) == expected, "it is safe with its first portion"
            assert before + 1 - left(store) <= 5
            portions += 1
            if left(store) == len(expected):
                break
            assert written.unfinished, "it goes on without another group"
        assert portions >= 100
        write_all(store)
        assert bodies(content(store)) == expected
        assert store.used_bytes == sum(len(body) + 32 for body in expected.values())
        if durable:
            assert bodies(after_crash(path)) == expected


@pytest.mark.parametrize("room", [10_000, 14])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_with_purges_have_what_was_confirmed_after_each_crash(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, room: int
) -> None:
    """Also on a disk that is full, and with numbers that are used again after a restart."""
    disk, chance = Disk(monkeypatch), random.Random(seed)
    disk.room = room
    monkeypatch.setattr("brokers.server.journal.journal_writer.JournalWriter._room_on_disk", lambda self: 0)
    monkeypatch.setattr("brokers.server.journal.journal_writer.REMOVED_AT_ONCE", 8)
    expected: dict[tuple[int, int], bytes] = {}
    newest = dict.fromkeys((1, 2, 3), 0)
    store = opened(path)
    for step in range(1, 400):
        queue = chance.choice((1, 2, 3))
        newest[queue] += 1
        body = bytes([step % 256]) * chance.choice((10, 700, 3000))
        store.put(queue, newest[queue], body)
        here = sorted(number for of, number in expected if of == queue)
        if here and chance.random() < 0.08:
            staying = set(chance.sample(here, min(2, len(here))))
            gone = [number for number in range(1, here[-1] + 1) if number not in staying]
            if gone:
                store.purge(queue, array("q", gone))
            expected = {at: each for at, each in expected.items() if at[0] != queue or at[1] in staying}
        elif here and chance.random() < 0.4:
            store.remove(queue, here[0])
            del expected[queue, here[0]]
        written = write(store)
        assert written.removed
        if written.fault is None:
            expected[queue, newest[queue]] = body
        if step % 25 == 0:
            assert bodies(after_crash(path)) == expected
        if step % 60 == 0:
            write_all(store)
            assert bodies(content(store)) == expected
            store.close()
            store = opened(path)
            newest = {of: max([0, *(n for q, n in expected if q == of)]) for of in newest}
    write_all(store)
    assert bodies(content(store)) == bodies(after_crash(path)) == expected
    store.close()
