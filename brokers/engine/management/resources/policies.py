"""What every managed type that sets policy fields does with them: merges changes, explains, states the fact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.flow.turn import Turn
from brokers.engine.management.resources.resource import Change, Values
from brokers.engine.values.events import policy_words
from brokers.engine.values.policy import FIELDS, Layers, Value, explain, settings
from brokers.model import ObjectName


def policy_of(values: Values) -> dict[str, Value]:
    """The policy fields among these values, those that are set."""
    return {name: values[name] for name in FIELDS if values.get(name) is not None}


def merged_policy(policy: Mapping[str, Value], changes: Values) -> dict[str, Value]:
    """A policy after a change; None among the changes: not set any more."""
    return policy_of({**policy, **{name: value for name, value in changes.items() if name in FIELDS}})


def merged_values(before: Values, changes: Values, names: Iterable[str]) -> dict[str, Any]:
    """What is set of these attributes after a change."""
    after = {name: changes.get(name, before.get(name)) for name in names}
    return {name: value for name, value in after.items() if value is not None}


def explanation(layers: Layers, inherited: Layers) -> dict[str, Any]:
    """The answer of `explain`: every field's effective value and origin, with the object's own settings and without."""
    return {"fields": explain(settings(layers)), "inherited": explain(settings(inherited))}


def state_policy_changed(turn: Turn, name: ObjectName, subject: str, change: Change) -> None:
    attributes = {"before": dict(change.before), "after": dict(change.after), "actor": change.actor}
    turn.add_fact("policy-changed", name, subject, policy_words(change.before, change.after), attributes)
