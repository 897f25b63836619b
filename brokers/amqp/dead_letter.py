"""Dead letters: the message as it was sent, with annotations that give its source and reason.

Sections are joined as bytes; only message annotations, which may have entries of an earlier dead-letter queue or a
delivery time, are decoded. A delivery time and the time to live are removed: a dead letter is available at once and
does not expire.
"""

from __future__ import annotations

from typing import Any

from proton import Data, Described, symbol, ulong

from brokers.amqp import proton as pn
from brokers.amqp.header import without_ttl
from brokers.amqp.message_sections import MESSAGE_ANNOTATIONS, decoded, front

#: Annotations of a dead letter: the reason ("rejected", "maximum-deliveries" or "moved-by-operator"), its queue, the
#: number of failed deliveries there, and the description of the consumer that rejected it.
REASON, SOURCE, FAILED, DESCRIPTION = (
    symbol(f"x-opt-dead-letter-{name}") for name in ("reason", "queue", "failed-deliveries", "description")
)

_DELIVERY = (symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay"))

_MARKS = frozenset((REASON, SOURCE, FAILED, DESCRIPTION))

_DELIVERY_ANNOTATIONS, _MESSAGE_ANNOTATIONS = b"\x00\x53\x71", b"\x00\x53\x72"


def as_dead_letter(body: bytes, reason: str, queue: str, failed: int, description: str) -> bytes:
    """Return the message as a dead letter; unchanged if it cannot be decoded."""
    parts = without_ttl(body)
    if parts is None:
        return body
    header, rest = parts
    marks = {REASON: reason, SOURCE: queue, FAILED: failed, **({DESCRIPTION: description} if description else {})}
    try:
        before = pn.decode_first(rest)[0] if rest.startswith(_DELIVERY_ANNOTATIONS) else 0
        length, old = 0, dict[Any, Any]()
        if rest.startswith(_MESSAGE_ANNOTATIONS, before):
            length, section = pn.decode_first(memoryview(rest)[before:])
            old = {name: value for name, value in (section.value or {}).items() if name not in _DELIVERY}
        annotations = Data()
        annotations.put_object(Described(ulong(0x72), {**old, **marks}))
        return header + rest[:before] + bytes(annotations.encode()) + rest[before + length :]
    except (ValueError, TypeError, AttributeError):
        return body


def without_marks(body: bytes) -> bytes:
    """Return a dead letter without the annotations that `as_dead_letter` has added; unchanged if it has none."""
    section = front(body).get(MESSAGE_ANNOTATIONS)
    given = decoded(body, section)
    if section is None or not isinstance(given, dict) or not _MARKS & given.keys():
        return body
    left = {name: value for name, value in given.items() if name not in _MARKS}
    if not left:
        return body[: section.start] + body[section.end :]
    annotations = Data()
    try:
        annotations.put_object(Described(ulong(MESSAGE_ANNOTATIONS), left))
    except (ValueError, TypeError, AttributeError):
        return body
    return body[: section.start] + bytes(annotations.encode()) + body[section.end :]
