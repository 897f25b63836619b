"""The policies that Headgate makes in RabbitMQ: for the limits of one queue, and to stop its publishers. Pure.

One policy applies to a queue, whole: so each copies the definition that it outranks, or it would take away
dead-lettering and time to live. A stop is `max-length` 0 with `reject-publish`: publishers are refused, consumers go
on.

RabbitMQ applies `max-length` before `overflow`. A classic queue that drops from its head (the default) would so lose
all its messages to a stop, at once (seen with 3.10). So a stop has two steps: first the overflow, and when the queue
itself reports that it rejects, the length.

The same order applies when a node is started: a classic queue that is stopped then drops all its messages (seen with
3.10; the source of 4.x has the same order). But it applies a dead-letter exchange before both: so a stop also has one,
and the messages are parked until the start (`rabbitmq_parking.py`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from itertools import count
from typing import Any

from brokers.adapters.observation import Attributes
from brokers.adapters.rabbitmq_reading import LIMIT_PREFIX, LIMITS, NOT_RUNNING, PARKED, REJECTING, STOP_PREFIX
from brokers.admin import InvalidValue
from brokers.model import ObjectName

#: Priorities of RabbitMQ's policies are 32-bit numbers.
_HIGHEST = 2**31 - 1

#: What can be written, by Headgate's name.
_KEYS = {"capacity_messages": "max-length", "capacity_bytes": "max-length-bytes", "overflow": "overflow"}

#: What a queue does at its limit, in Headgate's words and in RabbitMQ's.
_OVERFLOWS = {"producers": "reject-publish", "ring": "drop-head"}


def stop_policy(
    queue: ObjectName, definition: Mapping[str, Any], highest: int, *, length: bool, parked: bool = False
) -> dict[str, Any]:
    """Return the policy that stops a queue's publishers. `definition`: of what it outranks; `highest`: priority of the
    virtual host's policies; `length`: the second step; `parked`: what a start of the node drops is parked, unless the
    queue has a dead-letter exchange of its own."""
    changed: dict[str, Any] = {**definition, "overflow": _rejecting(definition)}
    if length:
        changed["max-length"] = 0
        if parked and changed["overflow"] == "reject-publish":  # the other one dead-letters what it refuses
            changed.setdefault("dead-letter-exchange", PARKED)
    return _policy(queue["name"], changed, highest)


def unlimited(name: str, highest: int) -> dict[str, Any]:
    """Return a policy that leaves a queue without limits. `highest`: priority of the policies that it outranks."""
    return _policy(name, {"overflow": "reject-publish"}, highest)


def _rejecting(definition: Mapping[str, Any]) -> str:
    overflow = definition.get("overflow")
    return overflow if overflow in REJECTING else "reject-publish"


def limit_policy(
    queue: ObjectName, own: Mapping[str, Any] | None, below: Mapping[str, Any], attributes: Attributes, highest: int
) -> dict[str, Any] | None:
    """Return the policy with a queue's own limits, or None if it needs none. `own`: the definition of its own policy so
    far; `below`: of what that outranks, whose value applies again where one of its own is removed. `attributes`: to
    set, None for one that is removed, 0 for no limit."""
    changed = with_limits(below if own is None else own, attributes)
    removed = [_KEYS[attribute] for attribute, value in attributes.items() if value is None and attribute in _KEYS]
    changed |= {key: below[key] for key in removed if key in below}
    if removed and all(changed.get(key) == below.get(key) for key in _KEYS.values()):
        return None
    if not any(key in changed for key in _KEYS.values()):
        if not any(limit in below for limit in LIMITS):
            return None
        changed["overflow"] = "drop-head"  # the default, since RabbitMQ takes no empty policy: it has no limit
    return _policy(queue["name"], changed, highest)


def with_limits(definition: Mapping[str, Any], attributes: Attributes) -> dict[str, Any]:
    """Return a definition with limits in Headgate's words. 0 is no limit."""
    changed = dict(definition)
    for attribute, key in _KEYS.items():
        if attribute in attributes:
            value = attributes[attribute]
            changed.pop(key, None)
            if value:
                changed[key] = _OVERFLOWS[value] if key == "overflow" else value
    return changed


