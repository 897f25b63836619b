"""A client's transaction in the message store: done or not as a whole, on a full disk and through a crash as well."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.server.journal.journal_store import JournalStore
from brokers.server.message_groups import Written
from brokers.server.sqlite_file import StoreError

GROUP, SEGMENT = 256 << 10, 256 << 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    store = JournalStore(tmp_path / "m.journal", segment_bytes=SEGMENT, group_bytes=GROUP)
    yield store
    store.close()


def write(store: JournalStore) -> Written:
    return store.write(store.take())


def stored(store: JournalStore) -> list[tuple[int, int]]:
    return [(queue, number) for queue, number, *_ in store.recover()]


def transact(
    store: JournalStore, transaction: int, put: list[int], removed: list[int] | None = None, size: int = 10
) -> int:
    ticket = store.begin(transaction)
    for number in put:
        assert store.put(1, number, b"x" * size) == ticket
    for number in removed or []:
        assert store.remove(1, number) == ticket
    store.end()
    return ticket


def test_a_transaction_is_written_with_its_group(store: JournalStore) -> None:
    store.put(1, 1, b"before")
    write(store)
    store.put(1, 2, b"with it")
    assert transact(store, 7, [3, 4], [1]) == 2
    store.put(1, 5, b"behind")
    written = write(store)
    assert (written.ticket, written.fault, written.refused, written.removed) == (2, None, {}, True)
    assert stored(store) == [(1, 2), (1, 3), (1, 4), (1, 5)]
    assert store.load(1, [3]) == {3: b"x" * 10}


def test_a_transaction_alone_is_something_to_write(store: JournalStore) -> None:
    transact(store, 1, [], [9])
    assert store.pending


def test_large_transaction_is_not_split_and_later_messages_are_in_another_group(store: JournalStore) -> None:
    store.put(1, 1, b"x" * GROUP)
    ticket = transact(store, 1, [2, 3, 4], size=GROUP // 2)
    assert ticket == 2, "the first group was full"
    assert store.put(1, 5, b"x") == 3
    assert [write(store).ticket for _ in range(3)] == [1, 2, 3]
    assert stored(store) == [(1, n) for n in range(1, 6)]


def test_transaction_that_cannot_be_written_has_no_effect_and_is_not_retried(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(1, 1, b"first")
    store.put(1, 2, b"second")
    write(store)

    def broken(*given: object, **how: object) -> None:
        raise StoreError("the disk is full")

    transact(store, 7, [3], [1])
    store.remove(1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(store._segments, "append", broken)
        written = write(store)
    assert list(written.refused) == [7]
    assert (written.fault, written.removed) == (None, False)
    written = write(store)
    assert (written.refused, written.removed) == ({}, True)
    assert stored(store) == [(1, 1)], "the other removal was pending, the transaction's was not"


# -- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path: Path) -> Iterator[JournalStore]:
    """A store on a file system of 8 MiB that it has filled with messages 0 to `end`, of 1,000 bytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    store = JournalStore(folder / "m.journal", segment_bytes=SEGMENT, group_bytes=GROUP)
    number, fault = 0, None
    while fault is None:
        for each in range(number, number + 10):  # small groups, so that little is left
            store.put(1, each, bytes(1000))
        fault = write(store).fault
        number += 10
    yield store
    store.close()
    subprocess.run([str(umount), "--lazy", str(folder)], check=True)


def test_on_a_full_disk_transactions_that_only_remove_are_done_and_those_that_add_are_not(full: JournalStore) -> None:
    before = stored(full)
    transact(full, 1, [], [0, 1, 2])
    transact(full, 2, [], [4])
    transact(full, 3, list(range(100_000, 102_000)), [3], size=1000)
    written = write(full)
    assert list(written.refused) == [3]
    assert "full" in str(written.refused[3])
    assert stored(full) == [place for place in before if place[1] not in (0, 1, 2, 4)]
    assert full.full


def test_a_transaction_finds_room_that_consumers_have_made_inside_the_file(full: JournalStore) -> None:
    for number in range(1000):
        full.remove(1, number)
    assert write(full).removed
    transact(full, 1, [100_000, 100_001], [1000], size=1000)
    assert not write(full).refused
    assert {(1, 100_000), (1, 100_001)} < set(stored(full))
    assert (1, 1000) not in stored(full)
