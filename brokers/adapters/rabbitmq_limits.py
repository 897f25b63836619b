"""Which limits a queue of RabbitMQ has, where they come from, and which it would have after changes of policies. Pure.

A limit of a queue is the least of its arguments, its policy and the operator policy. Of policies the one with the
highest priority applies as a whole; it is merged with one operator policy, of common limits with the lower one. Only
ready messages count. A queue whose overflow is reject-publish refuses publishers at its limit: that is what overfull
means here. One that drops from its head (the default) loses its oldest messages instead and is never overfull.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokers.adapters.observation import Attributes
from brokers.adapters.rabbitmq_policies import free_name, limit_name, limit_policy, pattern_policy, stop_name
from brokers.adapters.rabbitmq_reading import (
    LIMITS,
    NOT_RUNNING,
    PARKED,
    REJECTING,
    STOP_PREFIX,
    Json,
    limits_of,
    overflow_of,
)
from brokers.admin import InvalidValue
from brokers.engine.management.policy_changes import PolicyChange
from brokers.model import ObjectName

#: What a policy applies to -> the kinds of queues; None: all of them.
_APPLIES: Mapping[str, tuple[str, ...] | None] = {
    "all": None,
    "queues": None,
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
}

Objects = Mapping[ObjectName, Attributes]


def limits_after(
    changes: Sequence[PolicyChange], policies: Sequence[Json], operator: Sequence[Json], objects: Objects
) -> dict[ObjectName, Attributes]:
    """Return the queues that the changes apply to, with their limits after them. `policies` and `operator`: as listed.
    Raises InvalidValue for a change that would be refused, and for patterns that cannot be evaluated here."""
    planned = {(p["vhost"], p["name"]): p for p in policies if not p["name"].startswith(_STOPS)}
    touched = [_plan(planned, change, policies, objects) for change in changes]
    found: dict[ObjectName, Attributes] = {}
    for name, queue in objects.items():
        if name.type == "Queue" and any(_concerns(each, name) for each in touched):
            found[name] = _limits(name, queue, list(planned.values()), operator)
    return found


_STOPS = stop_name("")


def _plan(
    planned: dict[tuple[str, str], Json], change: PolicyChange, policies: Sequence[Json], objects: Objects
) -> tuple[str, str]:
    """Make a change in the planned policies. Return the virtual host and pattern that it concerns."""
    name = change.name
    host = name["virtualhost"]
    if name.type == "Queue":
        wanted = _own(planned, name, change.attributes, policies, objects[name])
        key = (host, limit_name(name["name"]))
        pattern = planned.pop(key)["pattern"] if key in planned else ""
        if wanted is not None:
            planned[key] = {**wanted, "vhost": host, "name": key[1]}
            pattern = wanted["pattern"]
        return host, pattern or rf"\A{re.escape(name['name'])}\z"
    names = {policy["name"] for policy in policies if policy["vhost"] == host}
    known = objects.get(name) or {"definition": {}, "policy_name": free_name(name["pattern"], names)}
    key = (host, str(known["policy_name"]))
    if change.action == "delete":
        planned.pop(key, None)
        return host, name["pattern"]
    policy = pattern_policy(name["pattern"], change.attributes, known)
    planned[key] = {**planned.get(key, {}), **policy, "vhost": host, "name": key[1]}
    return host, name["pattern"]


def _own(
    planned: Mapping[tuple[str, str], Json],
    name: ObjectName,
    attributes: Attributes,
    policies: Sequence[Json],
    queue: Attributes,
) -> Json | None:
    """Return the policy of a queue's own limits after a change; None: it needs none."""
    host = name["virtualhost"]
    if any(p["vhost"] == host and p["name"] == stop_name(name["name"]) for p in policies):
        raise InvalidValue({"": "its publishers are stopped: start them before its limits are changed"})
    known = planned.get((host, limit_name(name["name"])))
    below = definition_below(list(planned.values()), name, queue.get("kind"))
    priorities = [p.get("priority", 0) for p in planned.values() if p["vhost"] == host]
    return limit_policy(name, known and known["definition"], below, attributes, max(priorities, default=0))


def definition_below(policies: Iterable[Json], name: ObjectName, kind: Any) -> Json:
    """Return the definition of the policy that a queue would have without those that Headgate makes for it. A pattern
    that cannot be evaluated here counts as one that does not match."""
    mine = (limit_name(name["name"]), stop_name(name["name"]))
    others = [policy for policy in policies if policy["name"] not in mine and _can_match(policy["pattern"])]
    best = _best(others, name, kind)
    return best["definition"] if best else {}


