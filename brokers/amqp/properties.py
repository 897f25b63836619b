"""The properties section of an encoded message: destination, subject and group, and Qpid JMS' annotation of topics.

Read only for links without a single queue as their target, and for message groups; other messages are not decoded.
"""

from __future__ import annotations

from dataclasses import dataclass

from proton import Described

from brokers.amqp import proton as pn

#: Sections that may stand before the properties: header, delivery annotations, message annotations.
_BEFORE = (0x70, 0x71, 0x72)
_MESSAGE_ANNOTATIONS = 0x72
_PROPERTIES = 0x73
_NAMES = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": _PROPERTIES,
}
_TO, _SUBJECT, _GROUP = 2, 3, 10  # places in the list of properties

#: The annotation with the kind of destination, and the kinds that are topics: permanent, temporary.
_DESTINATION, _TOPICS = "x-opt-jms-dest", (1, 3)


@dataclass(frozen=True, slots=True)
class Properties:
    """ "" for missing values. `topic`: the sender marks `to` as a topic."""

    to: str = ""
    subject: str = ""
    group: str = ""
    topic: bool = False


def properties(body: bytes) -> Properties:
    """Return the properties of a message; empty ones if it has none or cannot be read."""
    rest, topic = memoryview(body), False
    while rest:
        try:
            length, section = pn.decode_first(rest)
        except ValueError:
            break
        if not isinstance(section, Described):
            break
        kind = _NAMES.get(str(section.descriptor), section.descriptor)
        if kind == _PROPERTIES:
            values = section.value if isinstance(section.value, list) else []
            return Properties(_text(values, _TO), _text(values, _SUBJECT), _text(values, _GROUP), topic)
        if kind not in _BEFORE:
            break
        if kind == _MESSAGE_ANNOTATIONS and isinstance(section.value, dict):
            topic = section.value.get(_DESTINATION) in _TOPICS
        rest = rest[length:]
    return Properties()


def _text(values: list[object], place: int) -> str:
    value = values[place] if len(values) > place else None
    return str(value) if isinstance(value, str) else ""
