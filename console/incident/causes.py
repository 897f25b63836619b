"""The causes for which producers of a queue are blocked, or refused, each with its limit and what ends it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.model import object_name, scope_label
from brokers.model.reasons import (
    CONNECTION_FLOW,
    INFERRED,
    OPERATOR_STOP,
    QUEUE_OVERFULL,
    RESOURCES,
    SHORTAGE,
    UNKNOWN,
    Reason,
    Shortage,
)
from console.conditions.remedies import Remedies
from console.conditions.trends import Rates
from console.incident.drain import UNITS, estimate
from console.incident.facts import BROKER, Facts, Row

_UNKNOWN: Row = {}

#: Effects of a stop with which producers wait.
_WAITING = ("hold", "trickle")


def causes_of(facts: Facts, rates: Rates) -> list[dict[str, Any]]:
    """Return the causes that apply now, each of which suffices to block the producers. `resume_ms`: time until it ends
    without intervention; None if unknown, and then `because` says why."""
    queue = facts.queue or {}
    causes = []
    if (queue.get("state") or "").startswith("OVERFULL"):
        causes.append(_overfull(facts, queue, rates))
    causes.extend(_stop(stop, facts) for stop in queue.get("stops") or () if not stop.get("stage"))
    if facts.host.get("store_overfull"):
        causes.append(_store_of_host(facts.host, facts.remedies))
    causes.extend(_shortage(facts, r) for r in facts.broker.get("shortages") or () if _concerns(facts, r))
    return causes + _reported(facts, causes)


def _concerns(facts: Facts, reason: str) -> bool:
    """Return whether a shortage of the broker blocks these producers: it blocks only those that use the resource. A
    queue without producers, or whose producers are not known, counts as concerned."""
    producers = facts.concerned
    return not producers or any(reason in (producer.get("reasons") or ()) for producer in producers)


def inferred_of(facts: Facts) -> list[str]:
    """Return from what it follows that these producers are blocked, if the broker does not report it."""
    return [reason.subject for reason in _reasons(facts) if reason.kind == INFERRED]


def _reasons(facts: Facts) -> list[Reason]:
    texts = [text for producer in facts.concerned for text in producer.get("reasons") or ()]
    return [Reason.parse(text) for text in dict.fromkeys(texts)]


def _reported(facts: Facts, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the causes that only the reasons of the producers say."""
    stopped = any(cause["kind"] == "stop" for cause in known)
    found = []
    for reason in _reasons(facts):
        if reason.kind == QUEUE_OVERFULL and reason.subject != facts.name:
            found.append(_other(f"Queue {reason.subject} is overfull", "it must fall to its resume level"))
        elif reason.kind == OPERATOR_STOP and not stopped:
            title = f"The producers of {reason.subject} are stopped, without a stop of Headgate"
            found.append(_other(title, "they must be started where they were stopped"))
        elif reason.kind == CONNECTION_FLOW:
            title = "The broker throttles the connection, since it sends faster than its messages are taken"
            found.append(_other(title, "a queue or the disk must catch up"))
        elif reason.kind == SHORTAGE and reason.subject not in (facts.broker.get("shortages") or ()):
            found.append(_shortage(facts, reason.subject))
        elif reason.kind == UNKNOWN and reason.subject:
            found.append(_other(f"The broker does not report the reason: {reason.subject}", "the reason is not known"))
    return found


def _other(title: str, because: str) -> dict[str, Any]:
    return {
        "kind": "reported",
        **_blocks(True),
        "title": title,
        "object": title,
        "since": None,
        "resume_ms": None,
        "because": because,
    }


def _overfull(facts: Facts, queue: Row, rates: Rates) -> dict[str, Any]:
    left = estimate(queue, rates, facts.consumers)
    mechanism = str((facts.explain.get("mechanism") or {}).get("value") or queue.get("mechanism") or "block")
    to_drain = dict(left.to_drain)
    return {
        "kind": "queue",
        **_blocks(mechanism in ("block", "hold")),
        "mechanism": mechanism,
        "title": f"Queue {queue['name']} is overfull",
        "object": queue["object"],
        "since": queue.get("overfull_since"),
        "limits": [limit for unit in UNITS if (limit := _limit(facts, queue, unit)) is not None],
        "to_drain": to_drain,
        "to_go": to_drain,
        "resume_ms": left.ms,
        "because": left.because,
    }


def _blocks(blocks: bool) -> dict[str, bool]:
    """Return the field that says whether a cause blocks producers, by its current and its deprecated name."""
    return {"blocks": blocks, "holds": blocks}


