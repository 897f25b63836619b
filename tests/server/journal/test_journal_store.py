"""The store on a journal: written messages are recovered, complete and in order, whatever became of the others."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread

import pytest

from brokers.engine.values.message import number_of
from brokers.server.journal import journal_writer, open_files
from brokers.server.journal.open_files import FileForReading
from brokers.server.journal.reading import JournalReader
from brokers.server.journal.segment_file import Header, SegmentFile
from brokers.server.journal.segments import FREED_AT_ONCE
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import StoreError
from tests.server import message_writer
from tests.server.journal.journals import (
    SEGMENT,
    after_crash,
    bodies,
    content,
    files,
    opened,
    write,
    write_all,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.journal"


@pytest.fixture
def store(path: Path) -> Iterator[object]:
    store = opened(path)
    yield store
    store.close()


def test_written_messages_are_recovered_in_order_without_their_bodies(path: Path, monkeypatch) -> None:
    with closing(opened(path)) as store:
        for queue, number, body in ((2, 7, b"seven"), (1, 3, b""), (2, 1, b"one"), (1, 2, b"x" * 100_000)):
            store.put(queue, number, body)
        written = write(store)
        assert (written.ticket, written.messages, written.fault, written.removed) == (1, 4, None, True)
        store.put(1, 4, b"later", 77)
        write(store)
    with closing(opened(path)) as store:
        expected = [(1, 2, 100_000, 0, 0), (1, 3, 0, 0, 0), (1, 4, 5, 0, 77), (2, 1, 3, 0, 0), (2, 7, 5, 0, 0)]
        assert list(store.recover()) == expected
        assert store.load(2, [7, 1, 99]) == {1: b"one", 7: b"seven"}
        assert store.damaged == {(2, 99)}


def test_buffered_messages_are_not_recovered(path: Path) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"lost")
        assert store.pending
    with closing(opened(path)) as store:
        assert content(store) == {}


def test_message_put_and_removed_in_one_group_is_not_stored(store, path: Path) -> None:
    assert store.put(1, 1, b"a") == store.remove(1, 1) == 1
    assert write(store).fault is None
    assert content(store) == after_crash(path) == {}


def test_removals_with_gaps_remove_only_the_named_messages(store, path: Path) -> None:
    for number in range(2000):
        store.put(1, number, b"x")
        store.put(2, number, b"x")
    write(store)
    gone = set(random.Random(4).sample(range(2000), 777))
    for number in gone:
        store.remove(1, number)
        store.remove(1, number)
    store.remove(3, 1)  # there is no such queue
    write(store)
    left = {(1, n) for n in set(range(2000)) - gone} | {(2, n) for n in range(2000)}
    assert set(content(store)) == set(after_crash(path)) == left


def test_failed_deliveries_are_recovered_and_follow_their_message_to_another_segment(store, path: Path) -> None:
    store.put(1, 1, b"poison")
    store.put_run(1, 2, [b"x"] * 10, 10)
    store.fail(1, 1, 1)
    write(store)
    store.fail(1, 1, 2)
    store.fail(1, 5, 3)
    store.fail(1, 99, 5)  # there is no such message
    write(store)
    for number in range(1000, 1100):  # until its segment is copied
        store.put(2, number, bytes(30_000))
        store.remove(2, number)
        write_all(store)
    expected = {(1, n): (b"poison" if n == 1 else b"x", {1: 2, 5: 3}.get(n, 0), 0) for n in range(1, 12)}
    assert content(store) == after_crash(path) == expected
    assert len(files(path)) < 12


def test_dropped_queue_is_gone_at_once_and_after_a_crash(store, path: Path) -> None:
    for number in range(3000):
        store.put(5, number, b"x" * 100, 0 if number % 2 else 1_900_000_000_000)
    store.put(6, 1, b"stays")
    store.name_queue(5, "five")
    store.name_queue(6, "six")
    write(store)
    store.drop_queue(5)
    assert write(store).removed
    assert bodies(content(store)) == bodies(after_crash(path)) == {(6, 1): b"stays"}
    with closing(store):
        pass
    with closing(opened(path)) as again:
        assert again.names == {6: "six"}


def test_used_bytes_follow_the_stored_messages_and_not_the_files(store) -> None:
    empty = store.used_bytes
    for number in range(1000):
        store.put(1, number, b"x" * 1000)
    assert store.pending_bytes > 1_000_000
    write_all(store)
    assert store.pending_bytes == 0
    assert 1_000_000 < store.used_bytes - empty < 2_000_000
    store.remove_run(1, range(1000))
    write(store)
    assert store.used_bytes == empty


def test_files_are_used_again(store, path: Path) -> None:
    for number in range(500):
        store.put(1, number, bytes(10_000))
        if number >= 3:
            store.remove(1, number - 3)
        write_all(store)
    assert len(files(path)) <= 8
    assert set(content(store)) == set(after_crash(path)) == {(1, 497), (1, 498), (1, 499)}


def test_space_of_a_purged_queue_is_returned_also_if_the_broker_is_started_before_it_was(path: Path) -> None:
    store = opened(path)
    store.put(2, 1, b"stays")
    for number in range(100):
        store.put(1, number, bytes(SEGMENT // 2))
        write_all(store)
    store.remove_run(1, list(range(100)))
    write_all(store)
    shutil.copytree(path, path.with_name("killed"))
    store.close()
    for folder in (path, path.with_name("killed")):
        assert len(files(folder)) > 90
        with closing(opened(folder)) as store:
            expected = {(2, 1): b"stays"}
            for number in range(200, 204):
                expected[1, number] = bytes(SEGMENT // 2)
                store.put(1, number, expected[1, number])
                write_all(store)
            assert bodies(content(store)) == expected
            assert len(files(folder)) <= len(store._index.segments) * 5 // 4 + 4
            assert bodies(after_crash(folder)) == expected


def test_purge_of_many_segments_delays_no_group_by_more_than_a_few_of_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[Path] = []
    write_header, unlink = SegmentFile.write_header, Path.unlink

    def counted(file: SegmentFile, header: Header, *group: list[bytes]) -> None:
        if not header.used:
            freed.append(file.path)
        write_header(file, header, *group)

    def deleted(file: Path, **how: bool) -> None:
        freed.append(file)
        unlink(file, **how)

    with closing(opened(path)) as store:
        store.put(2, 1, b"stays")
        for number in range(300):
            store.put(1, number, bytes(SEGMENT // 2))
            write_all(store)
        monkeypatch.setattr(SegmentFile, "write_header", counted)
        monkeypatch.setattr(Path, "unlink", deleted)
        store.remove_run(1, list(range(300)))
        most, unfinished, number, expected = 0, True, 300, {(2, 1): b"stays"}
        while unfinished:
            if number < 320:
                expected[1, number] = bytes(SEGMENT // 2)
                store.put(1, number, expected[1, number])
                number += 1
            freed.clear()
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            most, unfinished = max(most, len(freed)), written.unfinished
            if number == 305:
                assert bodies(content(store)) == bodies(after_crash(path)) == expected
        assert most <= 3 * FREED_AT_ONCE
        assert len(files(path)) < 100, "as many are free as when all were in use"
        assert bodies(content(store)) == bodies(after_crash(path)) == expected


def test_a_group_larger_than_a_segment_has_a_file_of_its_own(store, path: Path) -> None:
    ticket = store.begin(1)
    for number in range(5):
        store.put(1, number, bytes([number]) * SEGMENT)
    store.end()
    written = write(store)
    assert (written.ticket, written.refused) == (ticket, {})
    expected = {(1, n): bytes([n]) * SEGMENT for n in range(5)}
    assert bodies(content(store)) == bodies(after_crash(path)) == expected
    store.remove_run(1, range(5))
    for number in range(10, 100):
        store.put(2, number, bytes(20_000))
        store.remove(2, number)
        write_all(store)
    assert max(file.stat().st_size for file in files(path)) == SEGMENT


def test_a_few_old_messages_do_not_pin_files(store, path: Path) -> None:
    """One message in each segment stays: they are copied together."""
    for number in range(400):
        store.put(1, number, bytes([number % 256]) * 10_000)
        if number >= 20 and number % 20:
            store.remove(1, number - 20)
        write_all(store)
    there = {n for n in range(400) if n >= 380 or (n + 20) % 20 == 0}
    expected = {(1, n): bytes([n % 256]) * 10_000 for n in there}
    assert bodies(content(store)) == bodies(after_crash(path)) == expected
    assert len(files(path)) * SEGMENT < 2 * 10_000 * len(there) + 12 * SEGMENT


def test_removals_of_messages_that_stay_in_full_segments_do_not_pin_the_segments_they_are_in(store, path) -> None:
    """A large backlog loses a message now and then, while others come and go."""
    for number in range(600):
        store.put(1, number, bytes([number % 256]) * 1000)
    write_all(store)
    there = set(range(600))
    for number in range(1000, 1300):
        store.put(2, number, bytes(30_000))
        store.remove(2, number)
        if number % 10 == 0:
            gone = (number - 1000) * 2 % 600
            store.remove(1, gone)
            there.discard(gone)
        write_all(store)
    expected = {(1, n): bytes([n % 256]) * 1000 for n in there}
    assert bodies(content(store)) == bodies(after_crash(path)) == expected
    assert len(files(path)) <= 2 * 600_000 // SEGMENT + 10


def test_a_message_is_moved_in_one_change_with_another_body(store, path: Path) -> None:
    store.put(1, 1, b"dead")
    store.fail(1, 1, 3)
    write(store)
    ticket = store.move((1, 1), (2, 5), b"dead letter", 9)
    assert list(store.recover()) == [(1, 1, 4, 3, 0)]
    store.put(2, 6, b"next")
    written = write(store)
    assert (written.ticket, written.messages, written.removed) == (ticket, 1, True)
    assert content(store) == after_crash(path) == {(2, 5): (b"dead letter", 0, 9), (2, 6): (b"next", 0, 0)}
    store.move((2, 5), (1, 7), b"back", 0)
    store.remove(1, 7)
    write(store)
    assert bodies(content(store)) == bodies(after_crash(path)) == {(2, 6): b"next"}


@pytest.mark.parametrize("more", [1, 20])
def test_numbers_that_are_assigned_again_after_a_restart_are_other_messages(path: Path, more: int) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"old %d" % n for n in range(1, 21)], 100)
        store.remove_run(1, [5, 18, 19, 20])
        write(store)
    with closing(opened(path)) as store:
        new = {(1, n): b"new %d" % n for n in range(18, 18 + more)}
        store.put_run(1, 18, list(new.values()), 100)
        store.fail(1, 18, 2)
        write(store)
        old = {(1, n): b"old %d" % n for n in range(1, 18) if n != 5}
        assert bodies(content(store)) == bodies(after_crash(path)) == old | new
        assert content(store)[1, 18][1] == 2
        store.remove_run(1, [17, *range(18, 18 + more)])
        write(store)
        del old[1, 17]
        assert bodies(content(store)) == bodies(after_crash(path)) == old
        store.remove_run(1, range(1, 17))
        write_all(store)
        assert content(store) == after_crash(path) == {}


def test_priorities_are_recovered_in_order(store, path: Path) -> None:
    numbers = [number_of(n, priority) for n, priority in zip(range(1, 40), [4, 9, 0, 4, 5] * 8, strict=False)]
    for number in numbers:
        store.put(1, number, b"%d" % number)
        write(store)
    for number in numbers[::3]:
        store.remove(1, number)
    write(store)
    assert [n for _, n in content(store)] == sorted(set(numbers) - set(numbers[::3]))
    assert content(store) == after_crash(path)


def test_a_large_buffer_is_split_into_groups_with_tickets_of_their_own(path: Path) -> None:
    with closing(opened(path, group_bytes=250_000)) as store:
        assert [store.put(1, number, b"x" * 200_000) for number in range(6)] == [1, 1, 2, 2, 3, 3]
        write_all(store)
        assert len(content(store)) == 6


def test_long_runs_are_split_and_the_callers_list_stays_as_it_is(store, path: Path) -> None:
    given = [b"%d" % n for n in range(3 * journal_writer.RUN_MESSAGES + 7)]
    before = list(given)
    store.put_run(1, 1, given, sum(map(len, given)))
    store.put(1, 1 + len(given), b"behind")
    write(store)
    assert given == before
    assert list(bodies(content(store)).values()) == [*given, b"behind"]
    assert content(store) == after_crash(path)


def test_temporary_store_starts_empty_and_reserves_nothing(path: Path) -> None:
    with closing(opened(path, durable=False)) as store:
        assert files(path) == []
        store.put(1, 1, b"spooled")
        write(store)
        assert store.load(1, [1]) == {1: b"spooled"}
    with closing(opened(path, durable=False)) as store:
        assert content(store) == {}


def opened_files(folder: Path) -> int:
    return len([each for each in Path("/proc/self/fd").iterdir() if str(folder) in os.path.realpath(each)])


def test_few_files_stay_open_however_many_are_read_in_however_many_stores(path: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(opened(tmp_path / f"{n}.journal"))) for n in range(4)]
        for store in stores:
            for number in range(10, 50):
                store.put(1, number, b"%d" % number * 20_000)
                write_all(store)
            assert len(files(store.path)) > 30
        assert opened_files(tmp_path) <= 3 * len(stores), "of each a head, and two locks"
        for _ in range(2):
            for number in range(10, 50):
                for store in stores:
                    assert store.load(1, [number]) == {number: b"%d" % number * 20_000}
            assert opened_files(tmp_path) <= open_files.MOST + 3 * len(stores)
        with closing(JournalReader(stores[0].path)) as reader:
            for number in range(10, 50):
                assert reader.load(1, [number]) == {number: b"%d" % number * 20_000}
            assert opened_files(tmp_path) <= open_files.MOST + 3 * len(stores)
        for store in stores:
            store.remove_run(1, range(10, 50))
            write_all(store)
        assert opened_files(tmp_path) <= 4 * len(stores), "besides, of each what was read of the head"
    assert opened_files(tmp_path) == 0


def test_a_file_that_is_being_read_is_not_closed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to open others, nor if it is closed: only once it has been read."""
    monkeypatch.setattr(open_files, "MOST", 2)
    for name in ("read", *map(str, range(5))):
        (tmp_path / name).write_bytes(name.encode() * 9)
    others = [FileForReading(tmp_path / str(n)) for n in range(5)]
    begun, may_end, pread = Event(), Event(), os.pread

    def waiting(descriptor: int, size: int, at: int) -> bytes:
        if current_thread() is not main_thread():
            begun.set()
            assert may_end.wait(60)
        return pread(descriptor, size, at)

    monkeypatch.setattr(os, "pread", waiting)
    file, data = FileForReading(tmp_path / "read"), list[bytes]()
    thread = Thread(target=lambda: data.append(file.read(0, 8)))
    thread.start()
    assert begun.wait(60)
    for other in others:
        assert other.read(0, 2)
    file.close()
    assert 1 <= opened_files(tmp_path) <= 3
    may_end.set()
    thread.join()
    assert data == [b"readread"]
    for other in others:
        other.close()
    assert opened_files(tmp_path) == 0


