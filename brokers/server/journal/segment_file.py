"""The file of a segment: a header, then groups; written so that an error leaves it as it was, or is known.

The header is there twice, in sectors of their own, written and synced together: a power cut leaves one of the two as it
was before or as it should be, a damaged sector the other. A file is zero-filled when it is created, so that writing to
it later changes no metadata of the file system and needs no space that a full disk lacks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from google_crc32c import value

from brokers.server.journal.open_files import FileForReading
from brokers.server.sqlite_file import StoreError

MAGIC, VERSION = b"HgSegmnt", 1

#: Where the copies of the header begin, and the first group.
COPIES, CONTENT = (0, 4096), 8192
_HEADER = Struct("<8sIIqqq8s")
_SUM = Struct("<I")

#: Unit in which the system reads a disk.
PAGE = 4096
#: Errors of a place on the disk. Others, such as too many open files, pass.
_OF_THE_DISK = {errno.EIO, errno.ENODATA, errno.EUCLEAN, errno.EBADMSG}

#: Buffers that one system call writes at most.
_BUFFERS = 1000
_ZEROS = bytes(1 << 20)


class LaterRelease(StoreError):
    """A later release has written it."""


class Header(NamedTuple):
    """`used`: it has groups; otherwise it had, as the segment `serial`, and may be used again. `serial`: ascends with
    each use of a file, 0 for never. `replaces`: the serial of the file's use before. `first`: the sequence of its first
    group. `salt`: see `groups.py`."""

    used: bool
    serial: int
    replaces: int
    first: int
    salt: bytes

    def pack(self) -> bytes:
        packed = _HEADER.pack(MAGIC, VERSION, self.used, self.serial, self.replaces, self.first, self.salt)
        return packed + _SUM.pack(value(packed))

    @classmethod
    def unpack(cls, packed: bytes) -> Header | None:
        """Return None if it is damaged. Raises StoreError if a later release has written it."""
        content = packed[: _HEADER.size]
        if len(packed) < _HEADER.size + _SUM.size or _SUM.unpack_from(packed, _HEADER.size)[0] != value(content):
            return None
        magic, version, used, *rest = _HEADER.unpack(content)
        if magic != MAGIC:
            return None
        if version > VERSION:
            raise LaterRelease(f"it was written by a later release: version {version}, this one knows {VERSION}")
        return cls(bool(used), *rest)


class Unreadable(StoreError):
    """The disk cannot read a place of it."""


class WriteFailed(StoreError):
    """A write or a sync failed: what it was to write may be on the disk, or not. `full`: for lack of space."""

    def __init__(self, path: Path, error: OSError) -> None:
        self.full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        super().__init__(f"cannot write {path}: {'the disk is full' if self.full else error.strerror or error}")


class SegmentFile:
    """`size`: bytes, header included. `durable`: writes are synced. `unreadable`: where pages begin for which
    `read_around` returned zeros.

    It is read through another descriptor than it is written: see `open_files.py`."""

    def __init__(self, path: Path, size: int, *, durable: bool = True) -> None:
        self.path = path
        self.size = size
        self.unreadable: set[int] = set()
        self._durable = durable
        self._descriptor = -1
        self._reading = FileForReading(path)

    @classmethod
    def create(cls, path: Path, size: int, *, durable: bool = True, filled: bool = True) -> SegmentFile:
        """Create a file of zeros; the folder is synced by the caller. `filled`: they are written. Otherwise the space
        is only reserved, which is faster until the file is used. Raises WriteFailed, and leaves no file then;
        StoreError if it cannot be opened."""
        made = cls(path, size, durable=durable)
        descriptor = made._open(os.O_CREAT | os.O_EXCL)
        try:
            os.posix_fallocate(descriptor, 0, size)
            for at in range(0, size if filled else 0, len(_ZEROS)):
                _write_all(descriptor, at, [_ZEROS[: size - at]])
            if durable:
                os.fsync(descriptor)
                made.uncache()
            made.close()
        except OSError as error:
            made.close()
            with suppress(OSError):
                path.unlink()
            raise WriteFailed(path, error) from error
        return made

    def read_header(self) -> Header | None:
        """Return the newer of both copies; None if neither is sound. Raises StoreError."""
        copies = []
        for at in COPIES:
            with suppress(Unreadable):  # as if it were damaged
                copies.append(self.read(at, _HEADER.size + _SUM.size))
        try:
            sound = [header for copy in copies if (header := Header.unpack(copy))]
        except LaterRelease as error:
            raise LaterRelease(f"cannot use {self.path}: {error}") from error
        return max(sound, key=lambda header: (header.serial, not header.used), default=None)

    def is_blank(self) -> bool:
        """Whether no header was ever written: there are zeros where one can be read. Raises StoreError."""
        pages = []
        for at in COPIES:
            with suppress(Unreadable):
                pages.append(self.read(at, PAGE))
        return bool(pages) and not any(map(any, pages))

    def write_header(self, header: Header, group: Sequence[bytes] = ()) -> None:
        """Write both copies, and the first group, and sync them. Raises WriteFailed."""
        packed = header.pack()
        gap = bytes(COPIES[1] - len(packed))
        self.write(0, [packed, gap, packed, gap, *group])

    def write(self, at: int, pieces: Sequence[bytes]) -> None:
        """Write and sync, without the interpreter's lock: in one call if possible. Raises WriteFailed if anything of it
        may not be on the disk, StoreError if the file cannot be opened."""
        descriptor = self._open()
        try:
            if len(pieces) > _BUFFERS:
                pieces = [b"".join(pieces)]
            if not self._durable:
                _write_all(descriptor, at, pieces)
            elif not _write_synced(descriptor, at, pieces):
                os.fdatasync(descriptor)
        except OSError as error:
            raise WriteFailed(self.path, error) from error

    def write_unsynced(self, at: int, data: bytes) -> None:
        """Write what may be lost. Raises StoreError."""
        try:
            descriptor = self._open()
            while data:
                written = os.pwrite(descriptor, data, at)
                data, at = data[written:], at + written
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror or error}") from error

    def read(self, at: int, size: int) -> bytes:
        """Return bytes, fewer at the end of the file. Raises Unreadable, StoreError."""
        try:
            return self._reading.read(at, size)
        except OSError as error:
            kind = Unreadable if error.errno in _OF_THE_DISK else StoreError
            raise kind(f"cannot read {self.path}: {error.strerror or error}") from error

    def read_around(self, at: int, size: int) -> bytes:
        """Return bytes as `read` does, and zeros for the pages that the disk cannot read, which are added to
        `unreadable`. Raises StoreError."""
        try:
            return self.read(at, size)
        except Unreadable:
            pieces, end = [], min(at + size, self.size)
            while at < end:
                until = min(at - at % PAGE + PAGE, end)
                try:
                    pieces.append(self.read(at, until - at))
                except Unreadable:
                    self.unreadable.add(at - at % PAGE)
                    pieces.append(bytes(until - at))
                at = until
            return b"".join(pieces)

    def uncache(self) -> None:
        """Drop the file, which is synced, from the system's cache. It is there in pieces as large as its writes, of
        up to 1 MiB, and each later sync of a few bytes would write a whole piece."""
        with suppress(OSError):
            os.posix_fadvise(self._open(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _open(self, flags: int = 0) -> int:
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
            except OSError as error:
                raise StoreError(f"cannot open {self.path}: {error.strerror or error}") from error
        return self._descriptor

    def close(self) -> None:
        self._reading.close()
        self.close_writing()

    def close_writing(self) -> None:
        """Close what it is written through; it may be read meanwhile."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # each write that counts was synced
                os.close(descriptor)


def _write_synced(descriptor: int, at: int, pieces: Sequence[bytes]) -> bool:
    """Write; return whether it was synced at once. Raises OSError."""
    size = sum(map(len, pieces))
    try:
        written = os.pwritev(descriptor, pieces, at, os.RWF_DSYNC)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        written = 0  # a file system that cannot
    if written < size:
        _write_all(descriptor, at + written, [b"".join(pieces)[written:]])
        return False
    return True


def _write_all(descriptor: int, at: int, pieces: Sequence[bytes]) -> None:
    written = os.pwritev(descriptor, pieces, at)
    size = sum(map(len, pieces))
    if written < size:
        rest, at = memoryview(b"".join(pieces))[written:], at + written
        while rest:
            written = os.pwrite(descriptor, rest, at)
            rest, at = rest[written:], at + written


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that files created and deleted in it are so after a power cut. Raises WriteFailed; not where
    the file system cannot sync folders."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise WriteFailed(folder, error) from error
