"""The sections of an encoded message, found without decoding them: their kinds, and where their values are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from proton import Described

from brokers.amqp import proton as pn
from brokers.amqp.annotations import Unreadable, value_end

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)

_KINDS = {
    b"amqp:header:list": HEADER,
    b"amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    b"amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    b"amqp:properties:list": PROPERTIES,
    b"amqp:application-properties:map": APPLICATION_PROPERTIES,
    b"amqp:data:binary": DATA,
    b"amqp:amqp-sequence:list": SEQUENCE,
    b"amqp:amqp-value:*": VALUE,
    b"amqp:footer:map": FOOTER,
}

#: The longest section in front of the body that is decoded, in bytes: of the one message that is read, and of each of
#: many that are searched. A second decodes about 2 MB.
MOST_DECODED, MOST_SEARCHED = 256 << 10, 64 << 10


class Section(NamedTuple):
    """`kind`: the number of its descriptor. `start`: where that begins; `value`, `end`: where its value begins and
    ends."""

    kind: int
    start: int
    value: int
    end: int


def sections(body: bytes) -> Iterator[Section]:
    """Yield the sections in order. Raises Unreadable at bytes that are none."""
    at = 0
    while at < len(body):
        kind, value = _kind(body, at)
        end = value_end(body, value, len(body))
        yield Section(kind, at, value, end)
        at = end


def front(body: bytes) -> dict[int, Section]:
    """Return the readable sections that precede the body, by kind: up to the first that is out of order or repeated."""
    found: dict[int, Section] = {}
    last = 0
    try:
        for section in sections(body):
            if not last < section.kind <= APPLICATION_PROPERTIES:
                break
            found[section.kind] = section
            last = section.kind
    except Unreadable:
        pass
    return found


def decoded(body: bytes, section: Section | None, most: int = MOST_DECODED) -> Any:
    """Return the value of a section; None if it has more than `most` bytes, or cannot be read."""
    if section is None or section.end - section.value > most:
        return None
    try:
        value = pn.decode_first(memoryview(body)[section.value : section.end])[1]
    except ValueError:
        return None
    return value.value if isinstance(value, Described) else value


def _kind(body: bytes, at: int) -> tuple[int, int]:
    """Return (number of the descriptor, where the value begins)."""
    if body[at] == 0:
        code = body[at + 1 : at + 2]
        if code == b"\x53" and at + 2 < len(body):
            kind, value = body[at + 2], at + 3
        elif code == b"\x80":
            kind, value = int.from_bytes(body[at + 2 : at + 10], "big"), at + 10
        elif code == b"\xa3":
            value = at + 3 + body[at + 2] if at + 2 < len(body) else len(body)
            kind = _KINDS.get(bytes(body[at + 3 : value]), 0)
        else:
            raise Unreadable
        if HEADER <= kind <= FOOTER and value < len(body):
            return kind, value
    raise Unreadable
