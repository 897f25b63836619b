"""Which flow-control setting holds where: field-wise inheritance, destination patterns, and explain.

Each field of a policy is looked up on its own, from the most specific layer to the least: the queue's own setting,
its virtual host's default, the broker's default, the built-in value (DOMAIN.md section 5). What the values then mean
in messages and bytes is told by `limits.py`. Nothing here knows AMQP, storage or a running queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokers.managed import POLICY
from brokers.patterns import matches, pattern_fault

__all__ = [
    "BROKER",
    "BUILT",
    "BUILT_IN",
    "FIELDS",
    "OWN",
    "VIRTUALHOST",
    "Setting",
    "explain",
    "inherit",
    "matches",
    "pattern_fault",
]

Value = int | str

FIELDS: tuple[str, ...] = tuple(attribute.name for attribute in POLICY)

#: What holds where nobody set anything. None: derived from another field (see `limits.resolve`).
BUILT_IN: Mapping[str, Value | None] = {
    "capacity_bytes": 0,
    "capacity_messages": 0,
    "flow_stop_bytes": "100%",
    "flow_stop_messages": "100%",
    "flow_resume_bytes": None,
    "flow_resume_messages": None,
    "flow_control": "on",
    "mechanism": "block",
    "reject_after_ms": 1000,
    "overflow": "producers",
    "producer_window_messages": 1000,
}

OWN, VIRTUALHOST, BROKER, BUILT = "own", "virtualhost", "broker", "built-in"


@dataclass(frozen=True, slots=True)
class Setting:
    """A field's value in force and the layer that it comes from. `rank` 0 is the most specific layer."""

    value: Value | None
    origin: str
    rank: int


def inherit(layers: Iterable[tuple[str, Mapping[str, Value]]]) -> dict[str, Setting]:
    """The setting of every field, given (origin, fields set there) from the most specific layer to the least."""
    ranked = list(layers)
    settings: dict[str, Setting] = {}
    for field in FIELDS:
        for rank, (origin, values) in enumerate(ranked):
            if values.get(field) is not None:
                settings[field] = Setting(values[field], origin, rank)
                break
        else:
            settings[field] = Setting(BUILT_IN[field], BUILT, len(ranked))
    return settings


def explain(settings: Mapping[str, Setting]) -> dict[str, dict[str, Value | str | None]]:
    """For each field its value and where it came from, as plain maps."""
    return {field: {"value": setting.value, "origin": setting.origin} for field, setting in settings.items()}
