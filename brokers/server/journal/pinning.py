"""A copy of the journal of a running broker, as it is at one moment.

To pin it costs little: the headers of all files, and where the newest segment ends. While no segment is freed
(`reading_lock.py`) the others do not change any more, and the newest one only behind that end; so they are copied
afterwards. A broker whose disk is full frees segments nevertheless: that is seen by the headers, and the copy is no
good then. Of free files only the headers are copied, which say what was freed; blank ones are empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokers.server.journal.listing import read_listing
from brokers.server.journal.reading_lock import no_segment_freed
from brokers.server.journal.recovery import end_of, segment_paths
from brokers.server.journal.segment_file import CONTENT, Header, SegmentFile
from brokers.server.journal.stamp_file import NAME as STAMP
from brokers.server.journal.stamp_file import read_copies
from brokers.server.sqlite_file import StoreError

#: Bytes that are copied at once.
_PIECE = 1 << 20
#: How often the headers are read until they have not changed meanwhile.
_TRIES = 1000

#: Of a file: its size, the header if one is sound, and whether it is blank.
_State = tuple[int, Header | None, bool]


class Changed(StoreError):
    """A segment was freed while it was copied."""


@dataclass
class PinnedJournal:
    """`stamp`: the content of the stamp's file; None if there is none. `files`: what the headers were. `ends`: how far
    the segments in use, and those with damaged headers, are copied. `unreadable`: pages that could not be read when the
    end was looked for."""

    folder: Path
    stamp: bytes | None
    files: dict[str, _State]
    ends: dict[str, int]
    unreadable: dict[str, set[int]]

    def copy(self, to: Path, look: Callable[[], None]) -> list[str]:
        """Copy what is pinned into a new folder, with zeros for what the disk cannot read; return a line for each file
        that this concerns. `look` is called with each part, and may raise. Raises Changed, StoreError, OSError."""
        to.mkdir(mode=0o700, parents=True)
        lines = []
        for name, (_, header, _) in self.files.items():
            if name in self.ends:
                file = SegmentFile(self.folder / name, self.files[name][0])
                file.unreadable |= self.unreadable.get(name, set())
                _copy(file, to / name, self.ends[name], look)
                if file.unreadable:
                    lines.append(f"the disk cannot read byte {min(file.unreadable):,} of {file.path}")
            else:
                _write(to / name, 0, header.pack().ljust(CONTENT // 2, b"\0") * 2 if header is not None else b"")
        if self.stamp is not None:
            _write(to / STAMP, 0, self.stamp)
        now = dict(_states(self.folder, self.ends))
        for name in self.ends:
            if now.get(name) != self.files[name]:
                raise Changed(f"{self.folder / name} was freed while it was copied")
        return lines


@contextmanager
def pinned_journal(folder: Path) -> Iterator[PinnedJournal]:
    """Pin a journal for the block. Raises StoreError, FileNotFoundError."""
    with no_segment_freed(folder):
        stamp = read_copies(folder)
        files = _steady_states(folder)
        used = _used(files)
        ends = {name: size for name, (size, header, is_blank) in files.items() if header is None and not is_blank}
        ends |= {name: files[name][0] for _, name in used}
        unreadable: dict[str, set[int]] = {}
        if used:
            _, newest = max(used)
            size, header, _ = files[newest]
            assert header is not None
            file = SegmentFile(folder / newest, size)
            if read_listing(file, header, None) is None or max(_used(_steady_states(folder))) != max(used):
                ends[newest] = end_of(file, header)
                unreadable[newest] = file.unreadable
            file.close()  # a listed one gets no more groups
        yield PinnedJournal(folder, stamp, files, ends, unreadable)


def _used(files: dict[str, _State]) -> list[tuple[int, str]]:
    """Return (serial, name) of the files in use."""
    return [(header.serial, name) for name, (_, header, _) in files.items() if header is not None and header.used]


def _steady_states(folder: Path) -> dict[str, _State]:
    """Return the headers of all files as of one moment: a free file may become the newest segment at any time, and so
    may two, one after the other, of which only the second would be seen."""
    before = dict(_states(folder))
    for _ in range(_TRIES):
        now = dict(_states(folder))
        if now == before:
            return now
        before = now
    raise StoreError(f"cannot copy {folder}: it changes too fast")


def _states(folder: Path, names: dict[str, int] | None = None) -> Iterator[tuple[str, _State]]:
    for path in segment_paths(folder):
        if names is not None and path.name not in names:
            continue
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            continue  # a free one that was just deleted
        file = SegmentFile(path, size)
        try:
            header = file.read_header()
            yield path.name, (size, header, header is None and file.is_blank())
        except StoreError:
            if path.exists():
                raise
        finally:
            file.close()


def _copy(file: SegmentFile, to: Path, size: int, look: Callable[[], None]) -> None:
    """Copy the first bytes of a file, with holes where there are zeros."""
    at = 0
    try:
        while at < size and (data := file.read_around(at, min(_PIECE, size - at))):
            look()
            if any(data):
                _write(to, at, data)
            at += len(data)
    except StoreError:
        if file.path.exists():
            raise  # else it was freed, which is seen afterwards
    finally:
        file.close()
    with to.open("ab") as copied:
        os.truncate(copied.fileno(), size)


def _write(path: Path, at: int, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while data:
            written = os.pwrite(descriptor, data, at)
            data, at = data[written:], at + written
    finally:
        os.close(descriptor)