def pattern_policy(pattern: str, attributes: Attributes, known: Attributes) -> dict[str, Any]:
    """Return the policy of a pattern with changed limits. `known`: its `definition`, and of an existing one `priority`
    and `apply_to`, which stay. Raises InvalidValue if nothing would be left."""
    definition = with_limits(known["definition"], attributes)
    if not definition:
        raise InvalidValue({"capacity_messages": "a policy of RabbitMQ needs at least one limit"})
    priority = attributes.get("priority", known.get("priority")) or 0
    applies = known.get("apply_to", "queues")
    return {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": applies}


def free_name(pattern: str, names: Container[str]) -> str:
    """Return the name for the policy of a new pattern: the pattern, unless a policy has that name, which would be
    replaced, or names of this form are those of Headgate's policies for single queues."""
    name = f"policy {pattern}" if pattern.startswith((STOP_PREFIX, LIMIT_PREFIX)) else pattern
    numbered = (f"{name} {number}" for number in count(2))
    return name if name not in names else next(each for each in numbered if each not in names)


def other_settings(definition: Mapping[str, Any]) -> set[str]:
    """Return what a definition has besides limits, such as dead-lettering."""
    return set(definition) - set(_KEYS.values())


def _policy(queue: str, definition: Mapping[str, Any], highest: int) -> dict[str, Any]:
    return {
        "pattern": exactly(queue),
        "definition": dict(definition),
        "priority": min(highest + 1, _HIGHEST),
        "apply-to": "queues",
    }


def exactly(name: str) -> str:
    r"""Return a pattern that matches this name only. `\A` and `\z`: `$` would also match before a line break."""
    return rf"\A{re.sub(r'([^A-Za-z0-9_])', _escaped, name)}\z"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\{character}" if character.isascii() and character.isprintable() else character


def stop_name(queue: str) -> str:
    return STOP_PREFIX + queue


def limit_name(queue: str) -> str:
    return LIMIT_PREFIX + queue


class Listed:
    """Policies as listed, by name and by what they outrank."""

    def __init__(self, policies: Iterable[Mapping[str, Any]]) -> None:
        self.policies = policies
        self.by_name = {(p["vhost"], p["name"]): p for p in policies}
        self._shared: dict[str, int] = {}  # virtual hosts -> highest priority, without Headgate's
        self._odd: list[Mapping[str, Any]] = []  # those by a name of Headgate's that are not for that queue only
        for policy in policies:
            host, name = policy["vhost"], str(policy["name"])
            if not name.startswith((STOP_PREFIX, LIMIT_PREFIX)):
                self._shared[host] = max(self._shared.get(host, 0), policy.get("priority", 0))
            elif policy.get("pattern") != exactly(name.partition("~")[2]):
                self._odd.append(policy)

    def highest_priority(self, queue: ObjectName, *, without: str) -> int:
        """Return the highest priority of the policies that a queue may have, except one by its name; 0 if there are
        none. Those that Headgate makes for other queues are left out: they would outrank each other in turn, without
        end."""
        host, own = queue["virtualhost"], (stop_name(queue["name"]), limit_name(queue["name"]))
        known = [self.by_name[host, name] for name in own if (host, name) in self.by_name]
        others = [policy for policy in self._odd if policy["vhost"] == host]
        counted = [int(p.get("priority", 0)) for p in (*known, *others) if p["name"] != without]
        return max(self._shared.get(host, 0), *counted, 0)

    def has_stop(self, queue: ObjectName, definition: Mapping[str, Any], *, length: bool) -> bool:
        """Return whether the policy of a step of a stop is there and outranks all others. `definition`: see
        `stop_policy`."""
        name = stop_name(queue["name"])
        known = self.by_name.get((queue["virtualhost"], name))
        wanted = stop_policy(queue, definition, self.highest_priority(queue, without=name), length=length)
        if known is None or known.get("priority", 0) < wanted["priority"]:
            return False
        limits = [known["definition"].get(key) == wanted["definition"].get(key) for key in ("overflow", "max-length")]
        return all(limits) and known.get("pattern") == wanted["pattern"]

    def can_outrank(self, queue: ObjectName) -> bool:
        """Return whether a stop's policy can have a higher priority than all others of its queue."""
        return self.highest_priority(queue, without=stop_name(queue["name"])) < _HIGHEST


def stop_fault(queue: Attributes) -> str:
    """Return why a queue's publishers cannot be stopped, or not without losing messages; "" if they can."""
    arguments: Mapping[str, Any] = queue.get("arguments") or {}
    if queue.get("broker_state") in NOT_RUNNING:
        return f"it is {queue['broker_state']}: it cannot report that it rejects, which a stop requires"
    if queue.get("name") == PARKED:
        return "it takes the messages of stopped queues whose node is restarted"
    if queue.get("kind") == "stream":
        return "it is a stream: RabbitMQ cannot refuse what is published to it"
    overflow = arguments.get("x-overflow")
    if overflow is not None and overflow not in REJECTING:
        return f"its argument x-overflow is {overflow}, which no policy overrides: a stop would delete all its messages"
    return ""