def _limit(facts: Facts, queue: Row, unit: str) -> dict[str, Any] | None:
    """Return the limit of the queue in one unit and the origins of its fields; None if there is no limit.
    `effective`: the depth is above the resume level in this unit."""
    stop = queue.get(f"effective_stop_{unit}")
    if not stop:
        return None
    resume = queue.get(f"effective_resume_{unit}") or 0
    depth = queue.get(f"depth_{unit}")
    effective = depth is not None and (depth > resume or depth >= stop)
    at_stop = resume == stop == depth  # this broker is overfull at its limit already
    return {
        "unit": unit,
        "depth": depth,
        "stop": stop,
        "resume": resume,
        "capacity": queue.get(f"effective_capacity_{unit}") or 0,
        "effective": effective,
        "binds": effective,
        "resumes_below": at_stop,
        "fields": [
            {
                "field": name,
                "value": facts.explain[name]["value"],
                "origin": facts.explain[name]["origin"],
                "origin_object": origin_object(str(facts.explain[name]["origin"] or ""), queue),
            }
            for name in (f"capacity_{unit}", f"flow_stop_{unit}", f"flow_resume_{unit}")
            if name in facts.explain
        ],
    }


def origin_object(origin: str, queue: Row) -> str | None:
    """Return the name of the managed object that sets a field of a queue; `origin` is as `explain` returns it. None:
    a default."""
    host = queue["virtualhost"]
    kind, _, rest = origin.partition(" ")
    if kind == "own":
        return str(queue["object"])
    if kind == "pattern" and rest:
        return str(object_name("Policy", virtualhost=host, pattern=rest))
    if kind == "exchange" and rest:
        return str(object_name("Exchange", virtualhost=host, name=rest))
    if kind == "virtualhost":
        return str(object_name("VirtualHost", name=host))
    return str(BROKER) if kind == "broker" else None


_STOP_SHOWN = (
    *("scope", "object", "pattern", "user", "container_id", "link"),
    *("reason", "actor", "since", "halted"),
)


def _stop(stop: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    until, below = stop.get("until"), stop.get("below") or 0
    effect, remark = facts.stop
    scope = scope_label(stop["scope"])
    ends = f"the stop ends when its queues are at or below {below}% of their capacity"
    return {
        "kind": "stop",
        **_blocks(effect in _WAITING),
        "title": (
            f"A staged start halted: the producers of {scope} are stopped again"
            if stop.get("halted")
            else f"{stop.get('actor') or 'An operator'} stopped the producers of {scope}"
        ),
        **{name: stop.get(name) for name in _STOP_SHOWN},
        "effect": effect,
        "remark": remark,
        "until": until,
        "below": below,
        "resume_ms": max(0, until - facts.now) if until else None,
        "because": ends if below else "the stop ends when an operator starts the producers",
    }


def _store_of_host(host: Row, remedies: Remedies) -> dict[str, Any]:
    overfull, used = host.get("store_overfull_bytes") or 0, host.get("store_used_bytes") or 0
    full = not overfull or used <= (host.get("store_underfull_bytes") or overfull)
    return {
        "kind": "store",
        **_blocks(True),
        "title": f"The store of virtual host {host['name']} is overfull",
        "object": host["object"],
        "since": None,
        "used": used,
        "limit": overfull,
        "resume": host.get("store_underfull_bytes") or overfull,
        "field": "store_overfull_bytes",
        "resume_ms": None,
        "because": "the disk is full" if full else f"stored messages must be {_removed(remedies)}",
    }


def _removed(remedies: Remedies) -> str:
    return "consumed or purged" if remedies.purge else "consumed"


def _shortage(facts: Facts, reason: str) -> dict[str, Any]:
    """Return the cause for a shortage of the broker. `reason`: as the broker reports it. What a node of a cluster uses
    is not known: the broker's numbers are of all of them."""
    broker = facts.broker
    short = Shortage.parse(reason) or Shortage(reason)
    what = short.resource
    words = RESOURCES.get(what, what)
    if short.node:
        title, of = f"Node {short.node} is above its limit for {words if what == 'disk' else what}", _UNKNOWN
        because = "the node must fall below its limit, after which it unblocks all producers"
    else:
        title, of = f"The broker is above its limit for {words}", broker
        origin = _origin(broker.get(f"{what}_limit_origin"))
        because = f"messages must be {_removed(facts.remedies)}, in any queue{origin}"
    return {
        "kind": what,
        **_blocks(True),
        "title": title,
        "object": broker["object"],
        "since": None,
        "node": short.node,
        "used": of.get(f"{what}_used_bytes"),
        "limit": of.get(f"{what}_limit_bytes"),
        "resume": of.get(f"{what}_limit_bytes"),
        "field": f"{what}_limit",
        "resume_ms": None,
        "because": because,
    }


def _origin(origin: Any) -> str:
    """Return the origin of a limit of the broker in brackets, or nothing if the broker does not report it."""
    return f" (the limit is {origin})" if origin else ""
