"""Messages as people see them: what precedes the body, as plain values.

Nothing that a producer sends raises an error: what cannot be read is missing. See `MessageFormat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any
from uuid import UUID

from proton import Array, Described, decimal32, decimal64, decimal128

from brokers.amqp.dead_letter import DESCRIPTION, FAILED, REASON, SOURCE
from brokers.amqp.filters import compile_selector
from brokers.amqp.message_sections import APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS, PROPERTIES, decoded, front
from brokers.engine.values.message_format import DeadLetterMark, Head

#: The standard properties, in the order of their section.
NAMES = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)

#: Common to the names of all annotations of dead letters.
_DEAD = b"x-opt-dead-letter-"

#: How deep lists and maps are shown.
_DEEPEST = 8


class AmqpFormat:
    """See `brokers.engine.values.message_format.MessageFormat`."""

    def head(self, body: bytes) -> Head:
        found = front(body)
        values = decoded(body, found.get(PROPERTIES))
        given = {
            name: plain(value)
            for name, value in zip(NAMES, values if isinstance(values, list) else [], strict=False)
            if value is not None
        }
        created = given.get("creation_time")
        return Head(
            given,
            plain_map(decoded(body, found.get(APPLICATION_PROPERTIES))),
            created if isinstance(created, int) and created > 0 else 0,
            self.dead_letter(body),
        )

    def dead_letter(self, body: bytes) -> DeadLetterMark | None:
        section = front(body).get(MESSAGE_ANNOTATIONS)
        if section is None or body.find(_DEAD, section.value, section.end) < 0:
            return None
        annotations = decoded(body, section)
        if not isinstance(annotations, Mapping) or not isinstance(annotations.get(SOURCE), str):
            return None
        failed, description = annotations.get(FAILED), annotations.get(DESCRIPTION)
        return DeadLetterMark(
            str(annotations.get(REASON) or ""),
            str(annotations[SOURCE]),
            int(failed) if isinstance(failed, int) and failed > 0 else 0,
            description if isinstance(description, str) else "",
        )

    def selects(self, selector: str) -> Callable[[bytes], bool]:
        return compile_selector(selector)


def plain_map(value: Any) -> dict[str, Any]:
    """Return a section that is a map, with texts as its keys."""
    return {str(plain(key)): plain(each) for key, each in value.items()} if isinstance(value, Mapping) else {}


def plain(value: Any, depth: int = 0) -> Any:
    """Return a decoded value as a text, number, boolean, None, list or map."""
    match value:
        case decimal32() | decimal64() | decimal128():
            return "a decimal"  # Proton returns its bits
        case None | bool():
            return value
        case int():
            return int(value) if -(1 << 63) <= value < 1 << 63 else str(int(value))
        case float():
            return float(value) if isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes_text(bytes(value))
        case str() | UUID():
            return str(value)
    return _plain_container(value, depth + 1) if depth < _DEEPEST else "..."


def _plain_container(value: Any, depth: int) -> Any:
    if isinstance(value, Described):
        return plain(value.value, depth)
    if isinstance(value, Mapping):
        return {str(plain(key, depth)): plain(each, depth) for key, each in value.items()}
    return [plain(each, depth) for each in value] if isinstance(value, (Array, list, tuple)) else str(value)


def bytes_text(value: bytes) -> str:
    r"""Return bytes as text, those that are not printable ASCII as \xNN."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in value)
