"""Decoded AMQP values as plain ones: texts, numbers, booleans, None, lists and maps with texts as keys."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any
from uuid import UUID

from proton import Array, Described, decimal32, decimal64, decimal128

#: How deep lists and maps are shown.
_DEEPEST = 8


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
