"""Dead letters: the message as it was sent, with annotations that give its source and reason.

Sections are joined as bytes, and nothing is decoded: many messages may be rejected at once. Message annotations of an
earlier dead-letter queue are replaced. A delivery time and the time to live are removed: a dead letter is available at
once and does not expire.
"""

from __future__ import annotations

from proton import Data, Described, symbol, ulong

from brokers.amqp.annotations import Unreadable, with_annotations
from brokers.amqp.header import without_ttl
from brokers.amqp.message_sections import MESSAGE_ANNOTATIONS, decoded, front

#: Annotations of a dead letter: the reason ("rejected", "maximum-deliveries" or "moved-by-operator"), its queue, the
#: number of failed deliveries there, and the description of the consumer that rejected it.
REASON, SOURCE, FAILED, DESCRIPTION = (
    symbol(f"x-opt-dead-letter-{name}") for name in ("reason", "queue", "failed-deliveries", "description")
)

_MARKS = frozenset((REASON, SOURCE, FAILED, DESCRIPTION))

#: Annotations that are replaced or removed.
_REPLACED = frozenset(name.encode() for name in (*_MARKS, "x-opt-delivery-time", "x-opt-delivery-delay"))


def as_dead_letter(body: bytes, reason: str, queue: str, failed: int, description: str) -> bytes:
    """Return the message as a dead letter; unchanged if its header cannot be read, and without these annotations if its
    own cannot."""
    parts = without_ttl(body)
    if parts is None:
        return body
    header, rest = parts
    marks = [_text(REASON, reason), _text(SOURCE, queue), _key(FAILED) + b"\x81" + failed.to_bytes(8, "big")]
    if description:
        marks.append(_text(DESCRIPTION, description))
    try:
        return header + with_annotations(rest, 0, _REPLACED, b"".join(marks), len(marks))
    except Unreadable:
        return header + rest


def _key(name: str) -> bytes:
    return b"\xa3" + bytes([len(name)]) + name.encode()


def _text(name: str, value: str) -> bytes:
    encoded = value.encode(errors="replace")
    return _key(name) + b"\xb1" + len(encoded).to_bytes(4, "big") + encoded


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
