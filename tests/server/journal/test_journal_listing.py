"""The listing of a segment: a start reads it instead of each group, and the groups where it is missing or damaged."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal import listing
from brokers.server.journal.groups import HEAD_BYTES
from brokers.server.journal.listing import read_listing
from brokers.server.journal.pinning import pinned_journal
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import SegmentFile
from tests.server.journal.journals import (
    Stored,
    after_crash,
    content,
    files,
    opened,
    write_all,
)
from tests.server.journal.test_journal_recovery import without_listing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


def many(path: Path, count: int = 400) -> tuple[dict[str, tuple[int, ...]], Stored]:
    """Write messages one by one, with some of each other change, and return what there is: whole segments listed."""
    with closing(opened(path)) as store:
        chance = random.Random(count)
        for number in range(1, count):
            queue = chance.choice((1, 1, 2))
            store.put(queue, number, chance.randbytes(chance.randrange(900)), chance.choice((0, 0, 1_900_000_000_000)))
            store.name_queue(queue, f"queue {queue}")
            if number > 20 and chance.random() < 0.4:
                store.remove(chance.choice((1, 2)), number - chance.randrange(1, 20))
            if chance.random() < 0.1:
                store.fail(queue, number, 2)
            if number == count // 2:
                store.put_run(3, 1, [b"run"] * 30, 90)
            write_all(store)
        return listed(path), content(store)


def listed(path: Path) -> dict[str, tuple[int, ...]]:
    """The segments that have a listing -> where their groups begin."""
    found = recover(path)
    lists = {}
    for serial, (file, header) in found.headers.items():
        groups = read_listing(file, header, found.index.segments[serial].last)
        if groups is not None:
            lists[file.path.name] = tuple(at for at, *_ in groups)
        file.close()
    return lists


def reads_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often a start reads of each file."""
    reads: dict[str, int] = {}
    read = SegmentFile.read

    def counted(file: SegmentFile, at: int, size: int) -> bytes:
        reads[file.path.name] = reads.get(file.path.name, 0) + 1
        return read(file, at, size)

    with monkeypatch.context() as patch:
        patch.setattr(SegmentFile, "read", counted)
        assert recover(path).findings == []
    return reads


def test_groups_of_segments_that_were_left_are_not_read_singly(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, right = many(path)
    lists = listed(path)
    assert len(lists) >= 4
    assert set(lists) == {file.path.name for file, _ in recover(path).headers.values()}, (
        "also the newest one, at a stop"
    )
    assert sum(map(len, lists.values())) > 200
    reads = reads_of(path, monkeypatch)
    assert max(reads[name] for name in lists) <= 5
    assert after_crash(path) == right
    for name in lists:
        without_listing(path / name)
    reads = reads_of(path, monkeypatch)
    assert all(reads[name] >= len(lists[name]) for name in lists), "each of its groups is read then"
    assert after_crash(path) == right


@pytest.mark.parametrize("seed", range(3))
def test_listing_that_is_missing_torn_or_damaged_has_the_groups_read(path: Path, seed: int) -> None:
    lists, right = many(path, 300 + seed)
    chance = random.Random(seed)
    for name in lists:
        whole = (path / name).read_bytes()
        *_, groups, change_bytes = listing._TRAILER.unpack(whole[-listing._TRAILER.size :])
        size = listing._TRAILER.size + groups * listing._PLACE.size + change_bytes
        wrong = [whole[:-size] + bytes(size), whole[:-16] + bytes(16), whole[: -size // 2] + bytes(size - size // 2)]
        for _ in range(8):
            changed = bytearray(whole)
            changed[-chance.randrange(1, size + 1)] ^= 1 << chance.randrange(8)
            wrong.append(bytes(changed))
        for data in wrong:
            (path / name).write_bytes(data[: len(whole)])
            found = recover(path)
            assert found.findings == []
            assert {entry for queue in found.index.queues() for entry in found.index.entries(queue)} == {
                (*place, len(body), failed, expires) for place, (body, failed, expires) in right.items()
            }
        (path / name).write_bytes(whole)


def test_listing_of_an_earlier_use_of_the_file_is_not_read(path: Path) -> None:
    with closing(opened(path)) as store:
        for number in range(1, 2000):
            store.put(1, number, bytes(500))
            if number > 40:
                store.remove(1, number - 40)
            write_all(store)
        right = content(store)
        assert len(files(path)) < 12
    assert after_crash(path) == right


def test_copy_of_a_journal_has_the_listing_of_the_newest_segment(path: Path) -> None:
    """Of a broker that was stopped: what is damaged in it costs nothing in the copy, too."""
    _, right = many(path)
    lists, headers = listed(path), recover(path).headers
    newest = headers[max(headers)][0].path.name
    assert len(lists[newest]) > 2
    copy = path.with_name("copy")
    with pinned_journal(path) as pinned:
        assert pinned.copy(copy, lambda: None) == []
    assert listed(copy) == lists
    data = bytearray((copy / newest).read_bytes())
    for at in lists[newest]:
        data[at : at + HEAD_BYTES] = bytes(HEAD_BYTES)
    (copy / newest).write_bytes(data)
    assert after_crash(copy) == right


def test_damage_that_the_listing_makes_up_for_costs_nothing(path: Path) -> None:
    lists, right = many(path)
    name = min(lists)
    data = bytearray((path / name).read_bytes())
    for at in lists[name]:
        data[at : at + HEAD_BYTES] = bytes(HEAD_BYTES)
    (path / name).write_bytes(data)
    assert after_crash(path) == right
