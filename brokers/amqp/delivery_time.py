"""The delivery time in message annotations: `x-opt-delivery-time`, ms since the epoch, which Qpid JMS sends, or
`x-opt-delivery-delay`, ms from the arrival in the queue.

Both are whole numbers of any AMQP type; the time may be a timestamp. Other values are ignored. If both are set, the
time applies, as in ActiveMQ Artemis. Ordinary messages cost only a search for the names in their annotations. Nothing
is decoded, so the depth and size of other values cost nothing.
"""

from __future__ import annotations

from brokers.engine.values.message import LATEST

#: No delivery time and no delay.
NONE = (0, 0)

#: The common beginning of both names.
NAMES = b"x-opt-delivery-"
_TIME, _DELAY = b"x-opt-delivery-time", b"x-opt-delivery-delay"

#: The beginnings of the sections: their descriptors as a small number, a number, a symbol.
_BEFORE, _ANNOTATIONS = (
    (b"\x00\x53" + bytes([code]), b"\x00\x80" + code.to_bytes(8, "big"), b"\x00\xa3" + bytes([len(name)]) + name)
    for code, name in ((0x71, b"amqp:delivery-annotations:map"), (0x72, b"amqp:message-annotations:map"))
)

#: Maximum number of annotations that are read; more would cost the broker time.
MOST_READ = 256

#: Maximum number of nested descriptors of a value.
_MOST_DESCRIPTORS = 32

#: Bytes of a value of a fixed width, by the upper half of its constructor.
_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: Bytes of the size that comes before a value, likewise.
_SIZES = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}

#: Constructors of whole numbers and of timestamps -> whether they have a sign.
_INTEGERS = {
    **dict.fromkeys((0x43, 0x44, 0x50, 0x52, 0x53, 0x60, 0x70, 0x80), False),
    **dict.fromkeys((0x51, 0x54, 0x55, 0x61, 0x71, 0x81, 0x83), True),
}


class Unreadable(Exception):
    """The bytes are not a well-formed section or value."""


def requested_time(body: bytes, at: int) -> tuple[int, int]:
    """Return (delivery time, delay) in ms, of which at least one is 0, of a message whose annotations, if any, begin at
    `at`. A past time is returned like any other."""
    try:
        start, end = _annotations(body, at)
        if body.find(NAMES, start, end) < 0:
            return NONE
        due = delay = None
        for key, value_at, pair_end in _pairs(body, start, end):
            if key == _TIME:
                due = _number(body[value_at:pair_end])
            elif key == _DELAY:
                delay = _number(body[value_at:pair_end])
    except Unreadable:
        return NONE
    requested = (0, max(0, delay or 0)) if due is None else (max(0, due), 0)
    return requested if any(requested) else NONE


def with_delivery_time(body: bytes, at: int, due: int) -> bytes:
    """Return the message with this delivery time, ms since the epoch, in place of its own time or delay, and its other
    annotations unchanged. A message that cannot be read is returned unchanged."""
    try:
        start, end = _annotations(body, at)
        pairs = bytearray()
        last, count = _first(body, start), _count(body, start)
        for key, _, pair_end in _pairs(body, start, end):
            if key in (_TIME, _DELAY):
                count -= 2
            else:
                pairs += body[last:pair_end]
            last = pair_end
    except Unreadable:
        return body
    # A long, which is what JMS clients expect here.
    pairs += body[last:end] + b"\xa3" + bytes([len(_TIME)]) + _TIME + b"\x81" + due.to_bytes(8, "big")
    section = _ANNOTATIONS[0] + b"\xd1" + (4 + len(pairs)).to_bytes(4, "big") + (count + 2).to_bytes(4, "big")
    return body[: _section(body, at)] + section + pairs + body[end:]


def _section(body: bytes, at: int) -> int:
    """Return where the message annotations begin, with their descriptor. Raises Unreadable if there are none."""
    for before in _BEFORE:
        if body.startswith(before, at):
            at = value_end(body, at + len(before), len(body))
            break
    return at


def _annotations(body: bytes, at: int) -> tuple[int, int]:
    """Return where the map of the annotations begins and ends. Raises Unreadable if there is none."""
    at = _section(body, at)
    for descriptor in _ANNOTATIONS:
        if body.startswith(descriptor, at):
            at += len(descriptor)
            if body[at : at + 1] not in (b"\xc1", b"\xd1"):
                break
            return at, value_end(body, at, len(body))
    raise Unreadable


def _wide(body: bytes, start: int) -> int:
    """Return the width of the map's size and of its count, in bytes."""
    return _SIZES[body[start] >> 4]


def _first(body: bytes, start: int) -> int:
    """Return where the first key of the map is."""
    return start + 1 + 2 * _wide(body, start)


def _count(body: bytes, start: int) -> int:
    """Return the number of keys and values."""
    first = _first(body, start)
    return int.from_bytes(body[first - _wide(body, start) : first], "big")


def _pairs(body: bytes, start: int, end: int) -> list[tuple[bytes, int, int]]:
    """Return (key if it is a symbol, where its value begins and ends) of the first annotations."""
    pairs: list[tuple[bytes, int, int]] = []
    at = _first(body, start)
    while at < end and len(pairs) < MOST_READ:
        value_at = value_end(body, at, end)
        key = body[at + 2 : value_at] if body[at] == 0xA3 else body[at + 5 : value_at] if body[at] == 0xB3 else b""
        at = value_end(body, value_at, end)
        pairs.append((key, value_at, at))
    return pairs


def value_end(body: bytes, at: int, end: int) -> int:
    """Return where the value at `at` ends, at `end` or before it. Raises Unreadable."""
    left = 1
    while left and at < end:
        code = body[at]
        at += 1
        if code == 0:
            left += 1  # a descriptor and its value
            if left > _MOST_DESCRIPTORS:
                raise Unreadable
            continue
        kind = code >> 4
        if kind in _WIDTHS:
            at += _WIDTHS[kind]
        elif kind in _SIZES:
            at += _SIZES[kind] + int.from_bytes(body[at : at + _SIZES[kind]], "big")
        else:
            raise Unreadable
        left -= 1
    if left or at > end:
        raise Unreadable
    return at


def _number(value: bytes) -> int | None:
    """Return the encoded whole number, LATEST at most; None if it is none."""
    signed = _INTEGERS.get(value[0])
    return None if signed is None else min(LATEST, int.from_bytes(value[1:], "big", signed=signed))
