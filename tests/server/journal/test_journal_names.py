"""The names of queues are in a journal as long as the queues are, however many and long they are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.recovery import recover
from brokers.server.message_groups import Written
from tests.server.journal.journals import SEGMENT, Disk, after_crash, content, files, opened, write, write_all

MANY = 700


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def names(path: Path) -> dict[int, str]:
    """As a start finds them."""
    return recover(path).index.names


def use_segments(store: JournalStore, queue: int, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.put(queue, number, bytes(SEGMENT // 2))
        write_all(store)
        store.remove(queue, number)
        write_all(store)


def finish(store: JournalStore, steps: int) -> Written:
    """Write what is buffered, and do all that is left to do, in at most this number of steps."""
    for _ in range(steps):
        written = write(store)
        if not (store.pending or written.unfinished):
            return written
    raise AssertionError("it has no end")


def test_name_of_a_queue_that_had_no_message_when_segments_were_left_is_there(path: Path) -> None:
    with closing(opened(path)) as store:
        for queue in (1, 2):
            store.name_queue(queue, f"queue {queue}")
            store.put(queue, 1, b"x")
            write_all(store)
        store.remove(1, 1)
        store.remove(2, 1)
        use_segments(store, 2, 10, 20)
        store.name_queue(1, "queue 1")  # as ever
        store.put(1, 2, b"later")
        write_all(store)
        assert names(path) == {1: "queue 1", 2: "queue 2"}
    with closing(opened(path)) as store:
        assert store.names == {1: "queue 1", 2: "queue 2"}


def test_name_of_a_deleted_queue_does_not_come_back_from_an_earlier_segment(path: Path) -> None:
    with closing(opened(path)) as store:
        store.name_queue(1, "stays")
        store.name_queue(2, "deleted")
        for queue in (1, 2):
            store.put(queue, 1, bytes(SEGMENT // 3))
            write_all(store)
        store.drop_queue(2)
        use_segments(store, 3, 1, 20)
        assert len(store._index.segments) >= 2
        assert names(path) == {1: "stays"}


def long_name(queue: int) -> str:
    return f"{queue:>0255}"


def named(path: Path, count: int) -> JournalStore:
    """A store of `count - 1` queues with long names, each with a message without a body."""
    store = opened(path)
    for queue in range(1, count):
        store.name_queue(queue, long_name(queue))
        store.put(queue, 1, b"")
        if queue % 10 == 0:
            write(store)
    finish(store, 50)
    return store


@pytest.mark.parametrize("count", [190, 200, 700])
def test_names_as_large_as_a_segment_have_compaction_come_to_an_end(path: Path, count: int) -> None:
    with closing(named(path, count)) as store:
        assert sum(map(len, names(path).values())) > 0.7 * SEGMENT
        for turn in range(2, 8):
            for queue in range(1, count):
                store.put(queue, turn, bytes(100))
                if queue % 5:
                    store.remove(queue, turn)
                write(store)
            finish(store, 50)
        used = sum(file.stat().st_size for file in files(path))
        assert used < 50 * 255 * count
        there = {(queue, 1) for queue in range(1, count)}
        there |= {(queue, turn) for queue in range(5, count, 5) for turn in range(2, 8)}
        assert set(content(store)) == set(after_crash(path)) == there
        assert names(path) == {queue: long_name(queue) for queue in range(1, count)}


def test_full_disk_takes_removals_although_the_names_are_larger_than_a_segment(path: Path, disk: Disk) -> None:
    with closing(named(path, MANY)) as store:
        head = store._segments.head
        assert head is not None
        head.listing, number = None, 1000
        while head.end < head.file.size - 1000:
            store.put(1, number, bytes(min(10_000, head.file.size - head.end - 900)))
            write(store)
            number += 1
        assert store._segments.head is head
        disk.room = 0
        for queue in range(1, MANY):
            for failed in range(2):
                store.fail(queue, 1, failed)
                assert write(store).removed
            if queue % 3:
                store.remove(queue, 1)
                assert write(store).removed
        left = {(queue, 1) for queue in range(3, MANY, 3)} | {(1, n) for n in range(1000, number)}
        assert set(content(store)) == set(after_crash(path)) == left
        disk.room = 10_000
        for number in range(2000, 2020):
            store.put(1, number, bytes(SEGMENT // 2))
            store.writer._not_before = 0.0
            finish(store, 50)
        assert names(path) == {queue: long_name(queue) for queue in range(1, MANY)}


@pytest.mark.parametrize("together", [1, 40])
def test_compaction_of_messages_without_bodies_comes_to_an_end(path: Path, together: int) -> None:
    with closing(opened(path)) as store:
        for number in range(1, 12_000):
            store.put(1, 2 * number, b"")
            if number % together == 0:
                written = write(store)
        finish(store, 100)
        assert written.removed
        assert len(content(store)) == 11_999
        assert store._segments.serial <= 1.5 * len(files(path)), "hardly any was copied"
