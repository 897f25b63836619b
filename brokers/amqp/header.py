"""The header section of an encoded message: read it for the queue, and rewrite it for a receiver.

Only the header is rewritten; all other bytes of the message stay as the producer sent them. No input raises an error:
a producer must not be able to break the delivery to its consumers.
"""

from __future__ import annotations

from brokers.amqp.delivery_time import NAMES, NONE, requested_time, with_delivery_time
from brokers.engine.values.message import HIGHEST_PRIORITY, PLAIN, USUAL_PRIORITY, Header

#: The beginnings of a header section: its descriptor as a small number, a number, a symbol.
_DESCRIPTORS = (b"\x00\x53\x70", b"\x00\x80" + (0x70).to_bytes(8, "big"), b"\x00\xa3\x10amqp:header:list")

#: The last section before which delivery times may come, as a small number: message annotations.
_ANNOTATIONS = 0x72

#: The beginnings of any section.
_SECTIONS = (b"\x00\x53", b"\x00\x80", b"\x00\xa3")

#: durable, priority, ttl, first-acquirer, delivery-count: their possible constructors, and the widths in bytes.
_BOOLEAN = {0x40: 0, 0x41: 0, 0x42: 0, 0x56: 1}
_UBYTE = {0x40: 0, 0x50: 1}
_UINT = {0x40: 0, 0x43: 0, 0x52: 1, 0x70: 4}
_FIELDS = (_BOOLEAN, _UBYTE, _UINT, _BOOLEAN, _UINT)

_NULL, _FALSE = b"\x40", b"\x42"

#: Encoded header sections -> their values: clients send the same ones repeatedly.
_known: dict[bytes, Header] = {}
_MOST_KNOWN = 4096


def header(body: bytes) -> Header:
    """Return the header and delivery time; PLAIN itself if all have their defaults. Runs for every message."""
    try:
        section = body[2]
        if section != 0x70 and body[1] == 0x53:  # another section comes first
            return PLAIN if section > _ANNOTATIONS else _timed(PLAIN, body, 0)
        if body[3] == 0x45:  # an empty list
            return PLAIN if body[6] > _ANNOTATIONS and body[5] == 0x53 else _timed(PLAIN, body, 4)
        if body[3] == 0xC0:
            end = 5 + body[4]
            found = _known[body[:end]]
            return found if body[end + 2] > _ANNOTATIONS and body[end + 1] == 0x53 else _timed(found, body, end)
    except (IndexError, KeyError):
        pass
    found, end = _read(body)
    return _timed(found, body, end)


def _timed(plain: Header, body: bytes, at: int) -> Header:
    """Return the header with the delivery time of the annotations, which begin at `at`."""
    # All messages of JMS clients have annotations, and nearly none a delivery time: written out for what they send, a
    # small map or one of less than 64 KiB.
    try:
        if body[at + 2] == _ANNOTATIONS and body[at + 1] == 0x53:
            if body[at + 3] == 0xC1:
                end = at + 5 + body[at + 4]
            elif body[at + 3] == 0xD1 and not (body[at + 4] or body[at + 5]):
                end = at + 8 + 256 * body[at + 6] + body[at + 7]
            else:
                end = len(body)
            if body.find(NAMES, at, end) < 0:
                return plain
    except IndexError:
        return plain
    found = requested_time(body, at)
    return plain if found is NONE else plain._replace(due=found[0], delay=found[1])


def at_delivery_time(body: bytes, due: int) -> bytes:
    """Return the message with this delivery time, ms since the epoch, in place of a delay; unchanged if unreadable."""
    start = _start(body)
    return with_delivery_time(body, _fields(body, start)[1] if start else 0, due)


def _read(body: bytes) -> tuple[Header, int]:
    """Return the header, and where it ends."""
    start = _start(body)
    fields, end = _fields(body, start) if start else (None, 0)
    if not fields:
        return PLAIN, end
    durable, priority, ttl = [*fields, _NULL, _NULL][:3]
    found = Header(
        durable in (b"\x41", b"\x56\x01"),
        USUAL_PRIORITY if priority == _NULL else min(HIGHEST_PRIORITY, priority[1]),
        int.from_bytes(ttl[1:], "big"),
    )
    found = PLAIN if found == PLAIN else found
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[body[:end]] = found
    return found, end


def for_delivery(body: bytes, failed: int, ttl: int | None = None) -> bytes:
    """Return the message with `delivery-count` set and, unless it is None, with this time to live in ms; a message with
    an unreadable header is returned unchanged."""
    read = _sections(body)
    if read is None:
        return body
    (durable, priority, given), rest = read
    left = given if ttl is None else b"\x70" + min(ttl, 0xFFFFFFFF).to_bytes(4, "big")
    return _written(durable, priority, left, b"\x70" + failed.to_bytes(4, "big")) + rest


def without_ttl(body: bytes) -> tuple[bytes, bytes] | None:
    """Return (a header without time to live and failed deliveries, the rest); None if it cannot be read."""
    read = _sections(body)
    if read is None:
        return None
    (durable, priority, _), rest = read
    return _written(durable, priority, _NULL, _NULL), rest


def _written(durable: bytes, priority: bytes, ttl: bytes, failed: bytes) -> bytes:
    items = durable + priority + ttl + _FALSE + failed
    return _DESCRIPTORS[0] + bytes([0xC0, len(items) + 1, len(_FIELDS)]) + items


def _sections(body: bytes) -> tuple[list[bytes], bytes] | None:
    """Return (the first three fields of the header, encoded, the rest of the message)."""
    if not body.startswith(_SECTIONS):
        return None
    start = _start(body)
    fields, end = _fields(body, start) if start else ([], 0)
    return None if fields is None else ([*fields, _NULL, _NULL, _NULL][:3], body[end:])


def _start(body: bytes) -> int:
    """Return where the header's list begins; 0 if there is no header."""
    return next((len(d) for d in _DESCRIPTORS if body.startswith(d)), 0)


def _fields(body: bytes, at: int) -> tuple[list[bytes] | None, int]:
    """Return the header's encoded fields, and where the section ends; None if it is not a header's list."""
    kind = body[at : at + 1]
    if kind == b"\x45":
        return [], at + 1
    width = {b"\xc0": 1, b"\xd0": 4}.get(kind, 0)
    at += 1
    end = at + width + int.from_bytes(body[at : at + width], "big")
    count = int.from_bytes(body[at + width : at + 2 * width], "big")
    at += 2 * width
    if not width or not at <= end <= len(body) or count > len(_FIELDS):
        return None, 0
    fields = []
    for widths in _FIELDS[:count]:
        size = widths.get(body[at] if at < end else -1)
        if size is None:
            return None, 0
        fields.append(body[at : at + 1 + size])
        at += 1 + size
    return (fields, end) if at == end else (None, 0)
