"""Requests to stop and start producers of a broker behind an adapter: scopes, ends, answers and events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from brokers.adapters.adapter import Objects
from brokers.adapters.records import StopChange
from brokers.admin import InvalidValue
from brokers.engine.values.events import Fact, text
from brokers.engine.values.policy import pattern_fault
from brokers.engine.values.stops import End, Scope
from brokers.model import ObjectName


def scopes_of(name: ObjectName, given: Mapping[str, Any], objects: Objects) -> tuple[list[Scope], int]:
    """Return the scopes of a request on an object, and how many of the queues it names do not exist. Raises
    InvalidValue."""
    pattern = given.get("pattern", "")
    if fault := pattern_fault(pattern):
        raise InvalidValue({"pattern": fault})
    if "queues" not in given:
        return [_scope(name, pattern)], 0
    if pattern:
        raise InvalidValue({"queues": "queues and pattern are both given: name the queues, or give a pattern"})
    names = [_queue_name(str(each)) for each in dict.fromkeys(given["queues"])]
    found = [each for each in names if each in objects]
    return [_scope(each, "") for each in found], len(names) - len(found)


def _scope(name: ObjectName, pattern: str) -> Scope:
    if name.type == "Queue":
        return Scope(name["virtualhost"], queue=name["name"])
    return Scope(name["name"] if name.type == "VirtualHost" else "", pattern=pattern)


def _queue_name(text_: str) -> ObjectName:
    try:
        name = ObjectName.parse(text_)
    except ValueError as error:
        raise InvalidValue({"queues": str(error)}) from None
    if name.type != "Queue":
        raise InvalidValue({"queues": f"queues has {text_}: each must be the name of a queue"})
    return name


def requested_end(given: Mapping[str, Any], now: int) -> End:
    """Return the end of a requested stop. `now`: ms since the epoch."""
    for_ms = given.get("for_ms", 0)
    return End(now + for_ms if for_ms else None, given.get("below", 0))


def queues_in(scopes: Iterable[Scope], objects: Objects) -> list[ObjectName]:
    """Return the present queues of the scopes."""
    wanted = list(scopes)
    named = {s.object for s in wanted if s.queue}
    wide = [s for s in wanted if not s.queue]
    return [
        name
        for name in objects
        if name.type == "Queue" and (name in named or any(s.covers(name["virtualhost"], name["name"]) for s in wide))
    ]


def answer(
    covered: Collection[ObjectName], changed: Sequence[Scope], missing: int, objects: Objects, *, unstoppable: int = 0
) -> dict[str, Any]:
    """Return the fields of the answer of a stop or start. `unstoppable`: queues of the scopes that are not stopped,
    besides the `covered` ones. Producers are None if the broker does not count them."""
    counts = [objects[name].get("producers") for name in covered if name in objects]
    blocked = [objects[name].get("blocked_producers") for name in covered if name in objects]
    return {
        "queues": len(covered),
        "producers": _sum(counts),
        "stopped": _sum(blocked),
        "draining": 0,
        "changed": bool(changed),
        "changed_queues": [str(scope.object) for scope in changed if scope.queue],
        "missing": missing,
        "unstoppable": unstoppable,
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known or not values else None


def stop_fact(change: StopChange, covered: Collection[ObjectName], objects: Objects, now: int) -> Fact:
    """Return the event of a stop that began or was lifted. `now`: ms since the epoch."""
    scope, kind = change.stop.scope, "producers-stopped" if change.began else "producers-started"
    reason, end = change.reason, change.stop.end if change.began else End()
    if change.automatic:
        why = "the stop reached its end" if change.stop.end.until is not None else "the depth fell to the stop's end"
        reason = f"{why} ({change.stop.reason})" if change.stop.reason else why
    producers = _sum([objects[name].get("producers") for name in covered if name in objects])
    words = (
        f"Producers {'Stopped' if change.began else 'Started'} : Scope : {scope}, By : {change.actor or 'itself'},"
        f" Reason : {reason}, Queues : {len(covered):,}"
    )
    if producers is not None:
        words += f", Producers : {producers:,}"
    if end:
        words += f", Ends : {end.words(now)}"
    attributes = {
        "scope": str(scope),
        "pattern": scope.pattern,
        "reason": reason,
        "actor": change.actor,
        "queues": len(covered),
        "producers": producers,
        "until": end.until,
        "below": end.below,
        "stage": None,
        "halted": None,
    }
    return Fact(now, kind, scope.object, text(kind, "broker", words), attributes)
