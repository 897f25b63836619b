"""What a start makes of a journal that was cut, damaged or partly lost: a prefix with all that was confirmed, and a
finding for everything else."""

from __future__ import annotations

import random
import shutil
import struct
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server.journal import recovery
from brokers.server.journal.groups import HEAD_BYTES
from brokers.server.journal.pinning import pinned_journal
from brokers.server.journal.recovery import recover
from brokers.server.journal.segment_file import CONTENT, SegmentFile
from brokers.server.journal.stamp_file import Stamp
from brokers.server.sqlite_file import StoreError
from tests.server.journal.journals import (
    SEGMENT,
    Disk,
    Stored,
    after_crash,
    bodies,
    content,
    files,
    opened,
    write,
    write_all,
)

Places = set[tuple[int, int]]


def places(folder: Path) -> tuple[Places, list[str]]:
    """The messages that a start finds, and its findings; nothing is written."""
    found = recover(folder)
    index = found.index
    return {entry[:2] for queue in index.queues() for entry in index.entries(queue)}, found.findings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.journal"


def one_of_each(path: Path) -> list[tuple[Path, int, Stored]]:
    """Write groups with each kind of change. After each: the file of the head, where it ends there, and all that is
    stored."""
    steps: list[tuple[Path, int, Stored]] = []
    with closing(opened(path)) as store:
        store.put_run(3, 1, [b"old"] * 5, 15)
        store.put(7, 1, b"stays, so that the segment is not free")
        write(store)
    with closing(opened(path)) as store:

        def step() -> None:
            assert write(store).fault is None
            head = store._segments.head
            steps.append((head.file.path, head.end, content(store)))

        store.put_run(1, 1, [b"a%d" % n for n in range(9)], 18)
        store.name_queue(1, "one")
        step()
        store.remove_run(1, [2, 4, 6])
        store.remove_run(3, [1])
        step()
        store.put(2, 1, b"expires", 1_900_000_000_000)
        store.fail(1, 1, 2)
        step()
        store.begin(1)
        store.put(1, 10, b"in a transaction")
        store.put(2, 2, b"as well")
        store.remove(1, 3)
        store.end()
        step()
        store.move((1, 5), (2, 3), b"moved")
        step()
        store.drop_queue(3)
        step()
        store.put(1, 11, b"last")
        step()
        for file in store._segments.index.segments.values():
            file.file.close()
        shutil.copytree(path, path.with_name("crashed"))
    return steps


def test_a_log_cut_at_every_byte_recovers_all_that_was_confirmed_before(path: Path) -> None:
    steps = one_of_each(path)
    crashed = path.with_name("crashed")
    head = crashed / steps[0][0].name
    assert all(file == steps[0][0] for file, _, _ in steps)
    whole = head.read_bytes()
    states = [{(7, 1), *((3, n) for n in range(1, 6))}, *({*stored} for _, _, stored in steps)]
    ends = [end for _, end, _ in steps]
    noise = random.Random(1).randbytes(len(whole))
    for behind in (bytes(len(whole)), noise):  # the file was zero, or had another use
        for cut in range(CONTENT, ends[-1] + 1):
            data = whole[:cut] + behind[cut:]
            head.write_bytes(data)
            found, findings = places(crashed)
            confirmed = sum(end <= cut for end in ends)
            assert found in states[confirmed : confirmed + 2], cut
            if found != states[confirmed]:
                # Only padding was cut off, or what is the same in what was there before, but for a bit that was mended.
                end = ends[confirmed] - 7
                assert sum((a ^ b).bit_count() for a, b in zip(data[cut:end], whole[cut:end], strict=True)) <= 1, cut
            assert findings == []


def test_a_new_segment_of_which_only_the_header_was_written_is_used_again(path: Path) -> None:
    steps = one_of_each(path)
    crashed = path.with_name("crashed")
    head = crashed / steps[0][0].name
    head.write_bytes(head.read_bytes()[:CONTENT] + bytes(SEGMENT - CONTENT))
    before = {(3, n): b"old" for n in range(1, 6)} | {(7, 1): b"stays, so that the segment is not free"}
    for number in range(1, 4):
        with closing(opened(crashed)) as store:
            assert store.findings == []
            assert bodies(content(store)) == before
            store.put(9, number, b"new")
            write_all(store)
            before[9, number] = b"new"
    assert len(files(crashed)) <= len(files(path)) + 3


