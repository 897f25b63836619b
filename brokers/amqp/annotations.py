"""The message annotations of an encoded message, found and changed without decoding them.

So the number, depth and size of their values cost nothing: only the first `MOST_READ` of them are looked at. Whole
numbers are read, of any AMQP type.
"""

from __future__ import annotations

from collections.abc import Collection

#: The beginnings of the sections: their descriptors as a small number, a number, a symbol.
_BEFORE, _ANNOTATIONS = (
    (b"\x00\x53" + bytes([code]), b"\x00\x80" + code.to_bytes(8, "big"), b"\x00\xa3" + bytes([len(name)]) + name)
    for code, name in ((0x71, b"amqp:delivery-annotations:map"), (0x72, b"amqp:message-annotations:map"))
)

#: Maximum number of annotations that are read; more would cost the broker time.
MOST_READ = 256

#: Maximum number of keys and values of a map.
_MOST_ITEMS = 0xFFFFFFFF

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


def annotations_in(body: bytes, at: int) -> tuple[int, int]:
    """Return where the map of the message annotations begins and ends. `at`: where they, or delivery annotations before
    them, may begin. Raises Unreadable if there is none."""
    at = _section(body, at)
    for descriptor in _ANNOTATIONS:
        if body.startswith(descriptor, at):
            at += len(descriptor)
            if body[at : at + 1] not in (b"\xc1", b"\xd1"):
                break
            return at, value_end(body, at, len(body))
    raise Unreadable


def pairs(body: bytes, start: int, end: int) -> list[tuple[bytes, int, int]]:
    """Return (key if it is a symbol, where its value begins and ends) of the first annotations."""
    found: list[tuple[bytes, int, int]] = []
    at = _first(body, start)
    while at < end and len(found) < MOST_READ:
        value_at = value_end(body, at, end)
        key = body[at + 2 : value_at] if body[at] == 0xA3 else body[at + 5 : value_at] if body[at] == 0xB3 else b""
        at = value_end(body, value_at, end)
        found.append((key, value_at, at))
    return found


def with_annotations(body: bytes, at: int, names: Collection[bytes], added: bytes, count: int) -> bytes:
    """Return the message, whose annotations begin at `at` if it has any, with `count` encoded pairs `added` before its
    own, where they are always read, and without its own of these names. Raises Unreadable."""
    section = _section(body, at)
    if body.startswith(_ANNOTATIONS, section):
        start, end = annotations_in(body, section)
        last, items, own = _first(body, start), _count(body, start), bytearray()
        for key, _, pair_end in pairs(body, start, end):
            if key in names:
                items -= 2
            else:
                own += body[last:pair_end]
            last = pair_end
        added, items = added + own + body[last:end], items + 2 * count
    else:
        end, items = section, 2 * count
    if not 0 <= items <= _MOST_ITEMS:
        raise Unreadable  # the number that the producer gave is wrong
    size = (4 + len(added)).to_bytes(4, "big") + items.to_bytes(4, "big")
    return body[:section] + _ANNOTATIONS[0] + b"\xd1" + size + added + body[end:]


def _section(body: bytes, at: int) -> int:
    """Return where the message annotations begin, with their descriptor. Raises Unreadable if there are none."""
    for before in _BEFORE:
        if body.startswith(before, at):
            at = value_end(body, at + len(before), len(body))
            break
    return at


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


def number_in(value: bytes) -> int | None:
    """Return the encoded whole number; None if it is none."""
    signed = _INTEGERS.get(value[0])
    return None if signed is None else int.from_bytes(value[1:], "big", signed=signed)
