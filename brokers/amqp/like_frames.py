"""The shapes of frames that were walked: a frame of a known shape is compared with it instead of walked.

Nearly all frames of a connection are transfers and dispositions that differ in two values only: the number and the tag
of a delivery, or the first and the last number of a disposition. The bytes before each value announce its width, so a
frame with the same bytes around the values is well-formed, too. The walk takes ten times as long, and a
message is two frames at least. A run of frames of one size, as a busy producer sends them, is compared column by
column: the bytes at one offset of all frames are one slice. Pure.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

_NUMBER, _FLAG = rb"(?:\x43|\x52.|\x70....)", rb"[\x41\x42]"
_LIST = rb"(?:\xc0..|\xd0.{8})"
#: The beginnings of most transfers, up to the tag, and of most dispositions, up to the last number. Groups: the first
#: value that differs, and the bytes that announce the width of the second.
_BEGINNINGS = {
    0x14: re.compile(rb"\x00\x53\x14" + _LIST + _NUMBER + rb"(" + _NUMBER + rb")(\xa0.)", re.DOTALL),
    0x15: re.compile(rb"\x00\x53\x15" + _LIST + _FLAG + rb"(" + _NUMBER + rb")([\x43\x52\x70])", re.DOTALL),
}
_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}  # bytes after the constructor of a number
_HEAD = 8
#: Maximum number of shapes of one connection, and bytes of a shape: they bound the memory that a peer can fill. Nearly
#: all clients' shapes have less than a hundred bytes.
_MOST_SHAPES, _LARGEST = 64, 512

frame_size = struct.Struct(">I").unpack_from


class Shape(NamedTuple):
    """A walked frame without its size and the two values. Offsets are from the beginning of the frame."""

    head: bytes  # from the frame's type up to the first value
    middle: bytes  # the bytes that announce the width of the second value
    middle_at: int
    tail: bytes  # from the end of the second value to the end of the performative
    tail_at: int
    stop: int  # where the performative ends
    fixed: tuple[int, ...]  # the offset of each byte of these, and of the frame's size

    def fits(self, data: bytes, at: int) -> bool:
        """Return whether a frame of this shape is at `at`, with its performative in `data`, regardless of its size."""
        return (
            data.startswith(self.head, at + 4)
            and data.startswith(self.middle, at + self.middle_at)
            and data.startswith(self.tail, at + self.tail_at)
            and at + self.stop <= len(data)
        )

    def run(self, data: bytes, at: int, size: int, most: int) -> int:
        """Return how many consecutive frames, from the complete one at `at` on, have this shape and size: 1 to
        `most`."""
        count = min(most, (len(data) - at) // size)
        for offset in self.fixed:
            column = data[at + offset : at + count * size : size]
            count = len(column) - len(column.lstrip(column[:1]))
            if count < 2:
                break
        return count


class Shapes:
    """The shapes of one connection."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, Shape] = {}
        #: Bytes five to sixteen of a frame -> its shape, or None. They contain its type, channel, performative and
        #: usually the handle of its link.
        self.of = self._by_key.get

    def add(self, data: bytes, at: int, body: int, stop: int) -> None:
        """Add the shape of the frame at `at`, whose well-formed performative is from `body` to `stop`, if it begins
        like most."""
        if body != at + _HEAD or not body + 3 <= stop <= at + _LARGEST:
            return
        beginning = _BEGINNINGS.get(data[body + 2])
        match = beginning.match(data, body, stop) if beginning else None
        if match is None:
            return
        first, middle, announced = match.start(1) + 1, match.start(2), match[2]
        tail = match.end() + (announced[1] if len(announced) > 1 else _WIDTHS[announced[0]])
        fixed = (*range(first - at), *range(middle - at, match.end() - at), *range(tail - at, stop - at))
        if len(self._by_key) >= _MOST_SHAPES:
            self._by_key.clear()
        self._by_key[data[at + 4 : at + 16]] = Shape(
            data[at + 4 : first], announced, middle - at, data[tail:stop], tail - at, stop - at, fixed
        )
