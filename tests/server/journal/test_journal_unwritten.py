"""Changes that could not be written are written later, once, and in their order; names of queues, too."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.stamp_file import Stamp
from tests.server.journal.journals import Disk, after_crash, bodies, content, opened, write, write_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("fault", ["broken", "refusing"])
def test_changes_that_could_not_be_written_do_not_replace_newer_ones(path: Path, disk: Disk, fault: str) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"x"] * 10, 10)
        store.name_queue(1, "earlier")
        write(store)
        setattr(disk, fault, True)
        for number, count in ((3, 1), (4, 8)):
            store.fail(1, number, count)
        store.name_queue(1, "former")
        assert not write(store).removed
        store.fail(1, 3, 2)
        assert not write(store).removed
        setattr(disk, fault, False)
        store.fail(1, 3, 3)
        store.name_queue(1, "newest")
        assert write(store).removed
        expected = {(1, n): (b"x", {3: 3, 4: 8}.get(n, 0), 0) for n in range(1, 11)}
        assert content(store) == after_crash(path) == expected
        store.fail(1, 3, 4)
        assert write(store).removed
        assert content(store)[1, 3] == after_crash(path)[1, 3] == (b"x", 4, 0)
    with closing(opened(path)) as store:
        assert store.names == {1: "newest"}


@pytest.mark.parametrize("fault", ["broken", "refusing"])
@pytest.mark.parametrize("times", [2, 5])
def test_removal_that_fails_repeatedly_is_tried_again_until_it_is_written(
    path: Path, disk: Disk, fault: str, times: int
) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"x"] * 10, 10)
        write(store)
        setattr(disk, fault, True)
        store.remove_run(1, [2, 3])
        for number in range(times):
            store.remove(1, 4 + number)  # those of the groups between, too
            written = write(store)
            assert (written.removed, written.unfinished) == (False, True)
            assert len(content(store)) == 10, "what is not removed on the disk is there"
        for _ in range(times):
            written = write(store)  # without anything new
            assert (written.removed, written.unfinished) == (False, True)
        setattr(disk, fault, False)
        assert write(store).removed
        expected = {(1, n): b"x" for n in range(1, 11) if not 2 <= n < 4 + times}
        assert bodies(content(store)) == bodies(after_crash(path)) == expected
        before = [segment.end for segment in store._index.segments.values()]
        assert write(store).removed
        assert [segment.end for segment in store._index.segments.values()] == before, "it is written once"


def test_removal_that_failed_removes_no_message_that_has_its_number_after_a_restart(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"old")
        write(store)
        disk.refusing = True
        store.remove(1, 1)
        assert not write(store).removed
        disk.refusing = False
    with closing(opened(path)) as store:
        assert bodies(content(store)) == {(1, 1): b"old"}
        store.remove(1, 1)
        store.put(1, 2, b"new")
        assert write(store).removed
        assert bodies(content(store)) == bodies(after_crash(path)) == {(1, 2): b"new"}


def test_name_of_a_queue_that_is_written_alone_stays(path: Path) -> None:
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("owner", "default", 1, 1))
        store.name_queue(7, "orders")
        assert not store.pending, "it waits for a group"
        write(store)
        store.put(7, 1, b"x")
        write(store)
        assert store.names == {7: "orders"}
    for _ in range(2):
        with closing(opened(path)) as store:
            assert store.names == {7: "orders"}


def test_name_of_a_queue_whose_group_failed_is_written_with_its_messages(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        write(store)
        disk.refusing = True
        store.name_queue(7, "orders")
        write(store)
        store.put(7, 1, b"refused")
        assert write(store).fault is not None
        disk.refusing = False
        store.put(7, 2, b"x")
        assert write(store).fault is None
        assert set(after_crash(path)) == {(1, 1), (7, 2)}
    with closing(opened(path)) as store:
        assert store.names == {7: "orders"}


def test_names_go_on_with_their_messages_from_segment_to_segment(path: Path) -> None:
    with closing(opened(path)) as store:
        store.name_queue(7, "orders")
        store.name_queue(8, "others")
        store.put(7, 1, b"stays")
        for number in range(200):
            store.put(8, number, bytes(5000))
            store.remove(8, number - 3)
            write_all(store)
    with closing(opened(path)) as store:
        assert store.names == {7: "orders", 8: "others"}
