"""Verification of SQLite's write-ahead log before SQLite reads it, and repair of a flipped byte.

SQLite treats a frame with a wrong checksum as the end of the log: so it drops an unfinished commit after a crash, and
would silently drop everything that was confirmed after a flipped byte. The checksum is linear
(format: <https://www.sqlite.org/fileformat2.html#walformat>), so the single byte that would make it match can be
computed; an unfinished commit is never repaired by that. If several bytes may have flipped, the page is accepted as it
is: the checksums of its rows find the damaged one. Damage that cannot be repaired is reported, and the log is copied.

The log is read a frame at a time: while a reader such as a backup pins it, it grows without a limit, and a broker that
was killed then starts with all of it. A repair is made in a copy, which replaces the log when it is durable.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from brokers.server.sqlite_file import StoreError

_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682
_ALL = 0xFFFFFFFF

Sums = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LogFinding:
    """A finding as one line. `lost`: commits after the damage, which SQLite will not read; 0: it was repaired."""

    text: str
    lost: int


def mend_logs(paths: list[Path]) -> list[str]:
    """Verify and repair the logs of these databases, which no process uses. Return a line for each finding. Raises
    StoreError."""
    try:
        found = [mend_log(path) for path in paths]
    except OSError as error:
        raise StoreError(f"cannot repair {error.filename}: {error.strerror or error}") from error
    return [finding.text for finding in found if finding is not None]


def mend_log(database: Path) -> LogFinding | None:
    """Verify and repair the log of a database that no process uses; return None if it is undamaged, or there is none.
    Raises OSError."""
    path = database.with_name(database.name + "-wal")
    if not path.exists() or path.stat().st_size < _HEADER + _FRAME:
        return None
    with _Draft(path) as file:
        log = _Log(file)
        mended = log.mend()
        if mended:
            file.publish()
    if log.lost:
        copy = path.with_name(f"{path.name}-damaged")
        shutil.copyfile(path, copy)
        return LogFinding(
            f"{path} is damaged at byte {log.sound_bytes:,}: {log.lost:,} commits after it are lost, unless the machine"
            f" lost its power before they were confirmed; a copy is {copy}",
            log.lost,
        )
    return LogFinding(f"{path} was damaged at byte {mended[0]:,}, and was repaired", 0) if mended else None


class _Draft:
    """The log, from which parts are read; the first change copies it to a draft, which from then on has the content."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_name(f"{path.name}-mended")
        self._is_draft = False
        self._file = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._file).st_size

    def __enter__(self) -> _Draft:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        with suppress(FileNotFoundError):
            self._draft.unlink()

    def read(self, at: int, size: int) -> bytes:
        """Return these bytes; fewer at the end."""
        return os.pread(self._file, size, at)

    def write(self, at: int, content: bytes) -> None:
        if not self._is_draft:
            with open(self._draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                os.lseek(self._file, 0, os.SEEK_SET)
                with open(self._file, "rb", closefd=False) as log:
                    shutil.copyfileobj(log, out)
            draft = os.open(self._draft, os.O_RDWR)
            os.close(self._file)
            self._file, self._is_draft = draft, True
        while content:
            written = os.pwrite(self._file, content, at)
            at, content = at + written, content[written:]

    def publish(self) -> None:
        """Replace the log with the draft."""
        os.fsync(self._file)
        os.replace(self._draft, self._path)


class _Log:
    """`sound_bytes`: the readable part. `lost`: commits after it."""

    def __init__(self, data: _Draft) -> None:
        self.data = data
        self.page = self._page()
        self.sound_bytes = 0
        self.lost = 0

    def mend(self) -> list[int]:
        """Repair the repairable bytes of the log; return their offsets."""
        mended: list[int] = []
        if not self._mend_header(mended):
            self.lost = sum(1 for at in self._frames() if self._is_commit(at))
            return mended
        stored = sums = self._stored(24)  # as chained to the next frame, and as it should be
        salts, frames = self.data.read(16, 8), self._frames()
        for index, at in enumerate(frames):
            right = checksum(self.order, self._content(at), stored)
            if right != self._stored(at + 16) or self.data.read(at + 8, 8) != salts:
                found = self._mend_frame(at, stored, right, salts, frames[index + 1 :])
                if found is None:
                    self.sound_bytes = at
                    self.lost = self._commits_after(frames[index:], salts)
                    return mended
                mended.append(found)
            before, stored = stored, self._stored(at + 16)
            as_is = checksum(self.order, self._content(at), sums) if sums != before or mended else stored
            if as_is != stored:
                self.data.write(at + 16, struct.pack(">II", *as_is))
            sums = as_is
        self.sound_bytes = self.data.size
        return mended

    # -- the header ---------------------------------------------------------------------------------------------

    def _mend_header(self, mended: list[int]) -> bool:
        for order in ("<", ">"):  # the magic number gives it, unless it has flipped
            self.order = order
            content = self.data.read(0, 24)
            right = checksum(order, content, (0, 0))
            magic = _MAGIC | (order == ">")
            if struct.unpack_from(">I", content)[0] == magic:
                if right == self._stored(24):
                    return True
                first = _HEADER
                if self.page and checksum(order, self._content(first), right) == self._stored(first + 16):
                    mended.append(self._put_sums(24, right))  # only the checksum itself has flipped
                    return True
            for offset, value in flipped(order, content, (0, 0), self._stored(24)):
                fixed = content[:offset] + bytes([value]) + content[offset + 1 :]
                if struct.unpack_from(">I", fixed)[0] == magic:
                    self.data.write(offset, bytes([value]))
                    self.page = self._page()
                    mended.append(offset)
                    return True
        return False

    def _page(self) -> int:
        size = int(struct.unpack(">I", self.data.read(8, 4))[0])
        return size if 512 <= size <= 65536 and size & (size - 1) == 0 else 0

    # -- frames -------------------------------------------------------------------------------------------------

    def _frames(self) -> range:
        """Return the offsets of all complete frames."""
        if not self.page:
            return range(0)
        return range(_HEADER, self.data.size - _FRAME - self.page + 1, _FRAME + self.page)

    def _content(self, at: int) -> bytes:
        """Return the content of a frame's checksum: the first half of its header, and its page."""
        frame = self.data.read(at, _FRAME + self.page)
        return frame[:8] + frame[_FRAME:]

    def _stored(self, at: int) -> Sums:
        first, second = struct.unpack(">II", self.data.read(at, 8))
        return int(first), int(second)

    def _put_sums(self, at: int, sums: Sums) -> int:
        """Correct a checksum; return the offset of its first wrong byte."""
        before, after = self.data.read(at, 8), struct.pack(">II", *sums)
        self.data.write(at, after)
        return at + next(index for index in range(8) if before[index] != after[index])

    def _is_commit(self, at: int) -> bool:
        return any(self.data.read(at + 4, 4))

    def _mend_frame(self, at: int, before: Sums, right: Sums, salts: bytes, later: range) -> int | None:
        """Repair a frame; return the offset of the repaired byte, or of the page that is accepted as it is; None if
        this is the end of the log, or more bytes have flipped."""
        found_salts = self.data.read(at + 8, 8)
        salted = [index for index in range(8) if found_salts[index] != salts[index]]
        stored, content = self._stored(at + 16), self._content(at)
        if right == stored:
            if len(salted) != 1:
                return None  # of an earlier round of the log: its end
            self.data.write(at + 8, salts)
            return at + 8 + salted[0]
        if salted:
            return None
        follows = bool(later) and checksum(self.order, self._content(later[0]), right) == self._stored(later[0] + 16)
        differs = sum(a != b for a, b in zip(struct.pack(">II", *right), self.data.read(at + 16, 8), strict=True))
        if follows or (not later and differs == 1):
            return self._put_sums(at + 16, right)
        found = flipped(self.order, content, before, stored)
        if len(found) == 1:
            offset, value = found[0]
            offset = at + (offset if offset < 8 else offset - 8 + _FRAME)
            self.data.write(offset, bytes([value]))
            return offset
        return at + _FRAME if found else None

    def _commits_after(self, frames: range, salts: bytes) -> int:
        """Count the commits among frames of this round of the log, each of which matches the one before it."""
        lost = 0
        for before, at in pairwise(frames):
            fits = checksum(self.order, self._content(at), self._stored(before + 16)) == self._stored(at + 16)
            if fits and self.data.read(at + 8, 8) == salts and self._is_commit(at):
                lost += 1
        return lost


def checksum(order: str, content: bytes, before: Sums) -> Sums:
    """Return SQLite's checksum of content whose length is a multiple of 8, continued from the sums `before`."""
    first, second = before
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & _ALL
        second = (second + other + first) & _ALL
    return first, second


def flipped(order: str, content: bytes, before: Sums, stored: Sums) -> list[tuple[int, int]]:
    """Yield (offset, value) of each single byte that would make the content's checksum match."""
    found = []
    first, second = checksum(order, content, before)
    wanted = ((stored[0] - first) & _ALL, (stored[1] - second) & _ALL)
    # The effect of one unit in a word on both sums; one pair of words further from the end each round.
    after = ((1, 1), (0, 1))  # of the first and of the second word of a pair
    for at in range(len(content) - 8, -1, -8):
        for place, (to_first, to_second) in enumerate(after):
            offset = at + 4 * place
            (word,) = struct.unpack_from(f"{order}I", content, offset)
            for change in _changes(wanted, to_first, to_second):
                value = (word + change) & _ALL
                new = struct.pack(f"{order}I", value)
                different = [i for i in range(4) if new[i] != content[offset + i]]
                if len(different) == 1:
                    found.append((offset + different[0], new[different[0]]))
        after = (_step(*after[0]), _step(*after[1]))
    return found


def _step(to_first: int, to_second: int) -> Sums:
    """Return the sums after one more pair of zero words."""
    first = (to_first + to_second) & _ALL
    return first, (to_second + first) & _ALL


def _changes(wanted: Sums, to_first: int, to_second: int) -> Iterator[int]:
    """Return what must be added to a word, if possible: an odd factor has an inverse, and of two consecutive Fibonacci
    numbers at most one is even."""
    for factor, sum_ in ((to_first, wanted[0]), (to_second, wanted[1])):
        if factor & 1:
            change = sum_ * pow(factor, -1, 1 << 32) & _ALL
            if (change * to_first & _ALL, change * to_second & _ALL) == wanted:
                yield change
            return
