"""Disks that fail to write or to read for a while, or at one place: no accepted message is lost, none that was refused
comes back once others are written, and what cannot be read costs only itself."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.journal_store import JournalStore
from tests.server.journal.journals import SEGMENT, Disk, after_crash, bodies, content, files, opened, write, write_all

#: Too large for the rest of a segment in which there is another message.
LARGE = SEGMENT - 9000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def with_free_files(path: Path) -> JournalStore:
    """A store with more free files than its reserve, so that none is created for a new segment, and one message."""
    store = opened(path)
    for number in range(1000, 1004):
        store.put(1, number, bytes(LARGE))
        write_all(store)
    store.remove_run(1, range(1000, 1004))
    store.put(1, 1, b"first" * 2000)
    write_all(store)
    assert store._segments.has_room
    return store


def test_first_group_that_was_refused_and_could_not_be_freed_costs_no_later_message(path: Path, disk: Disk) -> None:
    """The segment before is not appended to any more: the list of the refused one may be on the disk."""
    with closing(with_free_files(path)) as store:
        disk.stuck = True
        store.put(1, 2, bytes(LARGE))
        assert write(store).fault is not None
        disk.stuck = disk.refusing = False
        store.put(1, 3, b"accepted")
        assert write(store).fault is None
        expected = {(1, 1): b"first" * 2000, (1, 3): b"accepted"}
        assert bodies(content(store)) == bodies(after_crash(path)) == expected
    with closing(opened(path)) as store:
        assert bodies(content(store)) == expected


def test_files_whose_first_groups_were_refused_are_used_again(path: Path, disk: Disk) -> None:
    disk.room = 9
    expected = {(1, 1): b"first" * 2000}
    with closing(with_free_files(path)) as store:
        for number in range(2, 20):
            disk.stuck = True
            for attempt in range(3):
                store.put(1, 100 * number + attempt, bytes(LARGE))
                assert write(store).fault is not None
            disk.stuck = disk.refusing = False
            store.writer._not_before = 0.0
            store.put(1, number, expected.setdefault((1, number), b"accepted"))
            write_all(store)
            assert bodies(content(store)) == bodies(after_crash(path)) == expected
            assert len(store._segments.free) >= 2, "the reserve is complete"
        for number in range(1, 20):
            store.remove(1, number)
            write_all(store)
        assert content(store) == after_crash(path) == {}
    assert len(files(path)) <= disk.room


@pytest.mark.parametrize("seed", range(6))
def test_random_errors_of_writing_lose_nothing_that_was_accepted(path: Path, disk: Disk, seed: int) -> None:
    chance = random.Random(seed)
    expected: dict[tuple[int, int], bytes] = {}
    removed: set[tuple[int, int]] = set()
    with closing(opened(path)) as store:
        for number in range(1, 250):
            disk.broken = chance.random() < 0.1
            disk.stuck = chance.random() < 0.2
            disk.refusing = chance.random() < 0.05
            body = bytes([number % 256]) * chance.choice((10, 2000, 9000, LARGE))
            store.put(1, number, body)
            if expected and chance.random() < 0.7:
                removed.add(gone := chance.choice(list(expected)))
                store.remove(*gone)
            written = write(store)
            if written.fault is None:
                expected[1, number] = body
            if written.removed:
                for place in removed:
                    expected.pop(place, None)
                removed.clear()
            disk.broken = disk.stuck = disk.refusing = False
            store.writer._not_before = 0.0
            if written.fault is None and written.removed and number % 3 == 0:
                assert bodies(after_crash(path)) == expected, number
        write_all(store)
        for place in removed:
            expected.pop(place, None)
        assert len(expected) > 5
        assert bodies(content(store)) == bodies(after_crash(path)) == expected


def test_newest_segment_is_not_freed_while_only_it_lists_the_others(path: Path) -> None:
    """After a start no group may follow: a later one would miss what the list before names, and is used again since."""
    for put, removed in ((1, 0), (2, 0), (3, 1), (4, 4)):  # each start begins a segment
        if put == 4:  # the file of the first one is the next to be used
            for file in files(path)[:2]:
                assert not any(file.read_bytes()), "of the reserve"
                file.rename(path / f"9{file.name}")
        with closing(opened(path)) as store:
            store.put(1, put, b"in the file that was used first" if put in (1, 4) else b"stays")
            write_all(store)
            if removed:
                store.remove(1, removed)
            write_all(store)
    for _ in range(2):
        with closing(opened(path)) as store:
            assert store.findings == []
            write_all(store)  # frees what it may
            assert bodies(after_crash(path)) == {(1, 2): b"stays", (1, 3): b"stays"}


@pytest.mark.parametrize("is_after_start", [True, False])
def test_newest_segment_makes_room_on_a_full_disk_once_there_is_another(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, is_after_start: bool
) -> None:
    monkeypatch.setattr("brokers.server.journal.journal_writer.JournalWriter._room_on_disk", lambda self: 0)
    disk.room = 3
    store = opened(path)
    store.put(1, 1, bytes(LARGE))
    write_all(store)
    store.remove(1, 1)
    write_all(store)
    if is_after_start:
        store.close()
        store = opened(path)
    else:
        disk.broken = True
        store.put(1, 2, b"refused")
        assert write(store).fault is not None
        disk.broken = False
        store.writer._not_before = 0.0
        write_all(store)
    with closing(store):
        assert len(files(path)) == 3
        for number in range(3, 9):
            assert not store.full
            store.put(1, number, bytes(LARGE))
            write_all(store)
            assert bodies(content(store)) == bodies(after_crash(path)) == {(1, number): bytes(LARGE)}
            store.remove(1, number)
            write_all(store)
            assert len(store._segments.free) == 2
            store.close()
            store = opened(path)
