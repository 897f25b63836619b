"""All of a message for one who may read it: the body as bytes, text or JSON, annotations and footer."""

from __future__ import annotations

import json
from typing import Any

from brokers.amqp.annotations import Unreadable
from brokers.amqp.message_sections import (
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    VALUE,
    Section,
    decoded,
    sections,
)
from brokers.amqp.plain_values import plain, plain_map
from brokers.engine.values.message_format import Parts

#: The longest value or list in a body that is decoded, in bytes: longer ones are shown as they were sent.
MOST_OF_VALUE = 4 << 20

#: Constructors of binaries, and of strings and symbols -> bytes of their size.
_BINARIES, _TEXTS = {0xA0: 1, 0xB0: 4}, {0xA1: 1, 0xB1: 4, 0xA3: 1, 0xB3: 4}


def parts(body: bytes) -> Parts:
    """Return the parts of a message; one that cannot be read is `undecodable`."""
    try:
        found = list(sections(body))
    except Unreadable:
        return Parts("undecodable", body)
    by_kind = {section.kind: section for section in found}
    kind, content = _content(body, [section for section in found if DATA <= section.kind <= VALUE])
    annotations, delivery, footer = (
        plain_map(decoded(body, by_kind.get(each))) for each in (MESSAGE_ANNOTATIONS, DELIVERY_ANNOTATIONS, FOOTER)
    )
    return Parts(kind, content, annotations, delivery, footer)


def _content(body: bytes, found: list[Section]) -> tuple[str, bytes | memoryview]:
    kinds = {section.kind for section in found}
    if not kinds:
        return "none", b""
    if len(kinds) > 1 or (VALUE in kinds and len(found) > 1):
        return "undecodable", body
    if DATA in kinds:
        data = [_slice(body, section, _BINARIES) for section in found]
        if any(each is None for each in data):
            return "undecodable", body
        return "data", data[0] if len(data) == 1 and data[0] is not None else b"".join(each or b"" for each in data)
    if VALUE in kinds:
        return _value(body, found[0])
    values: list[Any] = []
    for section in found:
        value = decoded(body, section, MOST_OF_VALUE)
        if not isinstance(value, list):
            return "undecodable", body
        values += plain(value)
    return "sequence", _json(values)


def _value(body: bytes, section: Section) -> tuple[str, bytes | memoryview]:
    text, data = _slice(body, section, _TEXTS), _slice(body, section, _BINARIES)
    if text is not None:
        return "text", text
    if data is not None:
        return "data", data
    value = decoded(body, section, MOST_OF_VALUE)
    if value is None and body[section.value] != 0x40:  # null
        return "undecodable", body
    return "value", _json(plain(value))


def _slice(body: bytes, section: Section, constructors: dict[int, int]) -> memoryview | None:
    """Return the content of a value of variable width; None if it is of another kind."""
    width = constructors.get(body[section.value])
    return None if width is None else memoryview(body)[section.value + 1 + width : section.end]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")
