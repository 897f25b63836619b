"""How messages are put together: groups with tickets of their own, runs in a group, and bodies that are read while
their segment is compacted and used again."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.journal_writer import RUN_BYTES, RUN_MESSAGES
from brokers.server.journal.pinning import pinned_journal
from brokers.server.journal.segment_file import SegmentFile
from brokers.server.journal.stamp_file import Stamp
from tests.server.journal.journals import SEGMENT, after_crash, bodies, content, files, opened, write, write_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


def runs(store: JournalStore) -> list[tuple[int, int, int]]:
    """Queue, number of messages and bytes of each run, in their order."""
    found = [run for segment in store._index.segments.values() for run in segment.runs]
    ordered = sorted(found, key=lambda run: (run.put.queue, run.put.first))
    return [(run.put.queue, run.put.count, run.put.size) for run in ordered]


def test_runs_share_groups_up_to_their_size_and_a_run_is_never_split_between_groups(path: Path) -> None:
    with closing(opened(path, group_bytes=250_000, segment_bytes=1 << 20)) as store:
        run = [b"x" * 50_000] * 8
        assert [store.put_run(1, 1 + 8 * number, run, 400_000) for number in range(3)] == [1, 2, 3]
        assert [store.put_run(2, 1 + 2 * number, [b"x", b"y"], 2) for number in range(3)] == [4, 4, 4]
        assert store.remove_run(2, [2]) == 4
        groups = []
        while store.pending:
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            groups.append((written.ticket, written.messages))
        assert groups == [(1, 8), (2, 8), (3, 8), (4, 6)]
        assert len(content(store)) == len(after_crash(path, segment_bytes=1 << 20)) == 29


def test_runs_that_follow_each_other_are_joined_and_long_ones_split_by_messages_and_by_bytes(path: Path) -> None:
    with closing(opened(path, segment_bytes=16 << 20, group_bytes=64 << 20)) as store:
        store.put_run(1, 1, [b"x"] * (2 * RUN_MESSAGES), 2 * RUN_MESSAGES)
        for number in range(2 * RUN_MESSAGES + 1, 2 * RUN_MESSAGES + 4):
            store.put(1, number, b"x")
        store.put_run(2, 1, [bytes(RUN_BYTES // 8)] * 20, 20 * RUN_BYTES // 8)
        store.put_run(3, 1, [bytes(2 * RUN_BYTES)] * 2, 4 * RUN_BYTES)
        store.put_run(4, 1, [b"x"] * 3, 3)
        store.put_run(4, 5, [b"x"] * 3, 3)  # there is a gap
        store.put(5, 1, b"x", 77)
        store.put(5, 2, b"x", 77)
        write_all(store)
        assert runs(store) == [
            (1, RUN_MESSAGES, RUN_MESSAGES),
            (1, RUN_MESSAGES, RUN_MESSAGES),
            (1, 3, 3),
            (2, 8, RUN_BYTES),
            (2, 8, RUN_BYTES),
            (2, 4, RUN_BYTES // 2),
            (3, 1, 2 * RUN_BYTES),
            (3, 1, 2 * RUN_BYTES),
            (4, 3, 3),
            (4, 3, 3),
            (5, 1, 1),
            (5, 1, 1),
        ]
        assert content(store) == after_crash(path, segment_bytes=16 << 20)


def test_run_of_removals_removes_what_is_written_and_what_is_buffered(path: Path) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"a"] * 6, 6)
        write(store)
        store.put_run(1, 7, [b"b"] * 4, 4)
        ticket = store.remove_run(1, [2, 4, 7, 8, 99])
        store.remove(1, 10)
        written = write(store)
        assert (written.ticket, written.removed) == (ticket, True)
        assert (
            [number for _, number in content(store)] == [number for _, number in after_crash(path)] == [1, 3, 5, 6, 9]
        )


def test_bodies_are_right_though_their_segment_is_compacted_and_used_again_while_they_are_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has found where they are, and has not read them yet."""
    with closing(opened(path)) as store:
        left = {number: b"%03d" % number * 300 for number in range(5, 600, 60)}
        store.put(3, 1, b"x")
        write(store)
        with pinned_journal(path):  # so that nothing is compacted yet
            for first in range(0, 600, 60):
                store.put_run(1, first, [b"%03d" % number * 300 for number in range(first, first + 60)], 54_000)
                write(store)
            store.remove_run(1, [number for number in range(600) if number not in left])
            write(store)
        old = min(
            (run.segment for run in runs_of(store, 1)), key=lambda segment: segment.left_bytes
        )  # the first copied
        written: list[int] = []
        used: dict[str, set[int]] = {}
        note(used, store)

        def reuse() -> None:
            for number in range(1000, 1200):
                store.put(2, number, bytes(30_000))
                store.remove(2, number - 1)
                write_all(store)
                written.append(number)
                note(used, store)

        writer = threading.Thread(target=reuse)
        read = SegmentFile.read

        def read_later(file: SegmentFile, at: int, size: int) -> bytes:
            if threading.current_thread() is not writer and file is old.file and writer.ident is None:
                writer.start()
                writer.join(1.0)  # until it has ended, or waits for the reader
            return read(file, at, size)

        with monkeypatch.context() as patch:
            patch.setattr(SegmentFile, "read", read_later)
            assert store.load(1, list(left)) == left
        assert len(written) < 200, "the writer has waited for the reader"
        writer.join(60)
        assert len(written) == 200
        assert not store.damaged
        assert store.load(1, list(left)) == left
        assert old not in {run.segment for run in runs_of(store, 1)}, "its messages have been copied"
        assert old.serial not in store._index.segments
        assert used[old.file.path.name] > {old.serial}, "and its file was used again"
        there = {(1, n): body for n, body in left.items()} | {(2, 1199): bytes(30_000), (3, 1): b"x"}
        assert bodies(after_crash(path)) == there


