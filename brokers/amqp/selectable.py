"""The values of an encoded message for selectors: application properties, and headers with names in JMS.

Sections are decoded on demand, and the body never is. A message that cannot be read has no properties, and neither has
one whose section is longer than `MOST_SEARCHED`: decoding takes time, and producers choose what is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokers.amqp.header import header
from brokers.amqp.message_sections import APPLICATION_PROPERTIES, MOST_SEARCHED, PROPERTIES, decoded, front

#: Names of JMS -> places in the list of properties.
_PLACES = {
    "JMSMessageID": 0,
    "JMSXUserID": 1,
    "JMSType": 3,
    "JMSCorrelationID": 5,
    "JMSTimestamp": 9,
    "JMSXGroupID": 10,
    "JMSXGroupSeq": 11,
}


Values = Callable[[str], Any]

#: The message that was read last: the selectors of a topic's subscriptions read the same one, which is decoded once.
_last: tuple[bytes, Values] | None = None


def property_of(body: bytes) -> Values:
    """Return a function from a name to its value, None if the message has none."""
    global _last  # noqa: PLW0603 - a cache of one entry
    if _last is None or _last[0] is not body:
        _last = body, _reader(body)
    return _last[1]


def _reader(body: bytes) -> Values:
    found: dict[int, Any] = {}  # values of sections, by kind

    def section(kind: int) -> Any:
        if kind not in found:
            found[kind] = decoded(body, front(body).get(kind), MOST_SEARCHED)
        return found[kind]

    def value(name: str) -> Any:
        if name == "JMSPriority":
            return header(body).priority
        if name == "JMSDeliveryMode":
            return "PERSISTENT" if header(body).durable else "NON_PERSISTENT"
        if name in _PLACES:
            return _property(section(PROPERTIES), name)
        given = section(APPLICATION_PROPERTIES)
        return given.get(name) if isinstance(given, Mapping) else None

    return value


def _property(given: Any, name: str) -> Any:
    place = _PLACES[name]
    found = given[place] if isinstance(given, list) and len(given) > place else None
    if isinstance(found, (bytes, memoryview)):
        return bytes(found).decode(errors="replace")
    if name == "JMSMessageID" and found is not None:
        return str(found) if str(found).startswith("ID:") else f"ID:{found}"
    return found
