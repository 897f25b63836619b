"""Events from the differences between two observations: what a poll has found, in the words of the broker log. Pure.

A broker that is polled does not say when something happened, only that it has happened since the last answer. So each
of these events carries `seen_at`, the time of the answer (ms since the epoch), which is also its time. What a broker
reports is exact (`exact`), and has the same subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from brokers.adapters.flow_state import is_so
from brokers.adapters.inventory import Change
from brokers.adapters.observation import Attributes, Reported
from brokers.engine.values.events import Fact, overfull_words, policy_words, queue_subject, text, underfull_words
from brokers.model import ManagedType, ObjectName

#: A start that is derived from how long the broker has been up differs a little with each answer, ms.
_STARTED_AGAIN = 5_000

#: Attributes of a queue that its events carry, as those of Headgate's own broker do.
OF_QUEUE = ("state", "depth_messages", "depth_bytes", "blocked_producers")


def facts(changes: Iterable[Change], at: int, types: Mapping[str, ManagedType]) -> list[Fact]:
    """Return what the changes say. `at`: ms since the epoch."""
    found: list[Fact] = []
    for change in changes:
        make = _BY_TYPE.get(change.name.type)
        if make is not None:
            found += make(change, at, types[change.name.type])
    return found


def exact(found: Fact, event: Reported) -> Fact:
    """Return an event that a poll has found, or would have found, as one that the broker has reported."""
    attributes = {key: value for key, value in found.attributes.items() if key != "seen_at"}
    actor = event.attributes.get("actor")
    line = f"{found.text}, By : {actor}" if actor else found.text
    return replace(found, at=event.at, text=line, attributes={**attributes, **event.attributes})


def subject_of(name: ObjectName, attributes: Attributes | None) -> str:
    """Return the subject of an object in lines of the log. `attributes`: None if nothing is known of it."""
    known = attributes or {}
    match name.type:
        case "Queue":
            return queue_subject(name["virtualhost"], name["name"])
        case "Producer":
            return str(known.get("client") or name["id"])
        case "Connection":
            return f"con:{name['id']}({known.get('user') or ''}@{known.get('remote_address') or ''})"
    return f"{name.type.lower()}({name.label})" if name.keys else name.type.lower()


def of_queue(attributes: Attributes | None) -> dict[str, Any]:
    """Return the attributes that an event about a queue carries."""
    return {key: (attributes or {}).get(key) for key in OF_QUEUE}


def fact(kind: str, name: ObjectName, line: tuple[str, str], attributes: Attributes, at: int) -> Fact:
    """Return an event that a poll has found. `line`: subject and words of its line in the log."""
    return Fact(at, kind, name, text(kind, *line), {**attributes, "seen_at": at})


def _queue(change: Change, at: int, declared: ManagedType) -> list[Fact]:
    name, before, after = change.name, change.before, change.after
    subject = subject_of(name, after or before)

    def about(kind: str, words: str, more: Mapping[str, Any] | None = None) -> Fact:
        return fact(kind, name, (subject, words), {**of_queue(after or before), **(more or {})}, at)

    found: list[Fact] = []
    if after is None:
        return [about("queue-deleted", "Deleted")]
    if before is None:
        found.append(about("queue-created", "Create"))
    was, now = is_so(before, "overfull"), is_so(after, "overfull")
    if now and not was:
        found.append(about("queue-overfull", overfull_words(*_numbers(after, "stop"))))
    if was and not now:
        lasted = after["overfull_ms"] - (before or {}).get("overfull_ms", 0)
        found.append(about("queue-underfull", underfull_words(*_numbers(after, "resume")), {"overfull_ms": lasted}))
    return found + _policy(change, at, declared)


def _numbers(queue: Attributes, level: str) -> tuple[int, int, int, int]:
    """Return depth and level in bytes and in messages; 0 where they are unknown, as log lines have them."""
    keys = ("depth_bytes", f"effective_{level}_bytes", "depth_messages", f"effective_{level}_messages")
    size, size_level, count, count_level = (queue.get(key) or 0 for key in keys)
    return size, size_level, count, count_level


def _producer(change: Change, at: int, declared: ManagedType) -> list[Fact]:
    before, after = change.before, change.after
    was, now = is_so(before, "blocked"), is_so(after, "blocked")
    if was == now:
        return []
    if after is None:  # one that has gone is no longer blocked
        since = (before or {}).get("blocked_since")
        after = {**(before or {}), "blocked_ms": (before or {}).get("blocked_ms", 0) + (at - since if since else 0)}
    # Without the queue and the connection the history does not know what is blocked.
    named = {key: after[key] for key in ("queue", "connection") if after.get(key)}
    more: dict[str, Any] = {key: after.get(key) for key in ("client", "link")} | named
    subject = subject_of(change.name, after)
    if now:
        what = next(iter(after.get("reasons") or ()), "")
        words = f"Flow Control Enforced ({what.removeprefix('queue-overfull:') or 'Unknown'})"
        return [fact("producer-blocked", change.name, (subject, words), {**more, "reasons": after.get("reasons")}, at)]
    lasted = after["blocked_ms"] - (before or {}).get("blocked_ms", 0)
    return [
        fact("producer-released", change.name, (subject, "Flow Control Removed"), {**more, "blocked_ms": lasted}, at)
    ]


def _connection(change: Change, at: int, declared: ManagedType) -> list[Fact]:
    shown = change.after or change.before or {}
    subject = subject_of(change.name, shown)
    more = {"client": shown.get("container_id"), "remote_address": shown.get("remote_address")}
    if change.before is None:
        return [fact("connection-opened", change.name, (subject, "Open"), more, at)]
    return [fact("connection-closed", change.name, (subject, "Close"), more, at)] if change.after is None else []


def _policy(change: Change, at: int, declared: ManagedType) -> list[Fact]:
    """Return the change of writable attributes that another client made; Headgate's own are known with their
    actor before a poll finds them."""
    before, after = (_columns(declared, attributes) for attributes in (change.before, change.after))
    if before is None or after is None:
        return policy_facts(change.name, before, after, at) if declared.name == "Policy" else []
    known = before.keys() & after.keys()  # what is read for the first time has not changed
    return policy_facts(change.name, {k: before[k] for k in known}, {k: after[k] for k in known}, at)


def _columns(declared: ManagedType, attributes: Attributes | None) -> dict[str, Any] | None:
    if attributes is None:
        return None
    return {a.name: attributes[a.name] for a in declared.writable if a.name in attributes}


def policy_facts(
    name: ObjectName, before: Attributes | None, after: Attributes | None, at: int, *, actor: str | None = None
) -> list[Fact]:
    """Return the event of a changed policy; none if nothing differs. `actor`: None if a poll has found it."""
    if before is not None and after is not None:
        differ = [key for key in after if before.get(key) != after[key]]
        old, new, change = {k: before.get(k) for k in differ}, {k: after[k] for k in differ}, "changed"
    else:
        old, new = _set(before), _set(after)
        change = "created" if before is None else "deleted"
    if not old and not new and change == "changed":
        return []
    words = policy_words(old, new, change)
    more: dict[str, Any] = {"before": old, "after": new, "change": change}
    more |= {"seen_at": at} if actor is None else {"actor": actor}
    words = words if not actor else f"{words}, By : {actor}"
    return [Fact(at, "policy-changed", name, text("policy-changed", subject_of(name, after), words), more)]


def _set(attributes: Attributes | None) -> dict[str, Any]:
    return {key: value for key, value in (attributes or {}).items() if value is not None}


def _broker(change: Change, at: int, declared: ManagedType) -> list[Fact]:
    before, after = change.before or {}, change.after or {}
    new = set(after.get("shortages") or ())
    old = set(before["shortages"] or ()) if "shortages" in before else new  # what is read for the first time is no news
    found = [_limit("limit-exceeded", "Limit Exceeded", change.name, what, at) for what in sorted(new - old)]
    found += [_limit("limit-cleared", "Limit Cleared", change.name, what, at) for what in sorted(old - new)]
    if after.get("started") and before.get("started") and after["started"] > before["started"] + _STARTED_AGAIN:
        found.append(fact("broker-ready", change.name, ("broker", "Ready : it has been started again"), {}, at))
    return found + (_policy(change, at, declared) if change.before and change.after else [])


def _limit(kind: str, words: str, name: ObjectName, what: str, at: int) -> Fact:
    return fact(kind, name, ("broker", f"{words} : {what}"), {"resource": what}, at)


_BY_TYPE: Mapping[str, Callable[[Change, int, ManagedType], list[Fact]]] = {
    "Queue": _queue,
    "Producer": _producer,
    "Connection": _connection,
    "Policy": _policy,
    "VirtualHost": _policy,
    "Exchange": _policy,
    "Broker": _broker,
}