def test_a_file_where_the_folder_should_be_is_refused_by_name(path: Path) -> None:
    path.write_bytes(b"no journal at all")
    with pytest.raises(StoreError, match=str(path)):
        opened(path)


def test_files_that_are_no_segments_are_named_and_stay(path: Path) -> None:
    path.mkdir()
    file = path / "00000001.segment"
    file.write_bytes(b"no segment at all, but long enough to be looked at as one" * 2000)
    content = file.read_bytes()
    for _ in range(2):
        with closing(opened(path)) as store:
            assert [text for text in store.findings if str(file) in text]
            store.put(1, 1, b"x")
            write_all(store)
            store.remove(1, 1)
            write_all(store)
    assert file.read_bytes() == content


def test_one_process_at_a_time_uses_a_folder(store, path: Path) -> None:
    with pytest.raises(StoreError, match="in use by another broker process"):
        opened(path)


def test_the_stamp_survives_and_knows_the_highest_queue(path: Path) -> None:
    with closing(opened(path)) as store:
        assert store.stamp() is None
        store.set_stamp(Stamp("id", "a", 3))
        store.put(17, 1, b"x")
        write(store)
        store.remove(17, 1)
        for number in range(100):  # until nothing is left of queue 17
            store.put(2, number, bytes(10_000))
            store.remove(2, number)
            write_all(store)
    with closing(opened(path)) as store:
        assert store.stamp() == Stamp("id", "a", 3, 17)
        store.set_stamp(Stamp("id", "a", 4))
        assert store.stamp() == Stamp("id", "a", 4, 17)


