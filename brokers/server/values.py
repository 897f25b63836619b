"""Conversion between plain Python values and Proton's: integers are AMQP longs, map keys are strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proton import decimal32, decimal64, decimal128


def to_amqp(value: Any) -> Any:
    """Return a value for Proton, which encodes int as long and str as string: containers become plain ones."""
    if isinstance(value, Mapping):
        return {str(k): to_amqp(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [to_amqp(v) for v in value]
    return value


def from_amqp(value: Any) -> Any:
    """Return a plain value: any integer, string or symbol type of the peer becomes int or str; unknown types stay."""
    if isinstance(value, Mapping):
        return {str(from_amqp(k)): from_amqp(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [from_amqp(v) for v in value]
    if isinstance(value, (decimal32, decimal64, decimal128)):
        return "a decimal"  # Proton returns its bits as an int, which is another number
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, memoryview):
        return bytes(value)  # a copy: Proton's memory is not valid for long
    return value