def note(used: dict[str, set[int]], store: JournalStore) -> None:
    """Add the serial of each segment to those that its file has had."""
    for serial, segment in store._index.segments.items():
        used.setdefault(segment.file.path.name, set()).add(serial)


def runs_of(store: JournalStore, queue: int) -> list:
    return [run for segment in store._index.segments.values() for run in segment.runs if run.put.queue == queue]


def test_loads_between_any_two_steps_of_a_writer_give_what_is_there(path: Path) -> None:
    """Segments are left, compacted, freed and used again meanwhile."""
    with closing(opened(path)) as store:
        there: dict[int, bytes] = {}
        used: dict[str, set[int]] = {}

        def check() -> None:
            loaded = store.load(1, list(there))
            assert loaded == there
            assert not store.damaged

        for number in range(400):
            there[number] = b"%d " % number * 1200
            store.put(1, number, there[number])
            gone = number - 12
            if gone in there and gone % 25:  # a few stay
                store.remove(1, gone)
                del there[gone]
            write(store)
            check()
            note(used, store)
        write_all(store)
        check()
        assert any(len(serials) > 3 for serials in used.values()), "files were used again"
        assert bodies(after_crash(path)) == {(1, n): body for n, body in there.items()}


@pytest.mark.parametrize("step", ["put", "remove"])
def test_reserve_is_left_alone_while_a_backup_reads_and_segments_cannot_be_freed(path: Path, step: str) -> None:
    """It is for a full disk."""
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 1))
        store.put(1, 1, b"x")
        write_all(store)
        reserve = [file.path for file in store._segments.free]
        assert len(reserve) == 2
        with pinned_journal(path):
            for number in range(2, 60):
                store.put(1, number, bytes(SEGMENT // 3))
                if step == "remove":
                    store.remove(1, number - 1)
                written = write(store)
                assert (written.fault, written.removed) == (None, True)
                assert [file.path for file in store._segments.free] == reserve
                assert not store.full
            assert len(files(path)) > 20, "nothing is freed"
        write_all(store)
        assert [file.path for file in store._segments.free][:2] == reserve
