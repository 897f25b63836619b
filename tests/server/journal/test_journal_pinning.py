"""Copies of journals that are written meanwhile: what they have is of one moment, whatever the writer does, which is
never delayed."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from brokers.server.journal import pinning, reading_lock
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.pinning import Changed, pinned_journal
from brokers.server.journal.segment_file import CONTENT
from brokers.server.journal.stamp_file import Stamp, read_stamp
from brokers.server.sqlite_file import StoreError
from tests.server.journal.journals import SEGMENT, Disk, Stored, after_crash, content, files, opened, write, write_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def nothing() -> None:
    pass


class Traffic:
    """Random messages and removals; segments are filled, freed, used again and compacted."""

    def __init__(self, store: JournalStore, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.there: list[tuple[int, int]] = []
        self.next = 1

    def go(self, groups: int) -> None:
        for _ in range(groups):
            queue = self.chance.choice((1, 2))
            bodies = [self.chance.randbytes(self.chance.randrange(3000)) for _ in range(4)]
            self.store.put_run(queue, self.next, bodies, sum(map(len, bodies)))
            self.there += [(queue, self.next + at) for at in range(4)]
            self.next += 4
            for _ in range(self.chance.choice((0, 3, 4, 8))):
                if self.there:
                    at = 0 if self.chance.random() < 0.9 else self.chance.randrange(len(self.there))
                    self.store.remove(*self.there.pop(at))
            written = write(self.store)
            assert (written.fault, written.removed) == (None, True)


def of_copy(folder: Path) -> Stored:
    with closing(opened(folder)) as store:
        assert store.findings == []
        found = content(store)
        store.put(9, 1, b"it goes on")
        write_all(store)
    found[9, 1] = b"it goes on", 0, 0
    assert after_crash(folder) == found
    del found[9, 1]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_copy_has_what_there_was_when_it_was_pinned(path: Path, tmp_path: Path, seed: int) -> None:
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 3))
        traffic = Traffic(store, seed)
        traffic.go(60)
        for number in range(4):
            copy = tmp_path / f"copy-{number}"
            with pinned_journal(path) as pinned:
                there = content(store)
                traffic.go(40)
                pinned.copy(copy, nothing)
                traffic.go(1)
            assert read_stamp(copy)[0] == Stamp("me", "default", 3)
            assert of_copy(copy) == there
            traffic.go(30)
        assert content(store) == after_crash(path)
        assert len(files(path)) < 25, "what was not freed meanwhile is freed afterwards"


def test_copy_of_a_journal_whose_segments_were_freed_and_used_again_before_is_whole(path: Path, tmp_path: Path) -> None:
    """What its list names and is free since has to be known to be free."""
    with closing(opened(path)) as store:
        for number in range(40):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
            if number > 5:
                store.remove(1, number - 5)
                write_all(store)
        with pinned_journal(path) as pinned:
            there = content(store)
            pinned.copy(tmp_path / "copy", nothing)
    assert of_copy(tmp_path / "copy") == there


def test_copy_of_an_empty_journal_is_one(path: Path, tmp_path: Path) -> None:
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 1))
        with pinned_journal(path) as pinned:
            pinned.copy(tmp_path / "copy", nothing)
    assert files(tmp_path / "copy"), "a journal without any file has lost them"
    assert sum(file.stat().st_size for file in files(tmp_path / "copy")) == 0
    assert of_copy(tmp_path / "copy") == {}


def test_files_that_are_not_in_use_are_copied_as_headers_alone(path: Path, tmp_path: Path) -> None:
    with closing(opened(path)) as store:
        for number in range(30):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
        store.remove_run(1, range(29))
        write_all(store)
        with pinned_journal(path) as pinned:
            pinned.copy(tmp_path / "copy", nothing)
    sizes = sorted(file.stat().st_size for file in files(tmp_path / "copy"))
    assert sizes.count(CONTENT) >= 2
    assert sizes.count(SEGMENT) <= 2


def test_group_that_is_being_written_is_not_in_the_copy(path: Path, tmp_path: Path) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"whole" * 200)
        write_all(store)
        end = store._segments.head.end
        store.put(1, 2, b"half" * 200)
        write_all(store)
        head = store._segments.head.file.path
        written = bytearray(head.read_bytes())
        written[end + 400 : end + 900] = bytes(500)
        shutil.copytree(path, tmp_path / "torn")
        (tmp_path / "torn" / head.name).write_bytes(written)
    with pinned_journal(tmp_path / "torn") as pinned:
        pinned.copy(tmp_path / "copy", nothing)
    assert of_copy(tmp_path / "copy") == {(1, 1): (b"whole" * 200, 0, 0)}


def test_two_segments_that_become_the_newest_one_while_headers_are_read_are_both_seen(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        write_all(store)
        whole, calls = pinning._states, []

        def states(folder: Path, names: dict[str, int] | None = None) -> object:
            for name, state in whole(folder, names):
                calls.append(name)
                if len(calls) == 1:  # the first file is read: it is free
                    for number in range(2, 9):
                        store.put(1, number, bytes(SEGMENT - 1000 - CONTENT))
                        write_all(store)
                yield name, state

        monkeypatch.setattr(pinning, "_states", states)
        with pinned_journal(path) as pinned:
            pinned.copy(tmp_path / "copy", nothing)
        there = content(store)
    assert of_copy(tmp_path / "copy") == there


# -- the writer -------------------------------------------------------------------------------------------------------


def drain(store: JournalStore, numbers: range) -> None:
    for number in numbers:
        store.remove(1, number)
        write_all(store)


def test_no_segment_is_freed_while_a_journal_is_read_and_all_are_afterwards(path: Path) -> None:
    with closing(opened(path)) as store:
        for number in range(30):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
        with pinned_journal(path), pinned_journal(path):
            before = store._segments.used_files
            drain(store, range(30))
            assert store._segments.used_files == before
        store.put(1, 99, b"x")
        write_all(store)
        assert store._segments.used_files <= 2


def test_full_disk_frees_segments_of_which_copies_are_made_and_these_notice_it(
    path: Path, tmp_path: Path, disk: Disk
) -> None:
    with closing(opened(path)) as store:
        for number in range(30):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
        with ExitStack() as stack:
            pinned = stack.enter_context(pinned_journal(path))
            disk.room = len(files(path))
            drain(store, range(29))
            for number in range(100, 130):  # each is taken: a backup that hangs costs no client anything
                store.put(1, number, bytes(SEGMENT // 3))
                write_all(store)
                assert not store.full
                store.remove(1, number - 1)
            with pytest.raises(Changed, match="was freed while it was copied"):
                pinned.copy(tmp_path / "copy", nothing)
        write_all(store)
        assert after_crash(path) == content(store)


def test_process_that_is_killed_while_it_reads_delays_nothing(path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from brokers.server.journal.pinning import pinned_journal\n"
        "with pinned_journal(Path(sys.argv[1])): print('pinned', flush=True); time.sleep(600)"
    )
    with closing(opened(path)) as store:
        for number in range(9):
            store.put(1, number, bytes(SEGMENT // 3))
            write_all(store)
        with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"pinned\n"
            before = store._segments.used_files
            drain(store, range(8))
            assert store._segments.used_files == before
            reader.send_signal(signal.SIGKILL)
        store.put(1, 99, b"x")
        write_all(store)
        assert store._segments.used_files < before


def test_reader_waits_for_a_writer_that_frees_and_not_without_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_lock, "WAIT_SECONDS", 0.0)
    opened(path).close()
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="another process has locked it"), pinned_journal(path):
        pass
    os.close(descriptor)
    with pinned_journal(path):
        pass


def test_segment_that_is_left_while_it_is_pinned_is_the_newest_of_the_copy(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the copy says that there should be another one."""
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("owner", "default", 1, 1))
        for number in (1, 2, 3):
            store.put(1, number, bytes(SEGMENT // 2))
            write_all(store)
        expected, read_listing = content(store), pinning.read_listing

        def left(*given: Any) -> Any:
            store.put(1, 4, bytes(SEGMENT // 2))
            write_all(store)
            return read_listing(*given)

        monkeypatch.setattr(pinning, "read_listing", left)
        with pinned_journal(path) as pinned:
            assert pinned.copy(tmp_path / "copy", nothing) == []
        assert after_crash(path) == content(store) != expected
        assert after_crash(tmp_path / "copy") == expected
