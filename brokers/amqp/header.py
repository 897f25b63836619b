"""The header section of an encoded message: read whether it is durable, and tell the receiver how often its delivery
has failed before.

Only the header is written anew; every other byte of the message stays what the producer sent. Whatever that was,
nothing is raised: a producer must not be able to break its consumers' delivery.
"""

from __future__ import annotations

#: How a header section may begin: its descriptor as a small number, a number, a symbol.
_DESCRIPTORS = (b"\x00\x53\x70", b"\x00\x80" + (0x70).to_bytes(8, "big"), b"\x00\xa3\x10amqp:header:list")

#: How any section may begin.
_SECTIONS = (b"\x00\x53", b"\x00\x80", b"\x00\xa3")

#: durable, priority, ttl, first-acquirer, delivery-count: the constructors each may have, and their widths in bytes.
_BOOLEAN = {0x40: 0, 0x41: 0, 0x42: 0, 0x56: 1}
_UBYTE = {0x40: 0, 0x50: 1}
_UINT = {0x40: 0, 0x43: 0, 0x52: 1, 0x70: 4}
_FIELDS = (_BOOLEAN, _UBYTE, _UINT, _BOOLEAN, _UINT)

_NULL, _FALSE = b"\x40", b"\x42"

#: A header as nearly every client begins it, and the other ways.
_USUAL, _RARE = b"\x00\x53\x70\xc0", (b"\x00\x53\x70\xd0", b"\x00\x80", b"\x00\xa3")


def is_durable(body: bytes) -> bool:
    """Whether the message asks to be stored. Runs for every message of a durable queue."""
    if body.startswith(_USUAL):
        return body.startswith((b"\x41", b"\x56\x01"), 6)
    return body.startswith(_RARE) and _is_durable_slowly(body)


def _is_durable_slowly(body: bytes) -> bool:
    start = next((len(d) for d in _DESCRIPTORS if body.startswith(d)), 0)
    fields, _ = _fields(body, start) if start else ([], 0)
    return fields is not None and fields[:1] in ([b"\x41"], [b"\x56\x01"])


def with_failed_deliveries(body: bytes, count: int) -> bytes:
    """The message with `delivery-count` set; a message whose header cannot be read is returned as it is."""
    if not body.startswith(_SECTIONS):
        return body
    start = next((len(d) for d in _DESCRIPTORS if body.startswith(d)), 0)
    fields, end = _fields(body, start) if start else ([], 0)
    if fields is None:
        return body
    durable, priority, ttl = [*fields, _NULL, _NULL, _NULL][:3]
    items = durable + priority + ttl + _FALSE + b"\x70" + count.to_bytes(4, "big")
    return _DESCRIPTORS[0] + bytes([0xC0, len(items) + 1, len(_FIELDS)]) + items + body[end:]


def _fields(body: bytes, at: int) -> tuple[list[bytes] | None, int]:
    """The header's fields as they are encoded, and where the section ends; None if it is not a header's list."""
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