def test_transactions_are_written_whole_with_their_group(store, path: Path) -> None:
    store.put(1, 1, b"first")
    write(store)
    store.put(1, 2, b"with it")
    ticket = store.begin(7)
    assert store.put(1, 3, b"in it", 88) == store.remove(1, 1) == ticket
    store.end()
    store.put(1, 4, b"behind")
    written = write(store)
    assert (written.messages, written.fault, written.refused, written.removed) == (2, None, {}, True)
    expected = {(1, 2): (b"with it", 0, 0), (1, 3): (b"in it", 0, 88), (1, 4): (b"behind", 0, 0)}
    assert content(store) == after_crash(path) == expected


def test_killed_writer_leaves_exactly_the_groups_that_it_had_confirmed(path: Path) -> None:
    random_ = random.Random(20)
    done = 0
    for _ in range(12):
        command = [sys.executable, "-m", "tests.server.message_writer", str(path), str(done + 1)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        confirmed = writer.stdout.readline()  # it has begun
        assert confirmed, "the writer ended before it was killed"
        time.sleep(random_.uniform(0, 0.08))
        writer.kill()
        confirmed = (confirmed + writer.stdout.read()).splitlines()[-1]
        writer.wait()
        writer.stdout.close()
        with closing(opened(path)) as store:
            found = bodies(content(store))
            done = int(confirmed)
            if set(found) != message_writer.stored_after(done):
                done += 1  # it was written, and the writer killed before it could confirm
            assert found == {place: message_writer.body_of(*place) for place in message_writer.stored_after(done)}
            assert store.findings == []
    assert done > 12
    assert len(files(path)) < 20
