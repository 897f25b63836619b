"""Validation of a peer's frames before Proton, which trusts their sizes and counts, gets them.

Proton accepts an array that announces more items than it has, and ends the process when it has to send it back. So
each performative is walked (part 1.2 of the standard): every size and count must match its data. The payload of a
transfer is skipped: Proton treats it as bytes. Pure; the only state is the beginning of an incomplete performative,
and the shapes of frames that were walked (`like_frames`).
"""

from __future__ import annotations

from brokers.amqp.like_frames import Shapes, frame_size

_HEAD, _PROTOCOL_HEADER = 8, 8  # bytes
_TRANSFER = b"\x00\x53\x14"

#: More than any input: Proton ends a connection with an invalid head, and reads nothing more.
_TO_PROTON = 1 << 62

#: After `_BEFORE_A_RUN` consecutive frames of one size, if `_SHORTEST_RUN` more may follow, a run is searched for: at
#: first among `_FIRST_RUN` frames, then among four times as many each time that all were alike, which bounds the cost
#: of a search in vain.
_BEFORE_A_RUN, _SHORTEST_RUN, _FIRST_RUN = 4, 8, 16

#: Maximum depth of values; deeper ones, which no client needs, would cost stack in every reader.
DEEPEST = 32
#: Maximum number of values in one performative, within Proton's limits; items of an array may take no bytes at all.
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
    """A frame does not match its sizes and counts; the message says why. `start`: where in the last data the bytes
    begin that Proton must not get."""

    start = 0


class FrameCheck:
    """The check of one connection's input, from its protocol header on."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._passed = _PROTOCOL_HEADER  # bytes to skip
        self._partial = b""  # the beginning of an incomplete frame
        self._shapes = Shapes()

    def take(self, data: bytes) -> None:
        """Check the next bytes of the peer. Raises Malformed; no bytes may follow after that."""
        earlier = len(self._partial)
        if earlier:
            data = self._partial + data
            self._partial = b""
        at, end = self._passed, len(data)
        shape_of, largest = self._shapes.of, self._max_frame
        last_size, alike, most = 0, 0, _FIRST_RUN
        while at < end:
            shape = shape_of(data[at + 4 : at + 16])
            if (
                shape is not None
                and shape.stop <= (size := frame_size(data, at)[0]) <= largest
                and shape.fits(data, at)
            ):
                alike = alike + 1 if size == last_size else 0
                last_size = size
                if alike < _BEFORE_A_RUN or end - at < size * _SHORTEST_RUN:
                    at += size
                elif (count := shape.run(data, at, size, most)) == most:
                    at += size * count
                    most *= 4
                else:
                    at += size * count
                    alike, most = 0, _FIRST_RUN
                continue
            if (whole := self._whole(data, at)) is None:
                return
            size, body, stop = whole
            if body < at + size:
                try:
                    _Walk(data).value(body, at + size, 0)
                except Malformed as malformed:
                    malformed.start = max(0, at - earlier)
                    raise
                self._shapes.add(data, at, body, stop)
            at += size
        self._passed = at - end

    def _whole(self, data: bytes, at: int) -> tuple[int, int, int] | None:
        """Return the size of the frame at `at`, where its body begins, and where the part to check ends. None if no
        more of the data can or must be checked."""
        there = len(data) - at
        size = int.from_bytes(data[at : at + 4], "big")
        body = at + (data[at + 4] * 4 if there > 4 else _HEAD)
        if (there >= 4 and not _HEAD <= size <= self._max_frame) or (
            there >= _HEAD and not at + _HEAD <= body <= at + size
        ):
            self._passed = _TO_PROTON
            return None
        stop = _stop(data, body, at + size)
        if there < _HEAD or len(data) < stop:
            self._partial = data[at:]
            self._passed = 0
            return None
        return size, body, stop


def _stop(data: bytes, at: int, end: int) -> int:
    """Return where the part to check ends, of the performative at `at` in a frame that ends at `end`: there, or before
    a transfer's payload if its beginning is known."""
    if data[at : at + 3] != _TRANSFER or len(data) < at + 8:
        return end
    code = data[at + 3]
    if code == 0xC0:
        return min(end, at + 5 + data[at + 4])
    return min(end, at + 8 + int.from_bytes(data[at + 4 : at + 8], "big")) if code == 0xD0 else end


class _Walk:
    """A walk through a performative."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MOST_VALUES

    def value(self, at: int, end: int, depth: int) -> int:
        """Return where the value at `at` ends, at `end` or before it. Raises Malformed."""
        code, at = self._constructor(at, end, depth)
        return self._item(code, at, end, depth)

    def _constructor(self, at: int, end: int, depth: int) -> tuple[int, int]:
        """Return (the code of a constructor, where the value itself begins)."""
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
            # An empty array has a constructor, too, but not every client writes it.
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
