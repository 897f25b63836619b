"""The properties of a message of AMQP 0-9-1 as the bytes of its content header, to be passed on as they are. Pure.

Decoded and encoded again they would be others, and some cannot be decoded at all: text that is not UTF-8, and times
that no calendar has. So they are only skipped here, but for the death that RabbitMQ adds to a dropped message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

from pamqp import decode

#: Where the flags of the properties are in the header; one bit a property, from 15 down.
_FLAGS = 12
_SHORT, _TABLE, _OCTET, _TIME = "short", "table", "octet", "time"
#: content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to, expiration, message-id,
#: timestamp, type, user-id, app-id, cluster-id.
_FORMS = (_SHORT, _SHORT, _TABLE, _OCTET, _OCTET, _SHORT, _SHORT, _SHORT, _SHORT, _TIME, _SHORT, _SHORT, _SHORT, _SHORT)
_HEADERS, _USER_ID = 13, 4
#: Sizes of the values of headers by their tags, without the tag; those of _COUNTED begin with their size.
_SIZES = {**dict.fromkeys(b"tbB", 1), **dict.fromkeys(b"sUu", 2), **dict.fromkeys(b"Iif", 4), ord("D"): 5, ord("V"): 0}
_SIZES |= dict.fromkeys(b"lLdT", 8)
_COUNTED = b"SxAF"

_DEATHS, _FIRST_DEATH = b"x-death", b"x-first-death-"


def deaths(header: bytes) -> list[Mapping[str, Any]]:
    """Return the deaths of a message, the last one first. Raises ValueError for what RabbitMQ does not write."""
    for name, start, end in _fields(header):
        if name == _DEATHS:
            _, found = decode.embedded_value(header[start:end])
            return [death for death in found if isinstance(death, Mapping)] if isinstance(found, list) else []
    return []


def before_its_death(header: bytes) -> bytes:
    """Return the properties without the only death of the message. With more than one, all of them stay."""
    if len(deaths(header)) != 1:
        return header
    start, end = _places(header)[_HEADERS]
    fields = [header[s - len(name) - 1 : e] for name, s, e in _fields(header) if not _of_death(name)]
    table = b"".join(fields)
    return header[:start] + struct.pack(">I", len(table)) + table + header[end:]


def _of_death(name: bytes) -> bool:
    return name == _DEATHS or name.startswith(_FIRST_DEATH)


def for_publisher(header: bytes, user: str) -> bytes:
    """Return the properties as a user may publish them: RabbitMQ refuses the user-id of another one."""
    place = _places(header).get(_USER_ID)
    if place is None or header[place[0] + 1 : place[1]] == user.encode():
        return header
    (flags,) = struct.unpack_from(">H", header, _FLAGS)
    without = struct.pack(">H", flags & ~(1 << _USER_ID))
    return header[:_FLAGS] + without + header[_FLAGS + 2 : place[0]] + header[place[1] :]


def _places(header: bytes) -> dict[int, tuple[int, int]]:
    """Return where the properties that are there begin and end, by their bits."""
    (flags,) = struct.unpack_from(">H", header, _FLAGS)
    found: dict[int, tuple[int, int]] = {}
    at = _FLAGS + 2
    for bit, form in zip(range(15, 1, -1), _FORMS, strict=True):
        if flags & 1 << bit:
            found[bit] = at, at + _size(header, at, form)
            at = found[bit][1]
    return found


def _size(header: bytes, at: int, form: str) -> int:
    if form == _SHORT:
        return 1 + header[at]
    if form == _TABLE:
        return 4 + int(struct.unpack_from(">I", header, at)[0])
    return 1 if form == _OCTET else 8


def _fields(header: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the names of the headers, and where their values (with the tag) begin and end."""
    place = _places(header).get(_HEADERS)
    if place is None:
        return
    at, end = place[0] + 4, place[1]
    while at < end:
        start = at + 1 + header[at]
        name, tag = header[at + 1 : start], header[start]
        if tag in _COUNTED:
            size = 4 + int(struct.unpack_from(">I", header, start + 1)[0])
        elif tag in _SIZES:
            size = _SIZES[tag]
        else:
            raise ValueError(f"a header has a value of the unknown type {chr(tag)}")
        at = start + 1 + size
        yield name, start, at
