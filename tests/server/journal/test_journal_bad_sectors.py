"""Sectors that the disk cannot read are damage: they prevent no start, no backup and no compaction, cost what is
in them, and are named where more may be lost."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal import journal_store
from brokers.server.journal.pinning import pinned_journal
from brokers.server.journal.reading import JournalReader, damaged_messages
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import CONTENT, COPIES, PAGE
from brokers.server.journal.stamp_file import Stamp, read_stamp, write_stamp
from brokers.server.sqlite_file import StoreError
from tests.server.journal.journals import SEGMENT, BadSectors, after_crash, bodies, content, files, opened, write_all
from tests.server.journal.test_journal_recovery import without_listing

OWNER = Stamp("me", "default", 7, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    return BadSectors(monkeypatch)


def body_of(number: int) -> bytes:
    return b"%d" % number * 700


def written(path: Path, *, killed: bool = False) -> dict[tuple[int, int], bytes]:
    """Write 60 messages of about 1.3 kB, one by one."""
    store = opened(path)
    store.set_stamp(OWNER)
    for number in range(10, 70):
        store.put(1, number, body_of(number))
        write_all(store)
    there = bodies(content(store))
    if killed:
        shutil.copytree(path, path.with_name("killed"))
    store.close()
    if killed:
        shutil.rmtree(path)
        path.with_name("killed").rename(path)
    return there


def used_files(path: Path) -> list[Path]:
    return [file.path for file, _ in recover(path).headers.values()]


@pytest.mark.parametrize("at", COPIES)
def test_unreadable_copy_of_a_header_costs_nothing(path: Path, bad: BadSectors, at: int) -> None:
    there = written(path)
    bad.pages |= {(file.name, at) for file in files(path)}
    with closing(opened(path)) as store:
        assert store.findings == []
        assert bodies(content(store)) == there
    with pinned_journal(path) as pinned:
        assert len(pinned.copy(path.with_name("copy"), lambda: None)) == len(used_files(path))
    bad.pages.clear()
    assert bodies(after_crash(path.with_name("copy"))) == there


def test_file_whose_header_is_unreadable_is_named_and_left_alone(path: Path, bad: BadSectors) -> None:
    there = written(path)
    lost, *_ = used_files(path)
    before = lost.read_bytes()
    bad.pages |= {(lost.name, at) for at in COPIES}
    for turn in range(2):
        with closing(opened(path)) as store:
            assert [line for line in store.findings if f"header of {lost}" in line]
            assert 0 < len(content(store)) < len(there) + turn
            store.put(2, turn, bytes(SEGMENT // 2))
            write_all(store)
    assert lost.read_bytes() == before


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("big", [True, False])
def test_newest_file_whose_header_is_readable_again_has_its_messages_and_a_number_of_its_own(
    path: Path, bad: BadSectors, killed: bool, big: bool
) -> None:
    """`big`: it has a single group."""
    there = written(path, killed=killed)
    if big:
        with closing(opened(path)) as store:
            there[1, 70] = bytes(SEGMENT * 3 // 4)
            store.put(1, 70, there[1, 70])
            write_all(store)
            shutil.copytree(path, path.with_name("killed"))
        shutil.rmtree(path)
        path.with_name("killed").rename(path)
    *_, newest = used_files(path)
    bad.pages |= {(newest.name, at) for at in COPIES}
    with closing(opened(path)) as store:
        assert [line for line in store.findings if f"header of {newest}" in line]
        left = bodies(content(store))
        assert 0 < len(left) < len(there)
        for number in range(3):
            left[2, number] = bytes(SEGMENT // 2)  # each in a segment of its own
            store.put(2, number, left[2, number])
            write_all(store)
    bad.pages.clear()
    for turn in range(3):
        with pinned_journal(path) as pinned:
            pinned.copy(path.with_name(f"copy {turn}"), lambda: None)
        for folder in (path.with_name(f"copy {turn}"), path):
            with closing(opened(folder)) as store:
                found = [newest.name in line for line in store.findings]
                assert found == ([True] if turn == 0 else []), "its changes had not been made meanwhile"
                assert bodies(content(store)) == left | there
                if turn == 0:
                    store.put(2, 3, bytes(SEGMENT // 2))
                    write_all(store)
        left[2, 3] = bytes(SEGMENT // 2)


def test_two_files_that_are_the_same_segment_are_named_and_stay(path: Path) -> None:
    there = written(path)
    first, *_, newest = used_files(path)
    for turn, file in enumerate((first, newest)):
        copy = path / f"0000009{turn}.segment"
        shutil.copyfile(file, copy)
    before = {file: file.read_bytes() for file in files(path)}
    for turn in range(20):
        with closing(opened(path)) as store:
            doubles = [line for line in store.findings if "are both segment" in line]
            assert len(doubles) == 2
            assert all(str(file) in line for file, line in zip((first, newest), doubles, strict=True))
            found = {place: body for place, body in bodies(content(store)).items() if place[0] == 1}
            assert found == (there if turn == 0 else {})
            store.remove_run(1, [number for _, number in found])
            store.put(2, turn, bytes(SEGMENT // 2))
            store.remove(2, turn - 1)
            write_all(store)
    for file in (first, path / "00000090.segment", path / "00000091.segment", newest):
        assert file.read_bytes() == before[file]


@pytest.mark.parametrize("listed", [True, False])
def test_each_unreadable_page_is_named_or_costs_bodies_alone(path: Path, bad: BadSectors, listed: bool) -> None:
    there = written(path)
    used, silent, damaged = used_files(path), 0, 0
    if not listed:
        for file in used:
            without_listing(file)
    for file in used:
        for page in range(CONTENT, SEGMENT, PAGE):
            bad.pages = {(file.name, page)}
            found = recover(path)
            places = {entry[:2] for queue in found.index.queues() for entry in found.index.entries(queue)}
            assert places <= {*there}
            if not found.findings:
                assert places == {*there}, (file, page)
                silent += 1
                lines = list(damaged_messages(path))
                damaged += len(lines)
                assert len(lines) <= 5
                assert all("is not as it was written" in line for line in lines)
            else:
                assert len(places) >= len(there) - 5
                assert str(file) in found.findings[0]
    assert silent > 0
    assert damaged > 0


def test_unreadable_last_groups_of_a_killed_broker_are_named(path: Path, bad: BadSectors) -> None:
    """Else they would be taken for the end."""
    there = written(path, killed=True)
    *_, newest = used_files(path)
    [(segment, group)] = [recover(path).last]
    assert segment.file.path == newest
    bad.pages = {(newest.name, page) for page in range(group.at - group.at % PAGE, SEGMENT, PAGE)}
    for turn in range(3):
        with closing(opened(path)) as store:
            assert [line for line in store.findings if f"{newest} is damaged at byte" in line]
            assert len(there) - 5 <= len([1 for queue, *_ in store.recover() if queue == 1]) < len(there)
            store.put(2, turn, b"it goes on")
            write_all(store)
            assert store.load(2, [turn]) == {turn: b"it goes on"}


@pytest.mark.parametrize("killed", [True, False])
def test_backup_has_zeros_for_what_is_unreadable_and_names_it(path: Path, bad: BadSectors, killed: bool) -> None:
    there = written(path, killed=killed)
    used = used_files(path)
    for file in used:
        for page in (CONTENT, CONTENT + 4 * PAGE):
            bad.pages = {(file.name, page)}
            copy = path.with_name("copy")
            with pinned_journal(path) as pinned:
                [line] = pinned.copy(copy, lambda: None)
            assert line == f"the disk cannot read byte {page:,} of {file}"
            assert (copy / file.name).read_bytes()[page : page + PAGE] == bytes(PAGE)
            bad.pages.clear()
            with closing(opened(copy)) as store:
                sound = {place: body for place, body in bodies(content(store)).items() if body is not None}
                assert len(there) - 5 <= len(sound) < len(there)
                assert sound.items() <= there.items()
            shutil.rmtree(copy)


def test_unreadable_copy_of_the_stamp_costs_nothing(path: Path, bad: BadSectors) -> None:
    there = written(path)
    for page in (0, PAGE):
        bad.pages = {("stamp.json", page)}
        assert read_stamp(path)[0] == OWNER
        with closing(opened(path)) as store:
            assert store.stamp() == OWNER
            assert bodies(content(store)) == there
        with pinned_journal(path) as pinned:
            pinned.copy(path.with_name("copy"), lambda: None)
        assert read_stamp(path.with_name("copy"))[0] == OWNER
        shutil.rmtree(path.with_name("copy"))
    bad.pages |= {("stamp.json", 0)}
    with pytest.raises(StoreError, match=r"stamp\.json is damaged"):
        read_stamp(path)
    bad.pages.clear()
    write_stamp(path, Stamp("x" * 5000, "default", 7))
    bad.pages = {("stamp.json", PAGE)}
    assert read_stamp(path)[0] == Stamp("x" * 5000, "default", 7, 3)


def test_unreadable_body_stops_neither_compaction_nor_the_reserve(path: Path, bad: BadSectors) -> None:
    """Its segment stays, with all that is left in it."""
    stays = {(1, n): body_of(n) for n in (0, *range(50, 400, 5))}  # the first segment has the fewest
    with closing(opened(path)) as store:
        for number in range(400):
            store.put(1, number, body_of(number))
            write_all(store)
        first = store._index.run_with(1, 0)
        assert first is not None
        file, at = first.segment.file.path, first.at
        bad.pages = {(file.name, page) for page in range(at - at % PAGE, at + 2 * PAGE, PAGE)}
        store.remove_run(1, [n for n in range(400) if (1, n) not in stays])
        del store._segments.free[:]
        write_all(store)
        assert len(store._segments.free) >= 2, "the reserve is there again"
        used = [segment.file.path for segment in store._index.segments.values()]
        assert file in used
        assert len(used) <= 8
        bad.pages.clear()
        assert bodies(content(store)) == stays
    assert bodies(after_crash(path)) == stays


def test_error_of_compaction_prevents_no_reserve(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokers.server.journal.compaction import Compaction

    def failing(self: Compaction, **how: object) -> bool:
        raise StoreError("too many open files")

    monkeypatch.setattr(Compaction, "step", failing)
    with closing(opened(path)) as store:
        del store._segments.free[:]
        store.put(1, 1, b"x")
        written = store.write(store.take())
        assert (written.fault, written.removed) == (None, True)
        assert len(store._segments.free) == 2


def test_unreadable_body_is_waited_for_some_time_and_then_delays_no_others(
    path: Path, bad: BadSectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, now = written(path), 1000.0
    monkeypatch.setattr(journal_store, "monotonic", lambda: now)
    with closing(opened(path)) as store:
        run = store._index.run_with(1, 20)
        assert run is not None
        sector = (run.segment.file.path.name, run.at - run.at % PAGE + PAGE)
        numbers = list(range(10, 70))
        for passes in (True, False):
            bad.pages = {sector}
            for _ in range(3):
                with pytest.raises(StoreError, match="Input/output error"):
                    store.load(1, numbers)
                assert store.damaged == set()
                now += journal_store.UNREADABLE_SECONDS / 4
            if passes:
                bad.pages.clear()
                assert store.load(1, numbers) == {number: body for (_, number), body in there.items()}
        now += journal_store.UNREADABLE_SECONDS / 4
        sound = store.load(1, numbers)
        assert 55 <= len(sound) < 60
        assert all(there[1, number] == body for number, body in sound.items())
        assert store.damaged == {(1, number) for number in numbers if number not in sound}
        with pytest.raises(StoreError, match="Input/output error"):
            store.load(1, numbers)
        bad.pages.clear()
        assert len(store.load(1, numbers)) == 60, "it stays where it is"


def test_reader_of_a_stopped_broker_takes_an_unreadable_body_for_damaged(path: Path, bad: BadSectors) -> None:
    there = written(path)
    with closing(JournalReader(path)) as reader:
        bad.pages = {(file.name, CONTENT + 2 * PAGE) for file in used_files(path)}
        sound = reader.load(1, list(range(10, 70)))
        assert 50 <= len(sound) < 60
        assert len(reader.damaged) == 60 - len(sound)
        assert all(there[1, number] == body for number, body in sound.items())
