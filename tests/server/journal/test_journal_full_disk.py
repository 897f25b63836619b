"""A full disk refuses messages, as groups, and takes every removal; space that removals make is used again."""

from __future__ import annotations

import random
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.journal_store import JournalStore
from tests.server.journal.journals import SEGMENT, Disk, after_crash, bodies, content, files, opened, write, write_all

Places = dict[tuple[int, int], bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(monkeypatch)
    disk.room = 20
    monkeypatch.setattr("brokers.server.journal.journal_writer.JournalWriter._room_on_disk", lambda self: 0)
    return disk


def body_of(number: int, size: int = 1000) -> bytes:
    return bytes([number % 256]) * size


def fill(store: JournalStore, first: int, size: int = 1000) -> int:
    """Write groups of 20 until one is refused; return the number after the last that is stored."""
    while True:
        store.put_run(1, first, [body_of(n, size) for n in range(first, first + 20)], 20 * size)
        written = write(store)
        if written.fault is not None:
            assert "full" in str(written.fault)
            assert written.removed
            return first
        first += 20


def test_a_full_disk_refuses_whole_groups_and_loses_nothing(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        end = fill(store, 0)
        assert end > 700
        assert store.full
        for _ in range(20):
            end = fill(store, end)
        expected = {(1, n): body_of(n) for n in range(end)}
        assert bodies(content(store)) == expected
    with closing(opened(path)) as store:
        assert bodies(content(store)) == expected


@pytest.mark.parametrize("order", ["first to last", "last to first", "random"])
def test_each_removal_is_taken_one_by_one_in_any_order(path: Path, disk: Disk, order: str) -> None:
    with closing(opened(path)) as store:
        end = fill(store, 0, 400)
        left = list(range(end))
        if order == "last to first":
            left.reverse()
        elif order == "random":
            random.Random(5).shuffle(left)
        while left:
            store.remove(1, left.pop(0))
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            if len(left) % 500 == 0:
                expected = {(1, n): body_of(n, 400) for n in left}
                assert bodies(content(store)) == expected
                assert bodies(after_crash(path)) == expected
        assert len(files(path)) <= disk.room


def test_messages_are_taken_again_as_soon_as_consumers_have_made_room(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        first = end = 0
        for _ in range(5):
            end = fill(store, end)
            store.remove_run(1, range(first, end - 100))
            write_all(store)
            first = end - 100
            assert not store.full
            assert bodies(content(store)) == {(1, n): body_of(n) for n in range(first, end)}
        assert end > 2500


def test_space_between_messages_that_stay_is_used_again(path: Path, disk: Disk) -> None:
    """Each second message stays: only copies free their segments."""
    with closing(opened(path)) as store:
        end = fill(store, 0)
        store.remove_run(1, range(0, end, 2))
        write_all(store)
        again = end
        for _ in range(30):
            again = fill(store, again)
            write_all(store)
        assert again > end + 200
        expected = {(1, n): body_of(n) for n in (*range(1, end, 2), *range(end, again))}
        assert bodies(content(store)) == bodies(after_crash(path)) == expected


def test_moves_are_made_and_a_removal_does_not_wait_for_them(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        end = fill(store, 0)
        for number in range(100, 200):
            store.move((1, number), (2, number), body_of(number, 1100))
        store.remove_run(1, range(50))
        store.remove(2, 150)
        store.fail(2, 160, 3)
        written = write(store)
        assert written.fault is None
        expected = {(1, n): body_of(n) for n in range(50, end) if not 100 <= n < 200}
        expected |= {(2, n): body_of(n, 1100) for n in range(100, 200) if n != 150}
        there = bodies(content(store))
        assert not set(there) & {(1, n) for n in range(50)}, "the removals are done"
        for _ in range(200):
            if written.removed:
                break
            written = write(store)
        assert bodies(content(store)) == bodies(after_crash(path)) == expected
        assert content(store)[2, 160][1] == 3


def test_a_queue_that_is_deleted_does_not_take_the_messages_along_that_are_moved_out_of_it(
    path: Path, disk: Disk
) -> None:
    with closing(opened(path)) as store:
        end = fill(store, 0)
        for number in range(5):
            store.move((1, number), (2, number), b"moved")
        store.drop_queue(1)
        written = write(store)
        while not written.removed:
            written = write(store)
        assert bodies(content(store)) == bodies(after_crash(path)) == {(2, n): b"moved" for n in range(5)}
        assert fill(store, end) > end


def test_transactions_that_only_remove_are_done_and_those_that_add_are_not(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        end = fill(store, 0)
        for transaction, put, removed in ((1, [], [0, 1]), (2, [], [4]), (3, range(5000, 5100), [3])):
            store.begin(transaction)
            for number in put:
                store.put(1, number, body_of(number))
            for number in removed:
                store.remove(1, number)
            store.end()
        written = write(store)
        assert list(written.refused) == [3]
        assert "full" in str(written.refused[3])
        assert (written.fault, written.removed) == (None, True)
        expected = {(1, n): body_of(n) for n in range(end) if n not in (0, 1, 4)}
        assert bodies(content(store)) == bodies(after_crash(path)) == expected


def test_removal_that_finds_the_newest_segment_empty_but_larger_than_others_is_made_when_there_is_room(
    path: Path, disk: Disk
) -> None:
    """Its file is deleted, not used again, so it is no room for the removal."""
    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        write_all(store)
        store.put(1, 2, bytes(2 * SEGMENT))
        write_all(store)
        store.remove(1, 2)
        write_all(store)
        disk.broken = True
        store.put(1, 3, b"refused")
        assert write(store).fault is not None
        disk.broken = False
        assert store._segments.head is None
        store._segments._settle()
        for file in store._segments.free:
            file.path.unlink()
        del store._segments.free[:]
        disk.room = len(files(path))
        store.remove(1, 1)
        for _ in range(3):
            written = write(store)
            assert (written.fault, written.removed, written.unfinished) == (None, False, True)
            assert bodies(after_crash(path)) == {(1, 1): b"x"}
        disk.room += 3
        assert write(store).removed
        write_all(store)
        assert content(store) == after_crash(path) == {}


def test_a_full_disk_prevents_no_start_and_the_reserve_is_allocated_later(path: Path, disk: Disk) -> None:
    disk.room = 0
    with closing(opened(path)) as store:
        store.put(1, 1, b"refused")
        assert write(store).fault is not None
        disk.room = 10
        store.writer._not_before = 0.0
        store.put(1, 2, b"new")
        write_all(store)
        assert len(store._segments.free) == 2
        assert bodies(content(store)) == {(1, 2): b"new"}


def test_a_real_disk_that_others_fill_is_used_again_when_they_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        with closing(opened(folder / "m.journal")) as store:
            store.put_run(1, 0, [body_of(n) for n in range(20)], 20_000)
            write(store)
            other = folder / "other"
            with pytest.raises(OSError, match="No space"), other.open("wb") as file:
                file.write(bytes(8 << 20))
            end = fill(store, 20)
            store.remove_run(1, range(10))
            assert write(store).removed
            assert bodies(content(store)) == {(1, n): body_of(n) for n in range(10, end)}
            other.unlink()
            store.writer._not_before = 0.0
            later = fill(store, end)
            assert later > end + 500
            for number in range(10, later):
                store.remove(1, number)
                assert write(store).removed
            assert content(store) == {}
    finally:
        subprocess.run([str(umount), "--lazy", str(folder)], check=True)


def test_each_change_that_frees_nothing_is_taken_however_many_there_are(path: Path, disk: Disk) -> None:
    """Failed deliveries are counted, and hardly a message is removed: the reserve is enough for that, written again."""
    with closing(opened(path)) as store:
        end = fill(store, 0)
        failed: dict[int, int] = {}
        for turn in range(3000):
            number = turn * 7 % end
            failed[number] = turn
            store.fail(1, number, turn)
            if turn % 100 == 0:
                store.remove(1, end - 1 - turn // 100)
            written = write(store)
            assert (written.fault, written.removed) == (None, True), turn
        expected = {(1, n): (body_of(n), failed.get(n, 0), 0) for n in range(end - 30)}
        assert content(store) == after_crash(path) == expected


@pytest.mark.parametrize("order", ["first to last", "last to first", "random"])
def test_temporary_store_takes_each_removal_and_then_messages_again(path: Path, disk: Disk, order: str) -> None:
    """It has no reserve: nothing is written to remove a message."""
    disk.room = 6
    with closing(opened(path, durable=False)) as store:
        for turn in range(3):
            first = turn * 100_000
            end = fill(store, first)
            assert end > first
            left = list(range(first, end))
            if order == "last to first":
                left.reverse()
            elif order == "random":
                random.Random(turn).shuffle(left)
            while left:
                if len(left) % 3:
                    store.fail(1, left[-1], 2)
                store.remove(1, left.pop(0))
                written = write(store)
                assert (written.fault, written.removed) == (None, True)
                if len(left) % 100 == 0:
                    assert bodies(content(store)) == {(1, n): body_of(n) for n in left}
            assert content(store) == {}
            assert not store.full


@pytest.mark.parametrize("durable", [True, False])
def test_messages_that_their_own_group_removes_are_not_left_where_only_its_removals_make_room(
    path: Path, disk: Disk, durable: bool
) -> None:
    """Removals are written first then: a message would be written after its removal, and stay."""
    disk.room = 6
    with closing(opened(path, durable=durable)) as store:
        end = fill(store, 0)
        store.put_run(1, end, [body_of(n) for n in range(end, end + 30)], 30_000)
        store.put_run(2, 1, [body_of(n) for n in range(1, 6)], 5000)
        store.put(1, end + 40, body_of(40), 1_900_000_000_000)
        store.put(1, end + 41, body_of(41), 1_900_000_000_000)
        store.begin(1)
        store.put(2, 6, body_of(6))
        store.put(3, 1, body_of(1))
        store.end()
        store.remove_run(1, [*range(end), end, end + 7, end + 29, end + 40])
        store.drop_queue(2)
        written = write(store)
        assert (written.fault, written.removed, written.refused) == (None, True, {})
        numbers = [n for n in range(end + 1, end + 29) if n != end + 7]
        expected = {(1, n): body_of(n) for n in numbers} | {(1, end + 41): body_of(41), (3, 1): body_of(1)}
        write_all(store)
        assert bodies(content(store)) == expected
        if durable:
            assert bodies(after_crash(path)) == expected


def test_temporary_store_returns_the_space_of_bodies_that_are_gone(path: Path, disk: Disk) -> None:
    """No message need come for that: on a full disk there may be none."""
    with closing(opened(path, durable=False)) as store:
        end = fill(store, 0)
        assert len(files(path)) == disk.room
        for number in range(end):
            store.remove(1, number)
        write_all(store)
        assert content(store) == {}
        assert len(files(path)) <= 8