def test_a_file_that_was_not_created_completely_is_not_used(path: Path) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        write(store)
    (path / "00000090.segment").write_bytes(bytes(1000))
    (path / "00000091.segment").write_bytes(b"")
    with closing(opened(path)) as store:
        assert store.findings == []
        for number in range(2, 40):
            store.put(1, number, bytes(5000))
            write(store)
        assert len(content(store)) == 39
        assert len(after_crash(path)) == 39
    assert {file.stat().st_size for file in files(path)} == {SEGMENT}


def test_a_write_of_which_any_part_reached_the_disk_is_whole_or_absent(path: Path) -> None:
    """The sectors of the last write reach the disk in any order."""
    steps = one_of_each(path)
    crashed = path.with_name("crashed")
    head = crashed / steps[0][0].name
    chance = random.Random(7)
    with closing(opened(path)) as store:
        before = bodies(content(store))
    with closing(opened(crashed)) as store:
        found = content(store)
        assert bodies(found) == before
        old = {file: file.read_bytes() for file in files(crashed)}
        store.put_run(4, 1, [chance.randbytes(700) for _ in range(9)], 6300)
        store.remove_run(1, [1])
        write(store)
        head = store._segments.head.file.path
        after = content(store)
        new = head.read_bytes()
    seen = set()
    for turn in range(300):
        part = bytearray(old.get(head, bytes(SEGMENT)))
        for at in range(0, 16 << 10, 512):
            if chance.random() < (0.5, 0.95)[turn % 2]:
                part[at : at + 512] = new[at : at + 512]
        head.write_bytes(part)
        found, findings = places(crashed)
        assert found in ({*before}, {*after})
        assert findings == []
        seen.add(len(found))
    assert len(seen) == 2


@pytest.mark.parametrize("bits", [1, 2])
def test_each_flipped_byte_is_found_or_has_no_effect(path: Path, bits: int) -> None:
    """Of a store that was closed; one bit of a group is mended. A body that is damaged is not returned; of what else
    is damaged there is a finding, unless nothing was lost by it."""
    one_of_each(path)
    with closing(opened(path)) as store:
        expected = content(store)
    chance = random.Random(3)
    silent = reported = damaged = 0
    for file in files(path):
        without_listing(file)
        whole = file.read_bytes()
        for at in (at for at, byte in enumerate(whole) if byte or at % 997 == 0):
            flipped = bytearray(whole)
            for bit in chance.sample(range(8), bits):
                flipped[at] ^= 1 << bit
            file.write_bytes(flipped)
            found, findings = places(path)
            if findings:
                reported += 1
                assert bits > 1 or at < CONTENT, (file, at)  # also the header of a file that was never used
                assert str(path) in findings[0]
                continue
            assert found == {*expected}, (file, at)
            if at >= CONTENT:
                index = recover(path).index
                for (queue, number), (body, failed, expires) in expected.items():
                    run = index.run_with(queue, number)
                    assert run is not None
                    entry = next(e for e in run.entries() if e[1] == number)
                    assert entry[2:] == (len(body), failed, expires)
            silent += 1
        file.write_bytes(whole)
    assert reported > 100 or bits == 1
    assert silent > 0
    with closing(opened(path)) as store:
        assert content(store) == expected
    body = next(body for body, _, _ in expected.values() if body == b"moved")
    for file in files(path):
        whole = file.read_bytes()
        while (at := whole.find(body)) >= 0:
            file.write_bytes(whole[:at] + b"M" + whole[at + 1 :])
            with closing(opened(path)) as store:
                found = content(store)
                assert found[2, 3][0] is None
                assert store.damaged == {(2, 3)}
                assert {k: v for k, v in found.items() if k != (2, 3)} == {
                    k: v for k, v in expected.items() if k != (2, 3)
                }
            damaged += 1
            break
    assert damaged == 1


def without_listing(file: Path) -> None:
    """Damage the listing of a segment, if it has one: then its groups are read."""
    data = bytearray(file.read_bytes())
    data[-1] ^= 0xFF
    file.write_bytes(data)


def test_a_damaged_group_costs_only_its_own_messages_and_is_found_at_each_start(path: Path) -> None:
    with closing(opened(path)) as store:
        for number in range(1, 300):
            store.put(1, number, b"%d" % number * 100)
            if number == 100:
                at, file = store._segments.head.end, store._segments.head.file.path
            write(store)
    without_listing(file)
    data = bytearray(file.read_bytes())
    data[at + HEAD_BYTES + 3] ^= 6
    file.write_bytes(data)
    for _ in range(3):
        with closing(opened(path)) as store:
            assert len(store.findings) == 1
            assert str(file) in store.findings[0]
            assert set(content(store)) == {(1, n) for n in range(1, 300) if n != 100}
            for number in range(1000, 1010):  # goes on, and does not write over it
                store.put(2, number, bytes(30_000))
                store.remove(2, number)
                write_all(store)
    assert file.read_bytes() == bytes(data)


