"""The answer of a queue's operation `explain`, for brokers that do not explain themselves. Pure.

An adapter reads with a queue's effective limits also where they come from, as attributes of the inventory's own:
`origins`, field -> origin as of the declared operation, None or absent if it is not reported; and
`effective_fields`, field -> effective value, for fields whose attribute is what the queue itself sets.
"""

from __future__ import annotations

from typing import Any

from brokers.adapters.observation import Attributes
from brokers.engine.values.policy import FIELDS
from brokers.model import ManagedType

#: Field -> the attribute with its effective value.
_EFFECTIVE = {
    f"{field}_{unit}": f"effective_{level}_{unit}"
    for field, level in (("capacity", "capacity"), ("flow_stop", "stop"), ("flow_resume", "resume"))
    for unit in ("messages", "bytes")
}


def fields_of(declared: ManagedType) -> tuple[str, ...]:
    """Return the policy fields whose effective value this broker reports: those that queues have, and capacities."""
    return tuple(field for field in FIELDS if _has(declared, field))


def _has(declared: ManagedType, field: str) -> bool:
    if declared.attribute(_EFFECTIVE.get(field, field)) is None:
        return False
    return field.startswith("capacity_") or declared.attribute(field) is not None


def effective(field: str, queue: Attributes) -> Any:
    """Return the effective value of a field; None: none, or not known."""
    known = queue.get("effective_fields") or {}
    return known[field] if field in known else queue.get(_EFFECTIVE.get(field, field))


def origin(field: str, queue: Attributes) -> str | None:
    """Return where the value of a field comes from; None: not known. A level without one of its own follows the
    capacity."""
    origins = queue.get("origins") or {}
    known = origins.get(field)
    if known is None and field.startswith(("flow_stop_", "flow_resume_")):
        known = origins.get(f"capacity_{field.rpartition('_')[2]}")
    return known


def explain(declared: ManagedType, queue: Attributes) -> dict[str, Any]:
    """Return the answer. What a queue would inherit without its own fields is known where it sets none itself."""
    found = {field: {"value": effective(field, queue), "origin": origin(field, queue)} for field in fields_of(declared)}
    inherited = {
        field: each if each["origin"] != "own" else {"value": None, "origin": None} for field, each in found.items()
    }
    return {"fields": found, "inherited": inherited}