def begins_to_refuse(queue: Attributes, definition: Json) -> bool:
    """Return whether a running classic queue may drop its oldest messages now and refuses publishers with a
    definition."""
    return _drops(queue) and overflow_of(queue.get("arguments") or {}, definition) in REJECTING


def _drops(queue: Attributes) -> bool:
    """A quorum queue takes over its limit and its overflow at once, and one that is down reports nothing."""
    if queue.get("kind") not in ("classic", None) or queue.get("broker_state") in NOT_RUNNING:
        return False
    return queue.get("overflow") != "producers"


def can_begin_to_refuse(present: Json | None, wanted: Json | None, policies: Iterable[Json]) -> bool:
    """Return whether queues can begin to refuse publishers when a policy is replaced. None: there is none. `policies`:
    of the virtual host."""
    before, after = (_overflow(policy) in REJECTING for policy in (present, wanted))
    limited = wanted is not None and any(limit in wanted["definition"] for limit in LIMITS)
    moved = present is not None and (wanted is None or wanted.get("priority") != present.get("priority", 0))
    theirs = [p for p in policies if not p["name"].startswith(STOP_PREFIX) and p["name"] != limit_name(PARKED)]
    return (after and not before and limited) or (moved and any(_overflow(policy) in REJECTING for policy in theirs))


def _overflow(policy: Json | None) -> Any:
    return (policy["definition"] if policy else {}).get("overflow")


def beginning_to_refuse(
    change: PolicyChange, policies: Sequence[Json], operator: Sequence[Json], objects: Objects
) -> list[ObjectName]:
    """Return the queues that may drop their oldest messages now and refuse publishers after a change of a pattern.
    Raises InvalidValue for patterns that cannot be evaluated here."""
    try:
        after = limits_after([change], policies, operator, objects)
    except _NotEvaluated as error:
        text = (
            f"the pattern {error.pattern} cannot be evaluated here, so it is not known which queues would begin to"
            " refuse publishers, and could lose messages to a lower limit at the same time: change the overflow first,"
            " without a limit, and the limit afterwards"
        )
        raise InvalidValue({"pattern": text}) from None
    return [name for name, limits in after.items() if limits["overflow"] == "producers" and _drops(objects[name])]


def _concerns(touched: tuple[str, str], queue: ObjectName) -> bool:
    host, pattern = touched
    return queue["virtualhost"] == host and _matches(pattern, queue["name"])


def _limits(name: ObjectName, queue: Attributes, policies: Sequence[Json], operator: Sequence[Json]) -> Attributes:
    policy, over = _best(policies, name, queue.get("kind")), _best(operator, name, queue.get("kind"))
    effective = merged(policy["definition"] if policy else {}, over["definition"] if over else {})
    said = {"policy": policy and policy["name"], "operator_policy": over and over["name"]}
    depths = {key: queue.get(key) for key in ("ready_messages", "depth_bytes")}
    return limits_of({**depths, "name": name["name"]}, queue.get("arguments") or {}, effective, policy, said)


def merged(policy: Json, operator: Json) -> dict[str, Any]:
    """Return the definition that applies. Of numbers in both, the lower one."""
    found = {**policy}
    for key, value in operator.items():
        mine = found.get(key)
        both = isinstance(mine, int) and isinstance(value, int)
        found[key] = min(mine, value) if both and mine is not None else value
    return found


def _best(policies: Iterable[Json], name: ObjectName, kind: Any) -> Json | None:
    """Return the policy of a queue: of those that match the one with the highest priority."""
    found = [p for p in policies if p["vhost"] == name["virtualhost"] and _applies(p, kind)]
    matching = [p for p in found if _matches(p["pattern"], name["name"])]
    return max(matching, key=lambda policy: policy.get("priority", 0), default=None)


def _applies(policy: Json, kind: Any) -> bool:
    kinds = _APPLIES.get(str(policy.get("apply-to") or "all"), ())
    return kinds is None or kind in kinds


def _can_match(pattern: str) -> bool:
    try:
        _matches(pattern, "")
    except InvalidValue:
        return False
    return True


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name. RabbitMQ's patterns are those of PCRE; of these, Python has most."""
    try:
        return re.search(pattern.replace(r"\z", r"\Z"), name) is not None
    except re.error:
        raise _NotEvaluated(pattern) from None


class _NotEvaluated(InvalidValue):
    def __init__(self, pattern: str) -> None:
        super().__init__({"pattern": f"no preview: the pattern {pattern} cannot be evaluated here"})
        self.pattern = pattern
