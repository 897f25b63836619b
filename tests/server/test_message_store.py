"""The message store: written messages are recovered, complete and in order; failures are reported and isolated."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.engine.values.message import number_of, sequence_of
from brokers.server.group_writer import DROP_ROWS
from brokers.server.message_file import PAGE_BYTES
from brokers.server.message_groups import Changes, Written
from brokers.server.message_store import MessageStore
from brokers.server.sqlite_file import StoreError
from tests.server import message_writer

RESERVE = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    store = MessageStore(path, reserve_bytes=RESERVE)
    yield store
    store.close()


def write(store: MessageStore) -> Written:
    return store.write(store.take())


def write_all(store: MessageStore) -> None:
    while store.pending:
        written = write(store)
        assert (written.fault, written.removed) == (None, True)


def test_written_messages_are_recovered_in_order_without_their_bodies(path: Path) -> None:
    store = MessageStore(path, reserve_bytes=RESERVE)
    for queue, number, body in ((2, 7, b"seven"), (1, 3, b""), (2, 1, b"one"), (1, 2, b"x" * 100_000)):
        store.put(queue, number, body)
    written = write(store)
    assert (written.ticket, written.messages, written.fault, written.removed) == (1, 4, None, True)
    store.close()

    store = MessageStore(path, reserve_bytes=RESERVE)
    assert list(store.recover()) == [
        (1, 2, 100_000, 0, 0),
        (1, 3, 0, 0, 0),
        (2, 1, 3, 0, 0),
        (2, 7, 5, 0, 0),
    ]
    assert store.load(2, [7, 1, 99]) == {1: b"one", 7: b"seven"}
    store.close()


def test_buffered_messages_are_not_recovered(path: Path) -> None:
    store = MessageStore(path, reserve_bytes=RESERVE)
    store.put(1, 1, b"lost")
    assert store.pending
    store.close()
    assert list(MessageStore(path, reserve_bytes=RESERVE).recover()) == []


def test_message_put_and_removed_in_one_group_is_not_stored(store: MessageStore) -> None:
    assert store.put(1, 1, b"a") == store.remove(1, 1) == 1
    assert write(store).fault is None
    assert list(store.recover()) == []


def test_removals_with_gaps_remove_only_the_named_messages(store: MessageStore) -> None:
    for number in range(2000):
        store.put(1, number, b"x")
        store.put(2, number, b"x")
    write(store)
    gone = set(random.Random(4).sample(range(2000), 777))
    for number in gone:
        store.remove(1, number)
        store.remove(1, number)
    write(store)
    assert [n for q, n, *_ in store.recover() if q == 1] == sorted(set(range(2000)) - gone)
    assert sum(1 for q, *_ in store.recover() if q == 2) == 2000


def test_failed_deliveries_are_recovered(store: MessageStore) -> None:
    store.put(1, 1, b"poison")
    store.fail(1, 1, 1)
    write(store)
    store.fail(1, 1, 2)
    store.fail(1, 99, 5)  # there is no such message
    write(store)
    assert list(store.recover()) == [(1, 1, 6, 2, 0)]


def test_dropped_queue_is_removed_in_parts_without_affecting_others(store: MessageStore) -> None:
    for number in range(DROP_ROWS + 10):
        store.put(5, number, b"")
    for number in range(DROP_ROWS + 10, 2 * DROP_ROWS + 10):
        store.put(5, number, b"", 1_900_000_000_000)  # stored singly
    store.put(6, 1, b"stays")
    write(store)
    store.drop_queue(5)
    written = [write(store)]
    while written[-1].unfinished:
        written.append(write(store))
    assert len(written) == 3
    assert list(store.recover()) == [(6, 1, 5, 0, 0)]


def test_used_bytes_follow_the_stored_messages_and_not_the_file_size(store: MessageStore) -> None:
    empty = store.used_bytes
    for number in range(1000):
        store.put(1, number, b"x" * 1000)
    write_all(store)
    assert 1_000_000 < store.used_bytes - empty < 2_000_000
    for number in range(1000):
        store.remove(1, number)
    write(store)
    assert store.used_bytes - empty <= 4 * PAGE_BYTES


def test_a_large_buffer_is_split_into_groups_with_tickets_of_their_own(store: MessageStore) -> None:
    tickets = [store.put(1, number, b"x" * 200_000) for number in range(6)]
    assert tickets == [1, 1, 2, 2, 3, 3]
    assert store.remove(1, 0) == 3
    write_all(store)
    assert [n for _, n, *_ in store.recover()] == [1, 2, 3, 4, 5]


def test_a_run_is_stored_like_single_messages_in_one_group(path: Path) -> None:
    """The same rows byte for byte, whichever call has put them: the file's format is the same."""
    bodies = [b"", b"x" * 10, b"y" * (PAGE_BYTES // 4 + 1), b"z" * 100_000]
    rows = []
    for run in (True, False):
        store = MessageStore(path.with_name(f"{run}.sqlite3"), reserve_bytes=RESERVE)
        before = store.put(1, 1, b"before")
        if run:
            tickets = {store.put_run(1, 2, bodies, sum(map(len, bodies)))}
        else:
            tickets = {store.put(1, number, body) for number, body in enumerate(bodies, 2)}
        assert tickets == {before}
        pending = store.pending_bytes
        assert pending > 100_000
        written = write(store)
        assert (written.ticket, written.messages, written.fault) == (before, 5, None)
        assert store.pending_bytes == 0
        assert store.load(1, [2, 3, 4, 5]) == dict(enumerate(bodies, 2))
        rows.append((pending, sorted(store._db.execute("SELECT * FROM message"))))
        store.close()
    assert rows[0] == rows[1]


def test_a_run_of_removals_removes_what_is_written_and_what_is_buffered(store: MessageStore) -> None:
    store.put_run(1, 1, [b"a"] * 6, 6)
    write(store)
    store.put_run(1, 7, [b"b"] * 4, 4)
    ticket = store.remove_run(1, [2, 4, 7, 8, 99])
    store.remove(1, 10)
    written = write(store)
    assert (written.ticket, written.removed) == (ticket, True)
    assert stored(store) == [1, 3, 5, 6, 9]


def test_runs_share_groups_up_to_their_size_and_a_run_is_never_split(store: MessageStore) -> None:
    run = [b"x" * 50_000] * 8
    assert [store.put_run(1, 1 + 8 * number, run, 400_000) for number in range(3)] == [1, 2, 3]
    small = [store.put_run(2, 1 + 2 * number, [b"x", b"y"], 2) for number in range(3)]
    assert small == [4, 4, 4]
    groups = []
    while store.pending:
        groups.append(write(store).messages)
    assert groups == [8, 8, 8, 6]


def test_temporary_store_starts_empty(path: Path) -> None:
    store = MessageStore(path, durable=False)
    store.put(1, 1, b"spooled")
    write(store)
    assert store.load(1, [1]) == {1: b"spooled"}
    store.close()
    store = MessageStore(path, durable=False)
    assert list(store.recover()) == []
    assert not path.with_name(path.name + "-reserve").exists()
    store.close()


def test_a_file_of_another_kind_is_refused_by_name(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be looked at as one" * 20)
    with pytest.raises(StoreError, match=str(path)):
        MessageStore(path)


# -- kill -9 ------------------------------------------------------------------------------------------------------


def test_killed_writer_leaves_exactly_the_groups_that_it_had_confirmed(path: Path) -> None:
    random_ = random.Random(20)
    done = 0
    for _ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.server.message_writer", str(path), str(done + 1)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        confirmed = writer.stdout.readline()  # it has begun
        assert confirmed, "the writer ended before it was killed"
        time.sleep(random_.uniform(0, 0.08))
        writer.kill()
        confirmed = (confirmed + writer.stdout.read()).splitlines()[-1]
        writer.wait()
        writer.stdout.close()

        store = MessageStore(path, reserve_bytes=RESERVE)
        found = {(queue, number) for queue, number, *_ in store.recover()}
        done = int(confirmed)
        if found != message_writer.stored_after(done):
            done += 1  # it was written, and the writer killed before it could confirm
        assert found == message_writer.stored_after(done)
        for queue in range(message_writer.QUEUES):
            numbers = sorted(n for q, n in found if q == queue)
            assert store.load(queue, numbers) == {n: message_writer.body_of(queue, n) for n in numbers}
        store.close()
    assert done > 12


# -- a full disk --------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run([str(umount), "--lazy", str(folder)], check=True)  # a failed test has files open


def fill(store: MessageStore, first: int) -> tuple[int, list[int]]:
    """Write groups of 50, of which 20 are a run, until the disk is full: (number after the last stored, numbers that
    were refused)."""
    number = first
    while True:
        group = list(range(number, number + 50))
        bodies = [bytes([each % 256]) * 1000 for each in group]
        for each, body in zip(group[:30], bodies, strict=False):
            store.put(1, each, body)
        store.put_run(1, group[30], bodies[30:], 20_000)
        written = write(store)
        if written.fault is not None:
            assert "full" in str(written.fault)
            assert str(store.path) in str(written.fault)
            return number, group
        number += 50


def stored(store: MessageStore) -> list[int]:
    return [number for _, number, *_ in store.recover()]


def test_a_full_disk_refuses_whole_groups_loses_nothing_and_takes_removals(small_disk: Path) -> None:
    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    end, _ = fill(store, 0)
    assert end > 3000
    assert stored(store) == list(range(end))
    for _ in range(20):  # repeatedly: attempts do not use up the reserve
        end, refused = fill(store, end)
    assert stored(store) == list(range(end))
    assert refused[0] == end
    for number in range(0, end, 2):
        store.remove(1, number)
    written = write(store)
    assert (written.fault, written.removed) == (None, True)
    assert stored(store) == list(range(1, end, 2))
    store.close()

    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    assert stored(store) == list(range(1, end, 2))
    numbers = stored(store)[:300]
    assert store.load(1, numbers) == {n: bytes([n % 256]) * 1000 for n in numbers}
    store.close()


def test_messages_are_taken_again_as_soon_as_consumers_have_made_room(small_disk: Path) -> None:
    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    first, end, present = 0, 0, []
    for _ in range(5):
        end, _ = fill(store, end)
        for number in range(first, end - 100):
            store.remove(1, number)
        assert write(store).removed
        first = end - 100
        present = list(range(first, end))
        assert stored(store) == present
    assert end > 15_000  # several times what the disk holds
    store.close()


def test_a_disk_filled_by_others_is_used_again_when_they_have_gone(small_disk: Path) -> None:
    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    for number in range(1000):
        store.put(1, number, b"x" * 1000)
    write_all(store)
    other = small_disk / "other"
    with pytest.raises(OSError, match="No space"), other.open("wb") as file:
        file.write(bytes(8 << 20))
    end, _ = fill(store, 1000)
    for number in range(500):
        store.remove(1, number)
    assert write(store).removed
    assert stored(store) == list(range(500, end))
    other.unlink()
    store.put(1, end, b"room")
    assert write(store).fault is None
    assert stored(store) == list(range(500, end + 1))
    store.close()


def test_a_message_is_moved_in_one_change_with_another_body(store: MessageStore) -> None:
    store.put(1, 1, b"dead")
    store.fail(1, 1, 3)
    write(store)
    ticket = store.move((1, 1), (2, 5), b"dead letter", 0)
    assert list(store.recover()) == [(1, 1, 4, 3, 0)]
    store.remove(2, 5)
    store.put(2, 6, b"next")
    written = write(store)
    assert (written.ticket, written.messages, written.removed) == (ticket, 1, True)
    assert list(store.recover()) == [(2, 6, 4, 0, 0)]


def test_a_full_disk_moves_messages_and_keeps_them(small_disk: Path) -> None:
    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    end, _ = fill(store, 0)
    for number in range(200):
        store.move((1, number), (2, number), b"y" * 1100)
    written = write(store)
    assert (written.fault, written.removed) == (None, True)
    assert [(q, n) for q, n, *_ in store.recover()] == [
        *((1, number) for number in range(200, end)),
        *((2, number) for number in range(200)),
    ]
    store.close()


def test_a_full_disk_moves_messages_of_a_queue_that_is_deleted_at_once(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        store.put(1, number, b"moved", 77)
    write(store)
    execute = store.writer.execute

    def small(rows: Any, changes: Changes, *more: Any, **options: Any) -> None:
        """Only small transactions fit on the disk."""
        if len(changes.moved) > 1:
            raise StoreError("the disk is full")
        execute(rows, changes, *more, **options)

    monkeypatch.setattr(store.writer, "execute", small)
    for number in range(4):
        store.move((1, number), (2, number), b"moved", 77)
    store.drop_queue(1)
    write(store)
    write(store)
    assert [(q, n) for q, n, *_ in store.recover()] == [(2, number) for number in range(4)]


def test_a_file_of_the_first_release_opens_with_all_its_messages(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE schema_version (kind TEXT NOT NULL, version INTEGER NOT NULL);"
            "INSERT INTO schema_version VALUES ('headgate-messages', 1);"
            "CREATE TABLE message (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, number INTEGER NOT NULL,"
            " size INTEGER NOT NULL, failed INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL);"
            "CREATE UNIQUE INDEX message_place ON message (queue, number, size, failed);"
            "INSERT INTO message (queue, number, size, failed, body)"
            " VALUES (1, 2, 3, 0, x'616263'), (1, 3, 1, 2, x'64');"
        )
    for _ in range(2):  # it is upgraded once
        store = MessageStore(path, reserve_bytes=RESERVE)
        assert list(store.recover()) == [(1, 2, 3, 0, 0), (1, 3, 1, 2, 0)]
        assert store.load(1, [2, 3]) == {2: b"abc", 3: b"d"}
        store.close()
    store = MessageStore(path, reserve_bytes=RESERVE)
    store.put(1, 4, b"e", 77)
    write(store)
    assert list(store.recover())[-1] == (1, 4, 1, 0, 77)
    store.close()


# -- a model ------------------------------------------------------------------------------------------------------

QUEUES = st.integers(1, 3)
NUMBERS = st.integers(1, 12)


class StoreModel(RuleBasedStateMachine):
    """Against plain dictionaries: what is committed, and what is only buffered. A crash is a copy of the files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "messages.sqlite3"
        self.store = MessageStore(self.path, reserve_bytes=RESERVE)
        self.safe: dict[tuple[int, int], tuple[bytes, int, int]] = {}  # body, failed deliveries, expiry
        self.wanted: dict[tuple[int, int], tuple[bytes, int, int]] = {}
        self.next = dict.fromkeys(range(1, 4), 1)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(
        queue=QUEUES,
        body=st.binary(max_size=40),
        times=st.integers(1, 300),
        priority=st.sampled_from([4, 4, 0, 9]),
        expires=st.sampled_from([0, 0, 1_700_000_000_000]),
    )
    def put(self, queue: int, body: bytes, times: int, priority: int, expires: int) -> None:
        for _ in range(times):
            number = self.number(queue, priority)
            self.store.put(queue, number, body, expires)
            self.wanted[queue, number] = (body, 0, expires)

    @rule(queue=QUEUES, bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=300))
    def put_run(self, queue: int, bodies: list[bytes]) -> None:
        numbers = [self.number(queue, 4) for _ in bodies]
        self.store.put_run(queue, numbers[0], bodies, sum(map(len, bodies)))
        self.wanted.update({(queue, n): (body, 0, 0) for n, body in zip(numbers, bodies, strict=True)})

    def number(self, queue: int, priority: int) -> int:
        sequence, self.next[queue] = self.next[queue], self.next[queue] + 1
        return number_of(sequence, priority)

    @rule(queue=QUEUES, to=QUEUES, body=st.binary(max_size=40), data=st.data())
    def move(self, queue: int, to: int, body: bytes, data: st.DataObject) -> None:
        """Of written messages only, and none is moved or removed again before that is written."""
        there = sorted(place for place in self.safe if place in self.wanted and place[0] == queue)
        for place in there[: data.draw(st.integers(0, len(there)))]:
            new_place = (to, self.number(to, 4))
            self.store.move(place, new_place, body, 7)
            del self.wanted[place]
            self.wanted[new_place] = (body, 0, 7)

    @rule(queue=QUEUES, every=st.integers(1, 4), data=st.data())
    def remove(self, queue: int, every: int, data: st.DataObject) -> None:
        there = sorted(n for q, n in self.wanted if q == queue)
        for number in there[: data.draw(st.integers(0, len(there))) : every]:
            self.store.remove(queue, number)
            del self.wanted[queue, number]

    @rule(queue=QUEUES, data=st.data())
    def remove_run(self, queue: int, data: st.DataObject) -> None:
        there = sorted(n for q, n in self.wanted if q == queue)
        if there:
            numbers = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=60, unique=True))
            self.store.remove_run(queue, numbers)
            for number in numbers:
                del self.wanted[queue, number]

    @rule(queue=QUEUES, number=NUMBERS, count=st.integers(1, 9))
    def fail(self, queue: int, number: int, count: int) -> None:
        if (queue, number) in self.wanted:
            self.store.fail(queue, number, count)
            body, _, expires = self.wanted[queue, number]
            self.wanted[queue, number] = (body, count, expires)

    @rule()
    def write(self) -> None:
        while self.store.pending:
            written = write(self.store)
            assert (written.fault, written.removed, written.unfinished) == (None, True, False)
        self.safe = dict(self.wanted)

    @rule()
    def crash(self) -> None:
        after = self.folder / "after"
        shutil.rmtree(after, ignore_errors=True)
        after.mkdir()
        for file in self.folder.glob("messages.sqlite3*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, after)
        self.store.close()
        shutil.copytree(after, self.folder, dirs_exist_ok=True)
        self.store = MessageStore(self.path, reserve_bytes=RESERVE)
        self.wanted = dict(self.safe)
        for queue in self.next:  # like the engine: numbers of messages that are gone are assigned again
            self.next[queue] = 1 + max([sequence_of(n) for q, n in self.wanted if q == queue], default=0)

    @invariant()
    def what_is_safe_is_there(self) -> None:
        found = list(self.store.recover())
        assert found == sorted(
            (*place, len(body), failed, expires) for place, (body, failed, expires) in self.safe.items()
        )
        for queue in range(1, 4):
            numbers = [n for q, n, *_ in found if q == queue]
            assert self.store.load(queue, numbers) == {n: self.safe[queue, n][0] for n in numbers}


StoreModel.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestStoreModel = StoreModel.TestCase
