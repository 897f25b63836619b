"""Whether the frames of a peer are what they announce: looked at before Proton is given them, which believes them.

Proton takes an array that announces more items than it has, and ends the process when it is to be sent back. So each
performative is walked (part 1.2 of the standard): every size and count must be that of what is there. What a transfer
carries is passed over: Proton keeps it as bytes. Pure; nothing is kept but the beginning of a performative that is not
whole yet.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD, _PROTOCOL_HEADER = 8, 8  # bytes
_TRANSFER = b"\x00\x53\x14"


def _list_of(code: int, *fields: bytes, least: int) -> re.Pattern[bytes]:
    """A performative of at most these fields, the first `least` of which must be there, its size and count before them.
    Each field that is there is a group."""
    optional = b"".join(b"(?:(" + field + b")" for field in fields[least:]) + b")?" * (len(fields) - least)
    required = b"".join(b"(" + field + b")" for field in fields[:least])
    return re.compile(b"\\x00\\x53\\x%02x\\xc0(.)(.)" % code + required + optional, re.DOTALL)


_UINT, _UINT_OR_NULL = rb"\x43|\x52.|\x70....", rb"\x40|\x43|\x52.|\x70...."
_FLAG, _FLAG_OR_NULL = rb"[\x41\x42]", rb"[\x40-\x42]"
#: Accepted, released, or nothing.
_STATE = rb"\x40|\x00\x53[\x24\x26](?:\x45|\xc0\x01\x00)"
_TAG = rb"\x40|\xa0(?:" + b"|".join(rb"\x%02x.{%d}" % (length, length) for length in range(33)) + b")"

#: Transfers and dispositions as nearly every client sends them. There is one for each message, and the walk would take
#: several times as long.
_PLAIN = {
    b"\x14": _list_of(
        0x14,
        *(_UINT, _UINT_OR_NULL, _TAG, _UINT_OR_NULL, _FLAG_OR_NULL, _FLAG_OR_NULL, rb"\x40|\x50.", _STATE),
        *[_FLAG_OR_NULL] * 3,
        least=1,
    ),
    b"\x15": _list_of(0x15, _FLAG, _UINT, _UINT_OR_NULL, _FLAG_OR_NULL, _STATE, _FLAG_OR_NULL, least=2),
}

#: How most transfers begin, up to the length of the tag; the next may differ in the number and the tag alone.
_BEGIN_OF_TRANSFER = re.compile(rb"\x00\x53\x14\xc0..(?:" + _UINT + rb")(\x43|\x52.|\x70....)\xa0(.)", re.DOTALL)
#: So many shapes of transfers are kept of one connection.
_MOST_SHAPES = 64

#: More than can come: Proton ends a connection for a head that is wrong, and reads nothing more.
_TO_PROTON = 1 << 62

#: Deeper values, of which no client has a use, would cost stack in each that reads them.
DEEPEST = 32
#: So many values, in one performative, are within what Proton can hold; items of an array may take no bytes at all.
MOST_VALUES = 10_000

#: Bytes that follow a constructor: of a fixed width; -1: one or four bytes that give a length or size.
_WIDTHS: dict[int, int] = {
    **dict.fromkeys(range(0x40, 0x46), 0),
    **dict.fromkeys(range(0x50, 0x57), 1),
    **dict.fromkeys((0x60, 0x61), 2),
    **dict.fromkeys(range(0x70, 0x75), 4),
    **dict.fromkeys(range(0x80, 0x85), 8),
    **dict.fromkeys((0x94, 0x98), 16),
    **dict.fromkeys((0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0), -1),
}
_MAPS, _ARRAYS = (0xC1, 0xD1), (0xE0, 0xF0)
_DESCRIPTORS = (0x44, 0x53, 0x80, 0xA3, 0xB3)  # an ulong, a symbol


class Malformed(Exception):
    """A frame is not what it announces; the message says how. `start`: where in the data given last the bytes begin
    that Proton must not see."""

    start = 0


class _Shape(NamedTuple):
    """A transfer that was looked at. One of the same size with the same bytes around the number and the tag of its
    delivery is well-formed, too: those have the widths that are announced before them."""

    size: int
    head: bytes  # up to the constructor of the number
    length: bytes  # the constructor and the length of the tag
    length_at: int
    tail: bytes  # from the end of the tag
    tail_at: int


def _shape(data: bytes, at: int, end: int) -> _Shape | None:
    """Of the well-formed transfer there; None if it begins as few do."""
    match = _BEGIN_OF_TRANSFER.match(data, at, end)
    if match is None:
        return None
    number, length, tail = match.start(1) + 1, match.end() - 2, match.end() + match[2][0]
    return _Shape(end - at, data[at:number], data[length : length + 2], length - at, data[tail:end], tail - at)


class FrameCheck:
    """Of one connection, from its protocol header on."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._passed = _PROTOCOL_HEADER  # bytes to come that need no look
        self._held = b""  # the beginning of a frame that is not whole
        self._shapes: dict[bytes, _Shape] = {}  # by the bytes from their size on, which have the link's handle

    def take(self, data: bytes) -> None:
        """The next bytes of the peer. Raises Malformed; nothing may be given after that."""
        held = len(self._held)
        if held:
            data = self._held + data
            self._held = b""
        at, end = self._passed, len(data)
        while at < end:
            size = int.from_bytes(data[at : at + 4], "big")
            body = at + (data[at + 4] * 4 if at + 4 < end else _HEAD)
            if end - at >= 4 and not _HEAD <= size <= self._max_frame:
                self._passed = _TO_PROTON
                return
            if end - at >= _HEAD and not at + _HEAD <= body <= at + size:
                self._passed = _TO_PROTON
                return
            stop = _stop(data, body, at + size)
            if end - at < _HEAD or end < stop:
                self._held = data[at:]
                self._passed = 0
                return
            if body < at + size and not self._is_known(data, body, stop):
                try:
                    _Walk(data).value(body, at + size, 0)
                except Malformed as malformed:
                    malformed.start = max(0, at - held)
                    raise
                self._keep_shape(data, body, stop)
            at += size
        self._passed = at - end

    def _is_known(self, data: bytes, at: int, end: int) -> bool:
        """Whether there is a transfer like an earlier one, or a plain performative, from `at` to `end`."""
        shape = self._shapes.get(data[at + 4 : at + 8])
        if (
            shape is not None
            and shape.size == end - at
            and data.startswith(shape.head, at)
            and data.startswith(shape.length, at + shape.length_at)
            and data.startswith(shape.tail, at + shape.tail_at)
        ):
            return True
        if not _is_plain(data, at, end):
            return False
        self._keep_shape(data, at, end)
        return True

    def _keep_shape(self, data: bytes, at: int, end: int) -> None:
        if data.startswith(_TRANSFER, at) and (shape := _shape(data, at, end)) is not None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[data[at + 4 : at + 8]] = shape


