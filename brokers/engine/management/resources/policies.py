"""Operations on policy fields that several managed types share: merge changes, explain, add the fact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.flow.turn import Turn
from brokers.engine.management.resources.resource import Change, Values
from brokers.engine.values.events import policy_words
from brokers.engine.values.policy import FIELDS, Layers, Value, explain, settings
from brokers.model import ObjectName


def policy_of(values: Values) -> dict[str, Value]:
    """Return the policy fields among these values that are set."""
    return {name: values[name] for name in FIELDS if values.get(name) is not None}


def merged_policy(policy: Mapping[str, Value], changes: Values) -> dict[str, Value]:
    """Return a policy after a change; None among the changes: no longer set."""
    return policy_of({**policy, **{name: value for name, value in changes.items() if name in FIELDS}})


def merged_values(before: Values, changes: Values, names: Iterable[str]) -> dict[str, Any]:
    """Return those of these attributes that are set after a change."""
    after = {name: changes.get(name, before.get(name)) for name in names}
    return {name: value for name, value in after.items() if value is not None}


def explanation(layers: Layers, inherited: Layers) -> dict[str, Any]:
    """Return the answer of `explain`: every field's effective value and origin, with and without the object's own
    fields."""
    return {"fields": explain(settings(layers)), "inherited": explain(settings(inherited))}


def add_policy_changed_fact(turn: Turn, name: ObjectName, subject: str, change: Change) -> None:
    attributes = {"before": dict(change.before), "after": dict(change.after), "actor": change.actor}
    turn.add_fact("policy-changed", name, subject, policy_words(change.before, change.after), attributes)
