"""A disk that cannot read some places at one start, and later can again: nothing that was confirmed is lost by what
happens in between, and what is there again is named no more."""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from brokers.engine.values.message import LEFT_OUT
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import CONTENT, COPIES, PAGE
from brokers.server.journal.stamp_file import Stamp
from tests.server.journal.journals import SEGMENT, BadSectors, bodies, content, files, opened, write_all


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    return BadSectors(monkeypatch)


def body_of(number: int, size: int = 700) -> bytes:
    return (b"%d " % number * size)[:size]


def places(store: JournalStore) -> set[tuple[int, int]]:
    return {entry[:2] for entry in store.recover()}


def kill(path: Path) -> None:
    """Have the next start find the files as they are now, without what a stop writes."""
    shutil.copytree(path, path.with_name("killed"))


def after_kill(path: Path) -> None:
    shutil.rmtree(path)
    path.with_name("killed").rename(path)


def pages_from(at: int) -> range:
    return range(at - at % PAGE, SEGMENT, PAGE)


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_all_groups_at_the_end_of_a_killed_broker_are_there_when_they_can_be_read_again(
    path: Path, bad: BadSectors, starts: int
) -> None:
    with closing(opened(path)) as store:
        for number in range(1, 21):
            store.put(1, number, body_of(number))
            write_all(store)
            if number == 8:
                assert store._segments.head is not None
                name, end = store._segments.head.file.path.name, store._segments.head.end
        kill(path)
    after_kill(path)
    bad.pages = {(name, page) for page in pages_from(end)}
    for turn in range(starts):
        with closing(opened(path)) as store:
            assert [line for line in store.findings if f"{name} is damaged at byte" in line]
            assert places(store) <= {(1, n) for n in range(1, 9)} | {(2, n) for n in range(turn)}
            store.put(2, turn, b"meanwhile")
            write_all(store)
    bad.pages.clear()
    expected = {(1, n): body_of(n) for n in range(1, 21)} | {(2, n): b"meanwhile" for n in range(starts)}
    for _ in range(3):
        with closing(opened(path)) as store:
            assert store.findings == []
            assert bodies(content(store)) == expected


def test_end_that_was_unreadable_and_had_nothing_is_named_no_more(path: Path, bad: BadSectors) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"all there is")
        write_all(store)
        assert store._segments.head is not None
        name = store._segments.head.file.path.name
        kill(path)
    after_kill(path)
    bad.pages = {(name, SEGMENT - PAGE)}
    with closing(opened(path)) as store:
        assert [line for line in store.findings if f"{name} is damaged at byte" in line]
        store.put(1, 2, b"meanwhile")
        write_all(store)
    bad.pages.clear()
    for _ in range(2):
        with closing(opened(path)) as store:
            assert store.findings == []
            assert bodies(content(store)) == {(1, 1): b"all there is", (1, 2): b"meanwhile"}


def test_groups_that_are_missing_when_all_can_be_read_again_are_named_at_each_start(
    path: Path, bad: BadSectors
) -> None:
    """One that the first start had read."""
    with closing(opened(path)) as store:
        for number in range(1, 9):
            store.put(1, number, body_of(number))
            write_all(store)
        assert store._segments.head is not None
        file, end, salt = store._segments.head.file.path, store._segments.head.end, store._segments.head.salt
        kill(path)
    after_kill(path)
    bad.pages = {(file.name, page) for page in pages_from(end + PAGE)}
    with closing(opened(path)) as store:
        assert len(content(store)) == 8
        store.put(2, 1, b"meanwhile")
        write_all(store)
    bad.pages.clear()
    data = file.read_bytes()
    at = data.rindex(salt[:4], 0, end)
    file.write_bytes(data[:at] + bytes(end - at) + data[end:])
    for _ in range(3):
        with closing(opened(path)) as store:
            assert [line for line in store.findings if f"{file} is damaged behind group 7: 1 are missing" in line]
            assert len(content(store)) == 8


