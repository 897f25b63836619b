"""New messages that an operator writes, encoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proton import Message

from brokers.admin import InvalidValue
from brokers.engine.values.message_format import Draft

#: Standard properties that can be set -> their names in Proton. All are texts.
_SETTABLE = {
    "message_id": "id",
    "user_id": "user_id",
    "to": "address",
    "subject": "subject",
    "reply_to": "reply_to",
    "correlation_id": "correlation_id",
    "content_type": "content_type",
    "content_encoding": "content_encoding",
    "group_id": "group_id",
    "reply_to_group_id": "reply_to_group_id",
}

#: Maximum number of application properties, and length of a text.
MOST_PROPERTIES, MOST_TEXT = 100, 4096


def encoded(draft: Draft) -> bytes:
    """Return the encoded message. Raises InvalidValue."""
    message = Message()
    for name, value in draft.properties.items():
        if name not in _SETTABLE:
            known = ", ".join(_SETTABLE)
            raise InvalidValue({"properties": f"properties has {name!r}: one can set {known}"})
        if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
            raise InvalidValue({"properties": f"{name} must be a text of at most {MOST_TEXT:,} characters"})
        setattr(message, _SETTABLE[name], value.encode() if name == "user_id" else value)
    message.durable, message.priority, message.ttl = draft.durable, draft.priority, draft.ttl / 1000
    message.properties = _application_properties(draft.application_properties) or None
    if draft.kind == "text":
        message.body = draft.body.decode()
    else:
        message.body, message.inferred = draft.body, True
    try:
        return bytes(message.encode())
    except Exception as error:
        raise InvalidValue({"properties": f"the message cannot be encoded: {error}"}) from None


def _application_properties(given: Mapping[str, Any]) -> dict[str, Any]:
    if len(given) > MOST_PROPERTIES:
        raise InvalidValue({"application_properties": f"there are {len(given)} of them: {MOST_PROPERTIES} at most"})
    for name, value in given.items():
        if isinstance(value, str) and len(value) > MOST_TEXT:
            raise InvalidValue({"application_properties": f"{name[:80]} has more than {MOST_TEXT:,} characters"})
        if value is not None and not isinstance(value, (str, bool, int, float)):
            raise InvalidValue({"application_properties": f"{name[:80]} must be a text, a number or a boolean"})
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise InvalidValue({"application_properties": f"{name[:80]} is {value}: it does not fit 64 bits"})
    return dict(given)
