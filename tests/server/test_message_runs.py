"""Runs of messages in the store: nothing that a client sees depends on whether a message is in one, also after a cut
of the log at any byte, flipped bits, removals that leave single messages behind, and an upgrade."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.engine.values.message import DELAYED, number_of
from brokers.server import group_writer, message_file, store_adoption, store_salvage
from brokers.server.checksums import place_mark
from brokers.server.message_file import Stamp
from brokers.server.message_reader import MessageReader
from brokers.server.message_runs import FEWEST, RUN_BYTES, RUN_MESSAGES, SELECT_RUN, Run, read_or_mend
from brokers.server.message_store import MessageStore
from brokers.server.sqlite_file import StoreError
from brokers.server.store_command import main
from brokers.server.store_salvage import mend_store
from brokers.server.store_survey import FOLDER, file_name, read_store
from brokers.server.store_verification import verify
from brokers.server.virtualhost_stores import ReadableStore
from brokers.server.write_ahead_log import mend_log
from tests.server.test_message_store import RESERVE, StoreModel, small_disk, write, write_all

__all__ = ["small_disk"]  # a fixture

Bodies = dict[tuple[int, int], bytes]


def body_of(queue: int, number: int, size: int = 300) -> bytes:
    return random.Random(f"{queue} {number}").randbytes(random.Random(number).randrange(size))


def put(store: MessageStore, queue: int, numbers: range, size: int = 300) -> None:
    bodies = [body_of(queue, number, size) for number in numbers]
    store.put_run(queue, numbers.start, bodies, sum(map(len, bodies)))


def found(store: MessageStore | MessageReader) -> Bodies:
    """All messages, as a broker that starts finds them."""
    entries = store.recover([]) if isinstance(store, MessageReader) else store.recover()
    places = [row[:2] for row in entries]
    bodies: Bodies = {}
    for queue in {queue for queue, _ in places}:
        loaded = store.load(queue, [number for each, number in places if each == queue])
        bodies.update({(queue, number): body for number, body in (loaded or {}).items()})
    return bodies


def expected(queue: int, numbers: range | list[int], size: int = 300) -> Bodies:
    return {(queue, number): body_of(queue, number, size) for number in numbers}


def rows(store: MessageStore, table: str) -> int:
    count: int = store._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages-1.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    store = MessageStore(path, reserve_bytes=RESERVE)
    yield store
    store.close()


# -- what is a run ----------------------------------------------------------------------------------------------------


def test_messages_that_follow_each_other_are_one_row_whichever_call_has_put_them(store: MessageStore) -> None:
    put(store, 1, range(1, 11))
    for number in range(11, 21):
        store.put(1, number, body_of(1, number))
        store.put(2, number, body_of(2, number))
    put(store, 1, range(21, 31))
    write(store)
    assert (rows(store, "run"), rows(store, "run_bodies"), rows(store, "message")) == (2, 2, 0)
    assert found(store) == expected(1, range(1, 31)) | expected(2, range(11, 21))


def test_long_runs_are_split_by_messages_and_by_bytes_and_short_ones_are_single_messages(store: MessageStore) -> None:
    put(store, 1, range(1, 2 * RUN_MESSAGES + FEWEST))
    store.put_run(2, 1, [bytes(RUN_BYTES // 8)] * 20, 20 * RUN_BYTES // 8)
    store.put_run(3, 1, [bytes(2 * RUN_BYTES)] * 2, 4 * RUN_BYTES)
    write_all(store)
    counts = [row[0] for row in store._db.execute("SELECT count FROM run ORDER BY queue, first")]
    assert counts == [RUN_MESSAGES, RUN_MESSAGES, 8, 8, 4]
    assert rows(store, "message") == FEWEST - 1 + 2
    assert len(list(store.recover())) == 2 * RUN_MESSAGES + FEWEST - 1 + 20 + 2


def test_the_callers_list_of_bodies_stays_as_it_is(store: MessageStore) -> None:
    bodies = [b"one", b"two"]
    store.put_run(1, 1, bodies, 6)
    store.put(1, 3, b"three")
    store.put(1, 4, b"four")
    write(store)
    assert bodies == [b"one", b"two"]
    assert found(store) == {(1, 1): b"one", (1, 2): b"two", (1, 3): b"three", (1, 4): b"four"}


def test_messages_that_expire_are_beside_the_runs_and_in_order(store: MessageStore) -> None:
    for number in range(1, 31):
        store.put(1, number, b"x", 77 if number % 10 == 0 else 0)
    write(store)
    assert list(store.recover()) == [(1, n, 1, 0, 77 if n % 10 == 0 else 0) for n in range(1, 31)]
    assert (rows(store, "run"), rows(store, "message")) == (3, 3)


# -- what becomes of its messages -------------------------------------------------------------------------------------


def test_a_run_is_there_until_its_last_message_is_removed(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 101))
    write(store)
    left = list(range(1, 101))
    random.Random(1).shuffle(left)
    while left:
        store.remove_run(1, [left.pop() for _ in range(10)])
        write(store)
        assert found(store) == expected(1, left)
        assert rows(store, "run") == rows(store, "run_bodies") == bool(left)
    assert verify(path) == []


def test_failed_deliveries_and_removals_of_a_run_survive_a_restart(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 21))
    store.fail(1, 3, 1)
    write(store)
    for number, count in ((5, 2), (6, 1), (3, 4), (99, 1)):
        store.fail(1, number, count)
    store.remove_run(1, [1, 2, 6, 7])
    write(store)
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        there = [(number, failed) for _, number, _, failed, _ in again.recover()]
        assert there == [(n, {3: 4, 5: 2}.get(n, 0)) for n in range(1, 21) if n not in (1, 2, 6, 7)]


@pytest.mark.parametrize("more", [1, 20])
def test_numbers_that_are_assigned_again_after_a_restart_are_other_messages(store: MessageStore, more: int) -> None:
    """A start counts on from the last message that is there: messages removed behind it were part of its run."""
    put(store, 1, range(1, 21))
    store.remove_run(1, [5, 18, 19, 20])
    write(store)
    new = [b"new %d" % number for number in range(18, 18 + more)]
    store.put_run(1, 18, new, sum(map(len, new)))
    store.fail(1, 18, 2)
    write(store)
    old = expected(1, [n for n in range(1, 18) if n != 5])
    assert found(store) == old | {(1, 18 + at): body for at, body in enumerate(new)}
    assert [entry[1] for entry in store.recover()] == [*range(1, 5), *range(6, 18 + more)]
    assert [entry[3] for entry in store.recover() if entry[1] == 18] == [2]
    store.remove_run(1, [17, *range(18, 18 + more)])
    write(store)
    assert found(store) == expected(1, [n for n in range(1, 17) if n != 5])
    store.remove_run(1, list(range(1, 17)))
    write(store)
    assert (found(store), rows(store, "run"), rows(store, "message")) == ({}, 0, 0)


def test_messages_are_in_order_where_numbers_were_assigned_again_to_a_run_and_then_singly(
    store: MessageStore, path: Path
) -> None:
    put(store, 1, range(1, 21))
    store.remove_run(1, list(range(11, 21)))
    write(store)
    put(store, 1, range(11, 15))
    write(store)
    store.put(1, 15, b"15")
    store.put(1, 17, b"17")
    write(store)
    assert rows(store, "message") == 2
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert [number for _, number, *_ in again.recover()] == [*range(1, 16), 17]


@pytest.mark.parametrize("count", [0, 68, 96, 257, -1])
def test_a_run_whose_count_was_damaged_does_not_prevent_the_start(store: MessageStore, path: Path, count: int) -> None:
    put(store, 1, range(1, 101))
    store.remove(1, 1)
    write(store)
    put(store, 2, range(1, 11))
    write(store)
    store._db.execute("UPDATE run SET count = ? WHERE queue = 1", (count,))
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert [entry for entry in again.recover() if entry[0] == 2]
        again.remove_run(1, [3, 4])
        again.remove_run(2, list(range(1, 11)))
        written = write(again)
        assert written.removed
        assert not [entry for entry in again.recover() if entry[0] == 2]


def test_removal_of_a_message_whose_number_is_that_of_a_damaged_run_is_not_lost(
    store: MessageStore, path: Path
) -> None:
    """What a start leaves out as damaged does not count, so the numbers of its messages are assigned again."""
    put(store, 1, range(1, 101))
    store.remove(1, 1)
    write(store)
    store._db.execute("UPDATE run SET state = x'0102030405060708'")
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert list(again.recover()) == []
        put(again, 1, range(1, 51))
        again.put(1, 60, b"60")
        write(again)
        again.remove_run(1, [*range(1, 51), 60])
        assert write(again).removed
        assert list(again.recover()) == []


def test_changes_that_could_not_be_written_do_not_replace_newer_ones(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 1, range(1, 11))
    write(store)

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store.writer, "execute", refuse)
        store.fail(1, 3, 1)
        assert not store.write(store.take()).removed
    store.fail(1, 3, 2)
    assert write(store).removed
    assert [failed for _, number, _, failed, _ in store.recover() if number == 3] == [2]


def test_space_that_could_not_be_freed_is_freed_later(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_writer, "SPARE_BYTES", 0)
    monkeypatch.setattr(group_writer, "SPARE_PART", 1 << 40)
    for first in range(1, 1001, 200):
        put(store, 1, range(first, first + 200), 2000)
        write(store)
    runs, thin = store.writer._runs, store.writer._runs.thin

    def refuse() -> None:
        thin()
        raise sqlite3.OperationalError("database or disk is full")

    store.remove_run(1, [number for number in range(1, 1001) if number % 100])
    with monkeypatch.context() as patch:
        patch.setattr(runs, "thin", refuse)
        store.write(store.take())
    spare = runs.spare_bytes
    assert spare > 0
    store.put(2, 1, b"later")
    while write(store).unfinished:
        assert rows(store, "run") < 6
    assert (runs.spare_bytes, rows(store, "run")) == (0, 0)
    assert found(store) == expected(1, list(range(100, 1001, 100)), 2000) | {(2, 1): b"later"}


def test_name_of_a_queue_is_written_also_with_a_group_of_nothing_else(store: MessageStore, path: Path) -> None:
    store.set_stamp(Stamp("owner", "default", 1, 1))
    store.name_queue(7, "orders")
    write(store)
    store.put(7, 1, b"x")
    write(store)
    assert store._db.execute("SELECT * FROM queue").fetchall() == [(7, "orders")]


def test_a_message_of_a_run_is_moved_in_one_change(store: MessageStore) -> None:
    put(store, 1, range(1, 11))
    store.fail(1, 4, 3)
    write(store)
    store.move((1, 4), (2, 1), b"dead letter", 0)
    store.move((1, 5), (2, 2), b"gone again", 0)
    store.remove(2, 2)
    write(store)
    left = [n for n in range(1, 11) if n not in (4, 5)]
    assert found(store) == expected(1, left) | {(2, 1): b"dead letter"}
    assert (2, 1, 11, 0, 0) in list(store.recover())


def test_messages_left_behind_do_not_hold_the_space_of_those_removed(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_writer, "SPARE_BYTES", 0)
    monkeypatch.setattr(group_writer, "SPARE_PART", 1 << 40)
    for first in range(1, 2001, 200):
        store.put_run(1, first, [body_of(1, n, 2000) for n in range(first, first + 200)], 1)
        write_all(store)
    full = store.used_bytes
    left = list(range(50, 2000, 100))
    store.fail(1, 50, 7)
    store.remove_run(1, sorted(set(range(1, 2001)) - set(left)))
    written = [write(store)]
    while written[-1].unfinished:
        assert len(written) < 20
        written.append(write(store))
    assert len(written) > 1, "in steps"
    assert rows(store, "run") == rows(store, "run_bodies") == 0
    assert store.used_bytes < full / 10
    assert found(store) == expected(1, left, 2000)
    assert next(store.recover())[3] == 7


def test_space_of_removed_messages_in_runs_is_used_again_on_a_full_disk(small_disk: Path) -> None:
    store = MessageStore(small_disk / "messages.sqlite3", reserve_bytes=RESERVE)
    number, fault = 0, None
    while fault is None:
        store.put_run(1, number, [bytes([number % 251]) * 1000] * 100, 100_000)
        fault = write(store).fault
        number += 100
    number -= 100
    assert number > 4000
    left = list(range(0, number, 100))
    store.remove_run(1, sorted(set(range(number)) - set(left)))
    written = write(store)
    assert written.removed
    while written.unfinished:
        written = write(store)
    store.put_run(2, 1, [b"y" * 1000] * 1000, 1_000_000)
    assert write(store).fault is None, "there is room again"
    assert [n for q, n, *_ in store.recover() if q == 1] == left
    store.close()


def test_a_reader_finds_messages_that_the_writer_stores_singly_meanwhile(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 1, range(1, 101))
    store.remove_run(1, list(range(1, 91)))
    write(store)
    reader, bodies = store._reader, store._reader._bodies
    thinned = []

    def thin_first(run: Run) -> object:
        if not thinned:
            thinned.append(run)
            store.writer._runs.thin()
        return bodies(run)

    monkeypatch.setattr(reader, "_bodies", thin_first)
    assert store.load(1, list(range(91, 101))) == {n: body_of(1, n) for n in range(91, 101)}
    assert thinned
    assert not store.damaged
    assert rows(store, "run") == 0


class ThinnedModel(StoreModel):
    """The same model, with runs that are stored singly as soon as they are half gone."""

    def __init__(self) -> None:
        self.limits = group_writer.SPARE_BYTES, group_writer.SPARE_PART
        group_writer.SPARE_BYTES, group_writer.SPARE_PART = 0, 1 << 40
        super().__init__()

    def teardown(self) -> None:
        group_writer.SPARE_BYTES, group_writer.SPARE_PART = self.limits
        super().teardown()


ThinnedModel.TestCase.settings = StoreModel.TestCase.settings
TestThinnedModel = ThinnedModel.TestCase


# -- a cut of the log, and flipped bits -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_log_cut_at_every_byte_recovers_a_prefix_with_all_that_was_confirmed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_file, "PAGE_BYTES", 512)
    path, cut = tmp_path / "messages.sqlite3", tmp_path / "cut.sqlite3"
    store = MessageStore(path, reserve_bytes=RESERVE)
    log = path.with_name(path.name + "-wal")
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    content: Bodies = {}
    after: list[tuple[int, Bodies]] = [(0, {})]  # length of the log, what is stored
    for group in range(3):
        put(store, 1, range(20 * group, 20 * group + 8), 20)
        store.put(2, group, b"alone")
        content |= expected(1, range(20 * group, 20 * group + 8), 20) | {(2, group): b"alone"}
        if group:
            store.remove_run(1, [20 * group - 20, 20 * group - 18])
            store.fail(1, 20 * group - 17, group)
            content.pop((1, 20 * group - 20))
            content.pop((1, 20 * group - 18))
        write(store)
        after.append((log.stat().st_size, dict(content)))
    base, whole = path.read_bytes(), log.read_bytes()
    store.close()
    assert len(after) == len({size for size, _ in after})
    for size in range(len(whole) + 1):
        for each in tmp_path.glob("cut.sqlite3*"):
            each.unlink()
        cut.write_bytes(base)
        cut.with_name(cut.name + "-wal").write_bytes(whole[:size])
        mend_log(cut)
        with contextlib.closing(sqlite3.connect(cut, isolation_level=None)) as again:
            assert found(MessageReader(cut, again)) == [stored for at, stored in after if at <= size][-1], (
                f"cut at byte {size}"
            )


def test_any_flipped_bit_in_the_row_of_a_run_is_repaired(store: MessageStore) -> None:
    put(store, 1, range(1, 9))
    store.fail(1, 4, 2)
    store.remove(1, 1)
    write(store)
    columns = store._db.execute(SELECT_RUN).fetchone()
    right, same = read_or_mend(columns) or (None, None)
    assert same is columns
    for at, column in enumerate(columns):
        for bit in range(8 * len(column) if isinstance(column, bytes) else 63):
            if isinstance(column, bytes):
                changed: bytes | int = bytes(b ^ (1 << bit % 8 if i == bit // 8 else 0) for i, b in enumerate(column))
            else:
                changed = column ^ 1 << bit
            assert read_or_mend((*columns[:at], changed, *columns[at + 1 :])) == (right, columns), f"{at}, bit {bit}"


def test_the_row_of_a_run_that_is_repaired_at_the_start_is_written(
    store: MessageStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, 1, range(1, 101))
    write(store)
    [(parts,)] = store._db.execute("SELECT parts FROM run").fetchall()
    store._db.execute("UPDATE run SET parts = ?", (parts[:50] + bytes([parts[50] ^ 8]) + parts[51:],))
    store.close()
    assert [text for text in verify(path) if "run" in text]
    again = ReadableStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert found(again) == expected(1, range(1, 101))
        again.remove(1, 1)
        write(again)
        assert found(again) == expected(1, range(2, 101))
    assert verify(path) == []
    assert [text for text in caplog.messages if str(path) in text and "repaired" in text]


def test_a_row_of_a_run_with_more_damage_is_reported_and_costs_that_run(
    store: MessageStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, 1, range(1, 11))
    put(store, 2, range(1, 11))
    write(store)
    store._db.execute("UPDATE run SET parts = zeroblob(length(parts)) WHERE queue = 1")
    store.close()
    assert len(verify(path)) == 1
    again = ReadableStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert found(again) == expected(2, range(1, 11))
        assert again.damaged == {(1, n) for n in range(1, 11)}
        assert again.load(1, [1, 2]) == {}
    assert [text for text in caplog.messages if str(path) in text and "is damaged" in text]


def test_a_damaged_body_in_a_run_costs_only_its_message(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 101))
    write(store)
    target = next(n for n in range(40, 60) if len(body_of(1, n)) > 50)
    [(row, bodies)] = store._db.execute("SELECT id, bodies FROM run_bodies").fetchall()
    at = bodies.index(body_of(1, target)) + 10
    store._db.execute("UPDATE run_bodies SET bodies = ?", (bodies[:at] + bytes([bodies[at] ^ 1]) + bodies[at + 1 :],))
    others = [n for n in range(1, 101) if n != target]
    assert found(store) == expected(1, others)
    assert store.damaged == {(1, target)}
    store.close()
    assert verify(path) == [f"{path}: message {target} of queue number 1 (run {row}) is not as it was written"]


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_page_costs_at_most_the_messages_of_the_runs_in_it_and_what_is_lost_is_named(
    path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    store = MessageStore(path, reserve_bytes=RESERVE)
    for first in range(1, 401, 100):
        put(store, 1, range(first, first + 100), 1500)
        store.put(2, first, b"alone")
        write_all(store)
    store.close()
    whole = expected(1, range(1, 401), 1500) | {(2, first): b"alone" for first in range(1, 401, 100)}
    content = bytearray(path.read_bytes())
    page = chance.randrange(1, len(content) // message_file.PAGE_BYTES) * message_file.PAGE_BYTES
    content[page : page + message_file.PAGE_BYTES] = chance.randbytes(message_file.PAGE_BYTES)
    path.write_bytes(content)
    try:
        said = mend_store(path, suspect=True)
    except StoreError as error:
        refusal = str(error)
        assert str(path) in refusal
        return
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        there = found(again)
    assert there.items() <= whole.items()
    if len(there) < len(whole):
        assert said or verify(path), "nothing is lost silently"
    if said:
        assert verify(path) == []
        assert f"{len(there):,} messages were saved" in said[0]


# -- files of others --------------------------------------------------------------------------------------------------


def test_a_file_of_the_release_before_runs_is_upgraded_and_not_taken_by_that_release_again(path: Path) -> None:
    store = MessageStore(path, reserve_bytes=RESERVE)
    store.set_stamp(Stamp("me", "default", 3, 1))
    for number in range(1, 11):
        store.put(1, number, body_of(1, number), 77)
    write(store)
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.create_function("place_mark", 5, place_mark, deterministic=True)
        db.executescript("DROP TABLE run; DROP TABLE run_bodies; UPDATE schema_version SET version = 3")
        db.commit()
    for _ in range(2):
        survey = read_store(path)
        assert (survey.error, survey.damage, survey.messages) == ("", "", 10)
        assert verify(path) == []
    store = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(store):
        put(store, 1, range(11, 31))
        write(store)
        assert found(store) == expected(1, range(1, 31))
        assert store._db.execute("SELECT version FROM schema_version").fetchone() == (4,)
    survey = read_store(path)
    assert survey.queues[1].messages == 30
    assert survey.queues[1].bytes == sum(len(body_of(1, n)) for n in range(1, 31))


def test_a_dump_has_every_message_and_names_the_damaged_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / FOLDER / file_name("default")
    store = MessageStore(file, reserve_bytes=RESERVE)
    store.set_stamp(Stamp("me", "default", 1, 2))
    store.name_queue(1, "orders")
    store.name_queue(2, "other")
    put(store, 1, range(1, 301))
    store.put(1, 301, b"expires", 77)
    store.put(1, 302, b"later", DELAYED)
    store.put(1, number_of(303, 9), b"urgent")
    store.fail(1, 7, 3)
    store.remove(1, 8)
    put(store, 2, range(1, 6))
    write_all(store)
    store.close()
    assert main(["dump", "--data", str(tmp_path), "--queue", "orders", "--bodies"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    bodies = {line["number"]: b64decode(line.pop("body")) for line in lines}
    wanted = {n: body_of(1, n) for n in range(1, 301) if n != 8}
    assert bodies == wanted | {301: b"expires", 302: b"later", number_of(303, 9): b"urgent"}
    assert {line["queue"] for line in lines} == {"orders"}
    assert [line["priority"] for line in lines] == [9] + [4] * 301
    assert [line["sequence"] for line in lines if line["failed_deliveries"] == 3] == [7]
    assert [(line["expires"], line["delayed"]) for line in lines[-2:]] == [(77, False), (None, True)]
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute(
            "UPDATE run_bodies SET bodies = zeroblob(length(bodies)) WHERE id = (SELECT max(id) FROM run_bodies)"
        )
        db.commit()
    assert main(["dump", "--data", str(tmp_path)]) == 0, "no body is read"
    assert len(capsys.readouterr().out.splitlines()) == 307
    assert main(["dump", "--data", str(tmp_path), "--bodies"]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 307
    assert "queue number 2 is not as it was written" in said.err


def test_the_queues_of_a_store_with_runs_are_renumbered(store: MessageStore, path: Path) -> None:
    put(store, 1, range(1, 51))
    put(store, 2, range(1, 51))
    store.put(2, 60, b"alone")
    store.fail(1, 9, 2)
    store.remove_run(1, [1, 2, 3])
    write(store)
    store._db.execute("UPDATE run SET parts = zeroblob(length(parts)) WHERE queue = 2")
    store.close()
    store_adoption._take_over(read_store(path), Stamp("me", "default", 3, 0), 1)
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        bodies = found(again)
        assert bodies == {(2, n): body_of(1, n) for n in range(4, 51)} | {(3, 60): b"alone"}
        assert again.damaged == {(3, n) for n in range(1, 51)}, "what was damaged stays so"
        assert {row[1]: row[3] for row in again.recover() if row[0] == 2 and row[3]} == {9: 2}


@pytest.mark.parametrize("column", ["size", "count", "first"])
def test_one_flipped_bit_of_a_run_is_mended_by_the_renumbering_as_by_a_start(
    store: MessageStore, path: Path, column: str
) -> None:
    put(store, 1, range(1, 51))
    write(store)
    store._db.execute(f"UPDATE run SET {column} = {column} + 256")
    store.close()
    store_adoption._take_over(read_store(path), Stamp("me", "default", 3, 0), 5)
    again = MessageStore(path, reserve_bytes=RESERVE)
    with contextlib.closing(again):
        assert found(again) == {(6, n): body_of(1, n) for n in range(1, 51)}
        assert again.damaged == set()


def test_a_flipped_bit_in_the_queue_of_a_run_is_no_store_of_another_configuration(
    store: MessageStore, path: Path
) -> None:
    put(store, 1, range(1, 51))
    store.remove(1, 2)
    write(store)
    store._db.execute("UPDATE run SET queue = queue + (1 << 20)")
    store.close()
    (queue,) = read_store(path).queues.values()
    assert (queue.number, queue.messages) == (1, 49)


def test_a_flipped_bit_in_the_row_of_a_run_blocks_no_other_queue(
    store: MessageStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a store that is too large to be read through at a start."""
    monkeypatch.setattr(store_salvage, "READ_THROUGH_BYTES", 0)
    for queue in (1, 2, 3):
        put(store, queue, range(1, 6))
        write(store)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (root,) = store._db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'run'").fetchone()
    store.close()
    intact = path.read_bytes()
    size = int.from_bytes(intact[16:18], "big")
    page = (root - 1) * size
    cells = sorted(int.from_bytes(intact[page + 8 + 2 * n : page + 10 + 2 * n], "big") for n in range(3))
    for at in range(cells[1], cells[1] + 40):  # lengths, types, and the first columns
        for bit in range(8):
            flipped = bytearray(intact)
            flipped[page + at] ^= 1 << bit
            other = tmp_path / f"flipped-{at}-{bit}"
            other.write_bytes(flipped)
            mend_store(other, suspect=False)
            with contextlib.closing(MessageStore(other, reserve_bytes=RESERVE)) as again:
                there = [entry[:2] for entry in again.recover()]
                assert set(there) >= {(queue, n) for queue in (1, 3) for n in range(1, 6)}, (at, bit)
                for place in there:
                    again.remove(*place)
                again.put(9, 1, b"of another queue")
                written = again.write(again.take())
                assert (written.fault, written.removed) == (None, True), (at, bit)
                assert [entry[:2] for entry in again.recover()] == [(9, 1)], (at, bit)
