"""What the audit trail records of operations on messages: which and how many, never what they contain. Pure.

A name that is not listed here is not recorded, so that a new argument or field of an answer cannot leak a body. A
filter (`match`) is recorded, properties that it names included: it is the operator's own text, and without it the row
would not say what was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.model import TYPES

#: Identifiers that one row names; of the others their number.
NAMED = 50

_ACT = ("ids", "match", "to", "preview", "after", "until", "count", "actor", "messages", "bytes", "blocked")
#: Modules whose errors have sentences without values of the request.
_TRUSTED = ("brokers.admin", "django.core.exceptions", "console.operations.messages")
#: Operation -> recorded arguments and fields of the answer.
_RECORDED: Mapping[str, tuple[str, ...]] = {
    "list-messages": ("match", "order", "after", "count", "searched"),
    "summarize-messages": ("match", "after", "searched"),
    "read-message": ("id", "offset", "size", "body_bytes"),
    "move-messages": (*_ACT, "skipped"),
    "copy-messages": (*_ACT, "skipped"),
    "retry-messages": (*_ACT, "skipped"),
    "delete-messages": (*_ACT, "skipped"),
    "publish-message": ("body_kind", "durable", "priority", "ttl_ms", "actor", "outcome", "id", "body_bytes"),
}


def recorded(operation: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an operation on messages that are recorded; all values of other operations."""
    names = _names(operation)
    if names is None:
        return dict(values)
    return {name: _brief(name, values[name]) for name in names if values.get(name) is not None}


def fault(operation: str, error: Exception) -> str:
    """Return what is recorded of an error of an operation on messages, which may quote what they contain; "" if the
    error can be recorded as it is."""
    names = _names(operation)
    if names is None:
        return ""
    if isinstance(error, InvalidValue):
        sentences = (text if field in names else f"{field} is invalid" for field, text in error.errors.items())
        return "; ".join(sentences)
    return "" if type(error).__module__ in _TRUSTED else type(error).__name__


def _names(operation: str) -> tuple[str, ...] | None:
    """Return the recorded names; none at all for an operation with a role that is not listed here; None: no operation
    on messages."""
    if operation in _RECORDED:
        return _RECORDED[operation]
    with_role = any((found := each.operation(operation)) is not None and found.role for each in TYPES.values())
    return () if with_role else None


def _brief(name: str, value: Any) -> Any:
    if name == "skipped" and isinstance(value, list | tuple):
        return len(value)
    if name == "ids" and isinstance(value, list | tuple):
        more = len(value) - NAMED
        return [*value[:NAMED], *([f"and {more:,} more"] if more > 0 else [])]
    return value
