"""A power cut at any moment of a history in which segments are filled, used again, copied and deleted: what was synced
is there, of the write that was under way any sectors are, and a start finds all that was confirmed."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.server.journal import segment_file
from brokers.server.journal.segment_file import SegmentFile
from tests.server.journal.journals import SEGMENT, bodies, content, opened, write
from tests.server.journal.test_journal_recovery import places

SECTOR = 512

#: Name of a file, and where which bytes were written; or None: it was deleted.
Operation = tuple[str, int, bytes | None]


class Recorder:
    """Writes and deletions in the order in which they were made. Each write is synced before the next, which
    `test_each_write_is_synced` shows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations: list[Operation] = []
        create, pwritev, unlink = SegmentFile.create, os.pwritev, os.unlink

        def created(path: Path, size: int, **options: Any) -> SegmentFile:
            self.operations.append((path.name, 0, bytes(size)))
            return create(path, size, **options)

        def written(descriptor: int, pieces: Iterable[bytes], at: int, flags: int = 0) -> int:
            pieces = list(pieces)
            name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
            if flags:
                self.operations.append((name, at, b"".join(pieces)))
            return pwritev(descriptor, pieces, at, flags)

        def unlinked(path: Any, **how: Any) -> None:
            if str(path).endswith(".segment"):
                self.operations.append((Path(path).name, 0, None))
            unlink(path, **how)

        monkeypatch.setattr(SegmentFile, "create", created)
        monkeypatch.setattr(segment_file.os, "pwritev", written)
        monkeypatch.setattr(os, "unlink", unlinked)


def apply(folder: Path, operation: Operation, chance: random.Random | None = None) -> None:
    """Make a change; with `chance`: a random part of it."""
    name, at, data = operation
    file = folder / name
    if data is None:
        if chance is None or chance.random() < 0.5:
            file.unlink()
        return
    before = file.read_bytes() if file.exists() else b""
    content = bytearray(before.ljust(at + len(data), b"\0"))
    place = at
    while place < at + len(data):
        end = min(place - place % SECTOR + SECTOR, at + len(data))
        if chance is None or chance.random() < 0.7:
            content[place:end] = data[place - at : end - at]
        place = end
    if chance is not None and not before:
        del content[chance.randrange(len(content) + 1) :]
    file.write_bytes(content)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_at_any_moment_loses_nothing_that_was_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    path, states = tmp_path / "m.journal", list[tuple[int, set[tuple[int, int]]]]()
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        with closing(opened(path)) as store:
            states.append((len(recorder.operations), set()))
            there: list[tuple[int, int]] = []
            for number in range(260):
                queue = chance.choice((1, 1, 2))
                store.name_queue(queue, f"queue {queue}" * 40)
                store.put_run(queue, 10 * number, [chance.randbytes(chance.randrange(4000)) for _ in range(3)], 6000)
                there += [(queue, 10 * number + at) for at in range(3)]
                for _ in range(chance.choice((0, 1, 3, 3) if number < 100 else (3, 3, 6))):
                    if there:
                        store.remove(*there.pop(0 if chance.random() < 0.8 else chance.randrange(len(there))))
                assert write(store).fault is None
                states.append((len(recorder.operations), {*there}))
            assert set(bodies(content(store))) == {*there}
    disk, torn = tmp_path / "disk", tmp_path / "torn"
    disk.mkdir()
    cuts = 0
    for done, operation in enumerate(recorder.operations):
        if chance.random() < 0.4:
            shutil.rmtree(torn, ignore_errors=True)
            shutil.copytree(disk, torn)
            apply(torn, operation, chance)
            confirmed = [state for end, state in states if end <= done][-1:] or [set()]
            later = [state for end, state in states if end > done][:1]
            found, findings = places(torn)
            assert findings == []
            assert found in confirmed + later
            cuts += 1
        apply(disk, operation)
    assert cuts > 100
    assert len({name for name, *_ in recorder.operations}) > 5
    assert any(data is None for _, _, data in recorder.operations)


def test_each_write_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the flag that says so, or by a sync where the file system or the size of the write needs one."""
    calls: list[str] = []
    pwritev, fdatasync, fsync = os.pwritev, os.fdatasync, os.fsync

    def written(descriptor: int, pieces: Any, at: int, flags: int = 0) -> int:
        if flags and unsupported:
            raise OSError(95, "Operation not supported")
        calls.append("synced" if flags & os.RWF_DSYNC else "written")
        return pwritev(descriptor, pieces, at, flags)

    def synced(descriptor: int) -> None:
        calls.append("synced")
        (fdatasync if calls else fsync)(descriptor)

    with closing(opened(tmp_path / "m.journal")) as store:
        monkeypatch.setattr(segment_file.os, "pwritev", written)
        monkeypatch.setattr(segment_file.os, "fdatasync", synced)
        monkeypatch.setattr(segment_file.os, "fsync", synced)
        for unsupported in (False, True):
            for number in range(30):
                calls.clear()
                store.put(1 + unsupported, number, bytes(SEGMENT // 10))
                assert write(store).fault is None
                assert calls[-1] == "synced"
                assert ("written" in calls) <= (unsupported or "synced" in calls)
