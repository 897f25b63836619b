"""Relative values of a bulk edit: factors of each queue's effective value. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.model import TYPES

#: Policy fields whose effective values queues have: those that can be changed by a factor.
RELATIVE_FIELDS = tuple(
    name
    for name in ("capacity_messages", "capacity_bytes")
    if TYPES["Queue"].attribute(f"effective_{name}") is not None
)
#: The least and the greatest factor.
LEAST, MOST = 0.01, 1000.0


def checked_factors(factors: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, float]:
    """Return the factors by field. Raises InvalidValue unless each is of one of `RELATIVE_FIELDS`, from `LEAST` to
    `MOST`, and not also of `attributes`, the fields with a value for all queues."""
    wrong = {}
    for name, factor in factors.items():
        if name not in RELATIVE_FIELDS:
            wrong[name] = f"{name} cannot be changed by a factor: these can: {', '.join(RELATIVE_FIELDS)}"
        elif name in attributes:
            wrong[name] = f"{name} has a value and a factor: give one of them"
        elif isinstance(factor, bool) or not isinstance(factor, (int, float)) or not LEAST <= factor <= MOST:
            wrong[name] = f"the factor of {name} is {factor!r}: it must be a number from {LEAST:g} to {MOST:g}"
    if wrong:
        raise InvalidValue(wrong)
    return {name: float(factor) for name, factor in factors.items()}


def scaled(row: Mapping[str, Any], factors: Mapping[str, float]) -> dict[str, int]:
    """Return the new values of a queue: its effective values multiplied, rounded, at least 1. A field without an
    effective limit, or whose limit is not known, has none."""
    values = {}
    for name, factor in factors.items():
        effective = row.get(f"effective_{name}")
        if effective:
            # To the nearest, and a half up: round() would take the even one.
            values[name] = max(1, math.floor(effective * factor + 0.5))
    return values


def in_words(factors: Mapping[str, float]) -> dict[str, str]:
    """Return the factors as the list of bulk edits shows them: "x 1.5"."""
    return {name: f"x {factor:g}" for name, factor in factors.items()}
