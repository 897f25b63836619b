"""A flipped bit of a group is mended; and what is lost without a trace in any other file is found."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.groups import HEAD_BYTES
from brokers.server.journal.pinning import pinned_journal
from brokers.server.journal.recovery import recover
from brokers.server.journal.stamp_file import Stamp, read_stamp
from brokers.server.sqlite_file import StoreError
from tests.server.journal.journals import (
    SEGMENT,
    Disk,
    after_crash,
    content,
    files,
    opened,
    write,
    write_all,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.mark.parametrize("last", [False, True])
def test_each_flipped_bit_of_a_group_is_mended_and_written(path: Path, last: bool) -> None:
    """Also of the last group of a process that was killed, which is not taken for a torn one."""
    with closing(opened(path)) as store:
        for number in range(1, 9):
            store.put_run(1, 10 * number, [b"%d" % number * 100] * 9, 900)
            store.fail(1, 10 * number, 3)
            if number == (8 if last else 5):
                at = store._segments.head.end
            write(store)
            if number == (8 if last else 5):
                file, end = store._segments.head.file.path, store._segments.head.end
        right = content(store)
        shutil.copytree(path, path.with_name("crashed"))
    crashed = path.with_name("crashed") / file.name
    whole = crashed.read_bytes()
    bodies_at = end - 900 - -900 % 8
    assert bodies_at - at > 100
    for place in range(at, bodies_at - 7):  # up to the padding
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        crashed.write_bytes(data)
        found = recover(crashed.parent)
        assert (found.findings, len(found.repairs)) == ([], 1), place
        if place % 20 == 0:
            with closing(opened(crashed.parent)) as store:
                assert content(store) == right
            assert recover(crashed.parent).repairs == []
            assert crashed.read_bytes()[: end - 7] == whole[: end - 7]


def test_a_group_with_more_than_one_flipped_bit_is_not_mended(path: Path) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"x" * 100] * 9, 900)
        write(store)
        at, file = store._segments.head.end, store._segments.head.file.path
        store.put_run(1, 10, [b"x" * 100] * 9, 900)
        write(store)
    chance = random.Random(3)
    whole = file.read_bytes()
    for _ in range(300):
        data = bytearray(whole)
        for place in chance.sample(range(at, at + HEAD_BYTES + 80), 2):
            data[place] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        assert recover(path).repairs == []


def test_loss_of_the_newest_segment_is_found_after_an_orderly_stop_and_from_then_on(path: Path) -> None:
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 1))
        for number in range(40):
            store.put(1, number, bytes(SEGMENT // 10))
            write_all(store)
        newest = store._segments.head.file.path
    newest.unlink()
    for _ in range(3):
        with closing(opened(path)) as store:
            assert [text for text in store.findings if "is missing" in text]
            for number in range(1000, 1020):
                store.put(2, number, bytes(SEGMENT // 10))
                store.remove(2, number)
                write_all(store)


def test_damaged_stamp_is_read_from_its_second_copy(path: Path) -> None:
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 7, 3))
    file = path / "stamp.json"
    whole = file.read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 4
        file.write_bytes(data)
        assert read_stamp(path)[0] == Stamp("me", "default", 7, 3)
    file.write_bytes(whole[:20] + b"X" + whole[21:-20] + b"X" + whole[-19:])
    with pytest.raises(StoreError, match=r"stamp\.json is damaged"):
        read_stamp(path)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_files_that_are_freed_for_a_list_are_not_in_it(path: Path, disk: Disk) -> None:
    """On a full disk some are freed just before they would be listed as in use, and then deleted."""
    with closing(opened(path)) as store:
        for number in range(60):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
        with pinned_journal(path):
            store.remove_run(1, range(59))
            write_all(store)
            disk.room = len(files(path))
            for number in range(100, 104):
                store.put(1, number, bytes(SEGMENT // 3))
                write_all(store)
                assert after_crash(path) == content(store)
