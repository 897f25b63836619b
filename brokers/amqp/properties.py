"""The properties section of an encoded message: destination, subject and group, and Qpid JMS' annotation of topics.

Read only for links without a single queue as their target, and for message groups. Nothing is decoded but these fields:
other values of a message cost nothing, whatever their number and size.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.amqp.annotations import Unreadable, number_in, pairs, value_end
from brokers.amqp.message_sections import MESSAGE_ANNOTATIONS, PROPERTIES, Section, front

_TO, _SUBJECT, _GROUP = 2, 3, 10  # places in the list of properties

#: The annotation with the kind of destination, and the kinds that are topics: permanent, temporary.
_DESTINATION, _TOPICS = b"x-opt-jms-dest", (1, 3)

#: Constructors of strings and symbols -> bytes of their size; and of lists.
_TEXTS = {0xA1: 1, 0xB1: 4, 0xA3: 1, 0xB3: 4}
_LISTS = {0xC0: 1, 0xD0: 4}


@dataclass(frozen=True, slots=True)
class Properties:
    """ "" for missing values. `topic`: the sender marks `to` as a topic."""

    to: str = ""
    subject: str = ""
    group: str = ""
    topic: bool = False


def properties(body: bytes) -> Properties:
    """Return the properties of a message; empty ones if it has none or cannot be read."""
    found = front(body)
    section = found.get(PROPERTIES)
    if section is None:
        return Properties()
    try:
        values = _values(body, section)
        topic = _is_topic(body, found.get(MESSAGE_ANNOTATIONS))
        return Properties(_text(values, _TO), _text(values, _SUBJECT), _text(values, _GROUP), topic)
    except Unreadable:
        return Properties()


def _values(body: bytes, section: Section) -> list[bytes]:
    """Return the encoded values up to the group."""
    wide = _LISTS.get(body[section.value])
    values: list[bytes] = []
    if wide is not None:
        at, end = section.value + 1 + 2 * wide, section.end
        while at < end and len(values) <= _GROUP:
            after = value_end(body, at, end)
            values.append(body[at:after])
            at = after
    return values


def _text(values: list[bytes], place: int) -> str:
    value = values[place] if len(values) > place else b"\x40"
    wide = _TEXTS.get(value[0])
    try:
        return "" if wide is None else value[1 + wide :].decode()
    except UnicodeDecodeError:
        return ""


def _is_topic(body: bytes, annotations: Section | None) -> bool:
    if annotations is None or body[annotations.value] not in (0xC1, 0xD1):
        return False
    if body.find(_DESTINATION, annotations.value, annotations.end) < 0:
        return False
    return any(
        key == _DESTINATION and number_in(body[value_at:end]) in _TOPICS
        for key, value_at, end in pairs(body, annotations.value, annotations.end)
    )