def test_a_damaged_segment_stays_when_it_has_no_messages_left(path: Path) -> None:
    with closing(opened(path)) as store:
        ends = []
        for number in range(20):
            store.put(1, number, bytes(1000))
            write(store)
            ends.append(store._segments.head.end)
        file = store._segments.head.file.path
    without_listing(file)
    data = bytearray(file.read_bytes())
    data[ends[9] + 20] ^= 6
    file.write_bytes(data)
    with closing(opened(path)) as store:
        assert len(store.findings) == 1
        store.remove_run(1, range(20))
        for number in range(1000, 1100):
            store.put(2, number, bytes(30_000))
            store.remove(2, number)
            write_all(store)
    with closing(opened(path)) as store:
        assert len(store.findings) == 1
    assert file.read_bytes() == bytes(data)


def test_a_missing_segment_and_a_damaged_header_are_reported(path: Path) -> None:
    with closing(opened(path)) as store:
        for number in range(40):
            store.put(1, number, bytes(10_000))
            write(store)
        used = sorted(segment.file.path for segment in store._index.segments.values())
    lost, whole = used[2], used[2].read_bytes()
    lost.unlink()
    for _ in range(2):
        with closing(opened(path)) as store:
            assert "is missing" in store.findings[0]
            assert 20 < len(content(store)) < 40
            store.put(2, 1, bytes(30_000))
            store.remove(2, 1)
            write_all(store)
    lost.write_bytes(random.Random(1).randbytes(CONTENT) + whole[CONTENT:])
    for _ in range(2):
        with closing(opened(path)) as store:
            assert "header" in store.findings[0]
            assert str(lost) in store.findings[0]
            for number in range(1000, 1100):
                store.put(2, number, bytes(30_000))
                store.remove(2, number)
                write_all(store)
    assert lost.read_bytes()[CONTENT:] == whole[CONTENT:]
    lost.write_bytes(bytes(512) + whole[512:])  # one of the copies is enough
    with closing(opened(path)) as store:
        assert store.findings == []
        assert len([1 for queue, _ in content(store) if queue == 1]) == 40


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("runs", [1, 2])
def test_newest_segment_that_reads_as_zeros_is_missed_though_no_list_names_it(path: Path, lost: int, runs: int) -> None:
    """It looks like a file that was never used. The segment before it was left for it, which its listing says."""
    for run in range(runs):
        store = opened(path)
        store.set_stamp(Stamp("owner", "default", 1, 1))
        for number in range(1 + 8 * run, 9 + 8 * run):
            store.put(1, number, bytes([number]) * (SEGMENT // 2))
            write_all(store)
        if run < runs - 1:
            store.close()
    copy = path.with_name("killed")
    shutil.copytree(path, copy)
    assert set(after_crash(path)) == {(1, number) for number in range(1, 8 * runs + 1)}
    newest = [segment.file.path.name for segment in store._index.segments.values()][-lost:]
    store.close()
    zeroed = {name: (copy / name).read_bytes() for name in newest}
    for name, data in zeroed.items():
        (copy / name).write_bytes(bytes(len(data)))
    for number in range(100, 103):
        with closing(opened(copy)) as store:
            assert len(store.findings) == 1
            assert "is missing: messages may be lost" in store.findings[0]
            store.put(1, number, bytes(SEGMENT // 2))
            write_all(store)
    with closing(opened(copy)) as store:
        found = {number for _, number in content(store)}
        assert {100, 101, 102} < found
        assert max(found - {100, 101, 102}) < 8 * runs


@pytest.mark.parametrize("fault", ["refusing", "full", ""])
def test_newest_segment_is_not_missed_after_a_stop(path: Path, disk: Disk, fault: str) -> None:
    """Also if its last group could not be written, and where that has begun a segment of its own."""
    for size in (100, SEGMENT // 2, SEGMENT - 9000, SEGMENT - 8500, SEGMENT - 8400, SEGMENT - 8300):
        with closing(opened(path)) as store:
            store.set_stamp(Stamp("owner", "default", 1, 1))
            for number in range(3):
                store.put(1, number, bytes(size))
                write_all(store)
            disk.refusing, disk.room = fault == "refusing", 0 if fault == "full" else 10_000
        disk.refusing, disk.room = False, 10_000
        with closing(opened(path)) as store:
            assert store.findings == []
            store.drop_queue(1)
            write_all(store)


def test_a_body_that_looks_like_a_group_is_none(path: Path) -> None:
    """Also behind a group that was torn, where groups are looked for."""
    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        write(store)
        file, at = store._segments.head.file.path, store._segments.head.end
        group = file.read_bytes()[CONTENT:at]
        for number in range(2, 4):
            store.put(1, number, b"\0" * 4 + group * 8)
            write(store)
        end = store._segments.head.end
        shutil.copytree(path, path.with_name("crashed"))
    crashed = path.with_name("crashed")
    data = bytearray((crashed / file.name).read_bytes())
    data[end - len(group) * 9 : end - len(group) * 9 + HEAD_BYTES] = bytes(HEAD_BYTES)
    (crashed / file.name).write_bytes(data)
    assert places(crashed)[0] <= {(1, 1), (1, 2), (1, 3)}


def test_bodies_full_of_heads_are_not_verified_one_by_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a start after a kill, and by a backup: they look for groups behind the last one, where the file has remains of
    its earlier use."""
    head = struct.Struct("<4sIQQII")
    count = 48_000 // head.size
    fakes = b"".join(
        head.pack(b"HgGr", 1, 1 << 62, 0, SEGMENT - CONTENT - head.size * n - 2000, 1) for n in range(count)
    )
    crashed = path.with_name("crashed")
    with closing(opened(path)) as store:
        for number in range(1, 17):
            for each in (2 * number, 2 * number + 1):  # the second one is the first of a new segment
                store.put(1, each, fakes if each % 2 == 0 else bytes(10_000))
                write_all(store)
                store.remove(1, each - 1)
        newest = store._segments.head.file.path
        assert store._segments.head.end < CONTENT + 11_000
        assert newest.read_bytes().count(fakes[:4]) > 1000
        shutil.copytree(path, crashed)
    read: list[int] = []
    original = SegmentFile.read

    def counted(self: SegmentFile, at: int, size: int) -> bytes:
        data = original(self, at, size)
        read.append(len(data))
        return data

    monkeypatch.setattr(SegmentFile, "read", counted)
    most = 4 * sum(file.stat().st_size for file in files(crashed))
    assert places(crashed) == ({(1, 32), (1, 33)}, [])
    assert sum(read) < most
    del read[:]
    with pinned_journal(crashed):
        assert sum(read) < most


def test_a_start_reads_no_body_but_those_of_the_last_group(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(path, segment_bytes=4 << 20)) as store:
        for number in range(60):
            store.put(1, number, bytes(200_000))
            write(store)
    read: list[int] = []
    original = SegmentFile.read

    def counted(self: SegmentFile, at: int, size: int) -> bytes:
        data = original(self, at, size)
        read.append(len(data))
        return data

    monkeypatch.setattr(SegmentFile, "read", counted)
    monkeypatch.setattr(recovery, "_next_at", lambda *_: None)  # behind the end
    found, _ = places(path)
    assert len(found) == 60
    assert sum(read) < 1_500_000


def test_a_later_release_is_refused_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokers.server.journal import segment_file

    with closing(opened(path)) as store:
        store.put(1, 1, b"x")
        with monkeypatch.context() as patch:
            patch.setattr(segment_file, "VERSION", 2)
            write(store)
    with pytest.raises(StoreError, match=r"segment.*later release"):
        opened(path)


# -- disks that fail --------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.parametrize("fault", ["broken", "refusing"])
def test_a_refused_group_does_not_come_back_and_its_removals_are_made_later(path: Path, disk: Disk, fault: str) -> None:
    with closing(opened(path)) as store:
        store.put_run(1, 1, [b"old"] * 3, 9)
        write(store)
        for turn in range(3):
            setattr(disk, fault, True)
            store.put(1, 10 + turn, b"refused")
            store.remove(1, 1 + turn)
            store.begin(turn)
            store.put(2, turn, b"refused, too")
            store.end()
            written = write(store)
            assert written.fault is not None
            assert list(written.refused) == [turn]
            assert not written.removed
            assert written.unfinished
            setattr(disk, fault, False)
            expected = {(1, n): b"old" for n in range(1 + turn, 4)}
            assert bodies(content(store)) == bodies(after_crash(path)) == expected
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
            del expected[1, 1 + turn]
            assert bodies(content(store)) == bodies(after_crash(path)) == expected
        store.put(1, 20, b"new")
        assert write(store).fault is None
        assert bodies(content(store)) == bodies(after_crash(path)) == {(1, 20): b"new"}
    assert len(files(path)) < 10


def test_a_refused_group_that_the_disk_did_not_even_let_erase_is_not_recovered_once_others_are_written(
    path: Path, disk: Disk
) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"old")
        store.put(2, 1, b"stays")  # so that the segment is not free
        write(store)
        disk.stuck = True
        store.put(1, 2, b"refused")
        store.remove(1, 1)
        assert write(store).fault is not None
        disk.stuck = disk.refusing = False
        store.put(1, 3, b"new")
        assert write(store).removed
        assert bodies(content(store)) == bodies(after_crash(path)) == {(1, 3): b"new", (2, 1): b"stays"}


def test_a_refused_first_group_of_a_segment_does_not_come_back(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        disk.broken = True
        store.put(1, 1, b"refused")
        assert write(store).fault is not None
        assert after_crash_of_broken(path, disk) == {}
        disk.broken = False
        store.put(1, 2, b"new")
        assert write(store).fault is None
        assert bodies(after_crash(path)) == {(1, 2): b"new"}


def after_crash_of_broken(path: Path, disk: Disk) -> Stored:
    disk.broken = False
    found = after_crash(path)
    disk.broken = True
    return found


def test_a_start_syncs_what_it_may_have_read_from_memory_only(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        store.put(1, 1, b"first")
        write(store)
        at = store._segments.head.end
        store.put(1, 2, b"last")
        write(store)
        size = store._segments.head.end - at
        crashed = path.with_name("crashed")
        shutil.copytree(path, crashed)
    disk.synced.clear()
    with closing(opened(crashed)) as store:
        assert len(content(store)) == 2
    assert (at, size) in disk.synced
    disk.broken = True
    with pytest.raises(StoreError, match="cannot write"):
        opened(crashed)


def test_too_many_open_files_is_no_damage(path: Path, disk: Disk) -> None:
    with closing(opened(path)) as store:
        for number in range(30):
            store.put(1, number, bytes(10_000))
            write_all(store)
        for segment in store._index.segments.values():
            segment.file.close()
        disk.without_descriptors = True
        with pytest.raises(StoreError, match="Too many open files"):
            store.load(1, [1, 2])
        assert store.damaged == set()
        store.remove_run(1, [n for n in range(30) if n % 5])
        store.put(1, 99, b"refused")
        written = write(store)
        assert written.fault is not None
        with pytest.raises(StoreError, match="Too many open files"):
            opened(path.with_name("other"))._segments.head  # noqa: B018
        disk.without_descriptors = False
        store.put(1, 100, b"new")
        assert write(store).fault is None
        left = {(1, n): bytes(10_000) for n in range(0, 30, 5)} | {(1, 100): b"new"}
        assert bodies(content(store)) == left
        assert all(not segment.finding for segment in store._index.segments.values())
        assert bodies(after_crash(path)) == left


def test_an_error_of_freeing_a_segment_is_no_fault_of_a_group(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(path)) as store:
        for number in range(20):
            store.put(1, number, bytes(10_000))
            write_all(store)
        store.remove_run(1, range(20))
        original = SegmentFile.write_header

        def failing(self: SegmentFile, header, *group):
            if not header.used:
                raise StoreError("cannot write it")
            original(self, header, *group)

        with monkeypatch.context() as patch:
            patch.setattr(SegmentFile, "write_header", failing)
            written = write(store)
            assert (written.fault, written.removed) == (None, True)
        assert content(store) == after_crash(path) == {}
        store.writer._not_before = 0.0
        store.put(1, 100, b"x")
        write_all(store)
        assert len(store._index.segments) <= 2


def test_an_error_of_syncing_the_folder_is_a_fault(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokers.server.journal import segments
    from brokers.server.journal.segment_file import WriteFailed

    with closing(opened(path)) as store:

        def failing(folder: Path) -> None:
            raise WriteFailed(folder, OSError(5, "Input/output error"))

        with monkeypatch.context() as patch:
            patch.setattr(segments, "sync_folder", failing)
            store.begin(1)
            store.put(1, 1, bytes(2 * SEGMENT))  # needs a file of its own
            store.end()
            assert "Input/output error" in str(write(store).refused[1])
        assert content(store) == after_crash(path) == {}
