"""Conversion between Python values and AMQP's type system, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proton import Array, Described

from brokers.admin import InvalidValue

_PLAIN = (str, int, float, bool, type(None))


def plain(value: Any) -> Any:
    """Return the value without Proton's own types: maps, lists, text, numbers, booleans, None."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, Array)):
        return [plain(item) for item in value]
    if isinstance(value, Described):
        return plain(value.value)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    return value


def encodable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by name as values for AMQP. Raises InvalidValue, which names each unsupported one."""
    errors = {name: f"{name} is {value!r}: it cannot be sent" for name, value in values.items() if not _fits(value)}
    if errors:
        raise InvalidValue(errors)
    return {name: _sent(value) for name, value in values.items()}


def _fits(value: Any) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63  # a bool is an int and fits
    if isinstance(value, str):
        return value.isprintable() or _is_unicode(value)
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _fits(item) for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return all(_fits(item) for item in value)
    return value is None or isinstance(value, float)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _sent(value: Any) -> Any:
    """Return a value of an exact type for Proton: enumerations, tuples and read-only maps become their plain types."""
    if isinstance(value, Mapping):
        return {str(key): _sent(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [_sent(item) for item in value]
    return value