def test_what_a_start_could_not_read_is_not_removed_by_what_is_written_again(path: Path, bad: BadSectors) -> None:
    """A segment without messages that has removals of others is written again as what is left of those. What is left
    of one that could not be read is not known."""
    with closing(opened(path)) as store:
        for number in range(1, 41):
            store.put(1, number, body_of(number))
            write_all(store)
        [first] = store._index.segments.values()
        name, at = first.file.path.name, store._index.run_with(1, 20).at  # type: ignore[union-attr]
    file = path / name
    data = file.read_bytes()
    file.write_bytes(data[:-8] + bytes(8))  # its groups are read one by one
    bad.pages = {(name, at - at % PAGE)}
    with closing(opened(path)) as store:
        there = places(store)
        assert 30 <= len(there) < 40
        assert store.findings
        gone = sorted(there)[:-2]
        for queue, number in gone:
            store.remove(queue, number)
            write_all(store)
        for number in range(1, 400):  # segments with removals, and no messages
            store.put(2, number, body_of(number))
            store.fail(*max(there), number)
            write_all(store)
            store.remove(2, number)
            write_all(store)
        assert len(files(path)) < 16, "they are freed, all the same"
    bad.pages.clear()
    expected = {(1, n): body_of(n) for n in range(1, 41) if (1, n) not in gone}
    with closing(opened(path)) as store:
        assert bodies(content(store)) == expected


def test_list_that_can_be_read_again_names_no_freed_segment_as_missing(path: Path, bad: BadSectors) -> None:
    """A start that cannot read it goes by the list before, which names segments whose files are deleted since."""
    with closing(opened(path)) as store:
        for number in range(1, 40):
            store.put(1, number, body_of(number, 9000))
            write_all(store)
        for number in range(1, 39):
            store.remove(1, number)
        store.put(2, 1, body_of(1, SEGMENT // 2))
        write_all(store)
        for number in range(2, 5):
            store.put(2, number, body_of(number, SEGMENT // 2))
            write_all(store)
        expected = bodies(content(store))
        assert store._segments.head is not None
        newest = store._segments.head.file.path.name
        kill(path)
    after_kill(path)
    bad.pages = {(newest, CONTENT)}
    with closing(opened(path)) as store:
        assert store.findings
        store.put(3, 1, b"meanwhile")
        write_all(store)
    bad.pages.clear()
    for _ in range(2):
        with closing(opened(path)) as store:
            assert store.findings == []
            assert bodies(content(store)) == expected | {(3, 1): b"meanwhile"}


def damage(path: Path, chance: random.Random, bad: BadSectors) -> None:
    """Have the next start fail to read some places, and the listings of segments."""
    used = [file for file, _ in recover(path).headers.values()]
    if chance.random() < 0.7:
        for file in chance.sample(used, min(len(used), chance.choice((1, 1, 2, 3)))):
            begin = chance.choice((*COPIES, *range(CONTENT, SEGMENT, PAGE)))
            pages = COPIES if begin in COPIES else range(begin, SEGMENT, PAGE)[: chance.choice((1, 3, 99))]
            bad.pages |= {(file.path.name, page) for page in pages}
    if chance.random() < 0.5:
        for file in used:
            data = file.path.read_bytes()
            file.path.write_bytes(data[:-8] + bytes(8))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_confirmed_is_lost_in_random_histories_of_starts_that_cannot_read_all(
    path: Path, bad: BadSectors, seed: int
) -> None:
    """With numbers as the engine assigns them, kills and stops. What is removed while not all can be read may be back;
    nothing else is there, and at the end everything."""
    chance = random.Random(seed)
    put: dict[tuple[int, int], bytes] = {}
    confirmed: dict[tuple[int, int], bytes] = {}
    left_out = 0
    with closing(opened(path)) as store:
        store.set_stamp(Stamp("me", "default", 1))
    for turn in range(14):
        if 0 < turn < 13:
            damage(path, chance, bad)
        store = opened(path)
        left_out += bool(store.findings)
        there = places(store)
        assert there <= put.keys()
        last = {q: max([n for queue, n in there if queue == q], default=0) for q in (1, 2)}
        if store.findings:
            last = {q: max(n, left_out * LEFT_OUT) for q, n in last.items()}
        for _ in range(chance.randrange(60)):
            queue = chance.choice((1, 2))
            last[queue] += 1
            place = queue, last[queue]
            assert place not in confirmed
            put[place] = confirmed[place] = body_of(len(put), chance.choice((10, 700, 9000)))
            store.put(*place, put[place])
            for gone in chance.sample(sorted(there), min(len(there), chance.choice((0, 0, 1, 2)))):
                store.remove(*gone)
                there.discard(gone)
                confirmed.pop(gone, None)
            there.add(place)
            write_all(store)
        bad.pages.clear()
        is_killed = chance.random() < 0.5
        if is_killed:
            kill(path)
        store.close()
        if is_killed:
            after_kill(path)
    with closing(opened(path)) as store:
        found = bodies(content(store))
        assert store.findings == [], "all can be read"
    assert len(confirmed) > 5
    assert {place: found.get(place) for place in confirmed} == confirmed
    assert found.items() <= put.items()
