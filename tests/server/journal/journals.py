"""Journals for tests: with small segments, so that these are used again soon; crashed, and on disks that fail."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.server.journal import segment_file
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.segment_file import PAGE, SegmentFile, WriteFailed
from brokers.server.message_groups import Written

SEGMENT = 64 << 10

#: (queue, number) -> body, failed deliveries, expiry.
Stored = dict[tuple[int, int], tuple[bytes, int, int]]


def opened(path: Path, **options: Any) -> JournalStore:
    return JournalStore(path, **{"segment_bytes": SEGMENT, "group_bytes": 1 << 20} | options)


def write(store: JournalStore) -> Written:
    return store.write(store.take())


def write_all(store: JournalStore) -> None:
    """Write what is buffered, and do all that is left to do."""
    while True:
        written = write(store)
        assert (written.fault, written.removed, written.refused) == (None, True, {})
        if not (store.pending or written.unfinished):
            return


def content(store: JournalStore) -> Stored:
    """All messages, as a broker that starts finds them; damaged ones with a body of None."""
    found: dict[tuple[int, int], Any] = {}
    entries = list(store.recover())
    assert entries == sorted(entries)
    for queue in {entry[0] for entry in entries}:
        bodies = store.load(queue, [entry[1] for entry in entries if entry[0] == queue])
        for _, number, size, failed, expires in (entry for entry in entries if entry[0] == queue):
            body = bodies.get(number)
            assert body is None or len(body) == size
            found[queue, number] = body, failed, expires
    return found


def after_crash(path: Path, **options: Any) -> Stored:
    """What a start finds if the process ends now, and again what the next one finds."""
    copy = path.with_name(f"{path.name}-crashed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    with closing(opened(copy, **options)) as store:
        found = content(store)
        assert store.findings == []
    with closing(opened(copy, **options)) as store:
        assert content(store) == found
    shutil.rmtree(copy)
    return found


def bodies(stored: Stored) -> dict[tuple[int, int], bytes]:
    return {place: body for place, (body, _, _) in stored.items()}


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.segment"))


class Disk:
    """What may fail: `room` is the number of files that there is room for; while `broken`, writes reach the system's
    memory and are not synced; `refusing`, they fail at once; `stuck`, one write is like the former, then all are like
    the latter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 10_000
        self.broken = self.refusing = self.stuck = False
        self.without_descriptors = False
        self.synced: list[tuple[int, int]] = []  # of each synced write: where, and how many bytes
        create, pwritev, open_, fdatasync = SegmentFile.create, os.pwritev, os.open, os.fdatasync

        def limited(path: Path, *given: Any, **options: Any) -> SegmentFile:
            if len(files(path.parent)) >= self.room:
                raise WriteFailed(path, OSError(errno.ENOSPC, "No space left on device"))
            return create(path, *given, **options)

        def written(descriptor: int, pieces: Iterable[bytes], at: int, flags: int = 0) -> int:
            if self.refusing:
                raise OSError(errno.EIO, "Input/output error")
            count = pwritev(descriptor, pieces, at)
            self.refusing = self.refusing or self.stuck
            if flags and (self.broken or self.stuck):
                raise OSError(errno.EIO, "Input/output error")
            self.synced.append((at, count))
            return count

        def opened_file(path: Any, *given: Any, **how: Any) -> int:
            if self.without_descriptors and str(path).endswith(".segment"):
                raise OSError(errno.EMFILE, "Too many open files")
            return open_(path, *given, **how)

        def synced(descriptor: int) -> None:
            if self.broken:
                raise OSError(errno.EIO, "Input/output error")
            fdatasync(descriptor)

        monkeypatch.setattr(SegmentFile, "create", limited)
        monkeypatch.setattr(segment_file.os, "pwritev", written)
        monkeypatch.setattr(segment_file.os, "open", opened_file)
        monkeypatch.setattr(segment_file.os, "fdatasync", synced)


class BadSectors:
    """Pages of files that the disk cannot read: what is before one is read, as the system does it. `pages`: (name of
    the file, where the page begins)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages: set[tuple[str, int]] = set()
        pread = os.pread

        def read(descriptor: int, size: int, at: int) -> bytes:
            if not self.pages:
                return pread(descriptor, size, at)
            name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
            bad = min(
                (page for file, page in self.pages if file == name and at - PAGE < page < at + size), default=None
            )
            if bad is None:
                return pread(descriptor, size, at)
            if bad <= at:
                raise OSError(errno.EIO, "Input/output error")
            return pread(descriptor, bad - at, at)

        monkeypatch.setattr(os, "pread", read)
