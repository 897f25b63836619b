"""The values of an encoded message for selectors: application properties, and headers with names in JMS.

Sections are decoded on demand, and the body never is. A message that cannot be read has no properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proton import Described

from brokers.amqp import proton as pn
from brokers.amqp.header import header

_PROPERTIES, _APPLICATION_PROPERTIES = 0x73, 0x74
#: Sections that may precede the last of these.
_KNOWN = {0x70, 0x71, 0x72, _PROPERTIES, _APPLICATION_PROPERTIES}
_NAMES = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
}

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


def property_of(body: bytes) -> Callable[[str], Any]:
    """Return a function from a name to its value, None if the message has none."""
    sections: dict[int, Any] | None = None

    def value(name: str) -> Any:
        nonlocal sections
        if name == "JMSPriority":
            return header(body).priority
        if name == "JMSDeliveryMode":
            return "PERSISTENT" if header(body).durable else "NON_PERSISTENT"
        if sections is None:
            sections = _sections(body)
        if name in _PLACES:
            return _property(sections.get(_PROPERTIES), name)
        given = sections.get(_APPLICATION_PROPERTIES)
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


def _sections(body: bytes) -> dict[int, Any]:
    rest, found = memoryview(body), dict[int, Any]()
    while rest and _APPLICATION_PROPERTIES not in found:
        try:
            length, section = pn.decode_first(rest)
        except ValueError:
            break
        if not isinstance(section, Described):
            break
        kind = _NAMES.get(str(section.descriptor), section.descriptor)
        if kind not in _KNOWN:
            break
        found[int(kind)] = section.value
        rest = rest[length:]
    return found