def _stop(data: bytes, at: int, end: int) -> int:
    """Where what is to be looked at ends, of the performative at `at` in a frame that ends at `end`: there, but before
    what a transfer carries, as soon as that can be seen."""
    if data[at : at + 3] != _TRANSFER or len(data) < at + 8:
        return end
    code = data[at + 3]
    if code == 0xC0:
        return min(end, at + 5 + data[at + 4])
    return min(end, at + 8 + int.from_bytes(data[at + 4 : at + 8], "big")) if code == 0xD0 else end


def _is_plain(data: bytes, at: int, end: int) -> bool:
    """Whether there is a plain transfer or disposition from `at` to `end`, with the size and the count that it
    announces."""
    pattern = _PLAIN.get(data[at + 2 : at + 3])
    match = pattern.fullmatch(data, at, end) if pattern else None
    if match is None:
        return False
    size, count = match[1], match[2]
    return size[0] == end - at - 5 and count[0] == (match.lastindex or 0) - 2


class _Walk:
    """Through a performative."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MOST_VALUES

    def value(self, at: int, end: int, depth: int) -> int:
        """Where the value at `at` ends, which is at `end` or before it. Raises Malformed."""
        code, at = self._constructor(at, end, depth)
        return self._item(code, at, end, depth)

    def _constructor(self, at: int, end: int, depth: int) -> tuple[int, int]:
        """(the code of a constructor, where the value itself begins)."""
        if at >= end:
            raise Malformed("fewer items than announced")
        code = self._data[at]
        at += 1
        if code == 0:
            if at >= end or self._data[at] not in _DESCRIPTORS:
                raise Malformed("a descriptor that is neither an unsigned long nor a symbol")
            at = self._item(self._data[at], at + 1, end, depth)
            if at >= end:
                raise Malformed("a descriptor of nothing")
            code = self._data[at]
            at += 1
        return code, at

    def _item(self, code: int, at: int, end: int, depth: int) -> int:
        width = _WIDTHS.get(code)
        if width is None:
            raise Malformed(f"no type has the constructor {code:#04x}")
        self._left -= 1
        if self._left < 0:
            raise Malformed(f"more than {MOST_VALUES} values")
        if width < 0:
            wide = 4 if code & 0x10 else 1
            width = wide + int.from_bytes(self._data[at : at + wide], "big")
            if code >= 0xC0:
                if at + max(width, 2 * wide) > end:
                    raise Malformed("a compound value larger than what holds it")
                self._compound(code, at + wide, at + width, wide, depth + 1)
            elif at + wide > end:
                raise Malformed("a value that is cut short")
        if at + width > end:
            raise Malformed("a value larger than what holds it")
        return at + width

    def _compound(self, code: int, at: int, end: int, wide: int, depth: int) -> None:
        if depth > DEEPEST:
            raise Malformed(f"values more than {DEEPEST} deep")
        count = int.from_bytes(self._data[at : at + wide], "big")
        at += wide
        if at > end:
            raise Malformed("a compound value without a count")
        if code in _ARRAYS:
            # An array of no items has a constructor all the same, but not every client writes it.
            if count or at < end:
                each, at = self._constructor(at, end, depth)
                for _ in range(count):
                    at = self._item(each, at, end, depth)
        elif code in _MAPS and count % 2:
            raise Malformed("a map with a key that has no value")
        else:
            for _ in range(count):
                at = self.value(at, end, depth)
        if at != end:
            raise Malformed("more items than announced")
