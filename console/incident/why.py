"""Explain why a producer or a queue is blocked: each cause with its effective limit and the origin of that limit, the
condition and time at which it ends, the other blocked producers, and the other links of their connections.

`read` queries the broker; `explanation` is pure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.admin import BrokerAdmin, NotFound
from brokers.model import ObjectName, object_name
from console.conditions.trends import NO_RATES, Rates
from console.incident.drain import UNITS, activity, drain_rate, estimate
from console.links.link import BrokerLink
from console.links.object_shapes import row_of, rows_of

Row = Mapping[str, Any]

#: Listed producers, and consumers; connections whose other links are listed.
MOST_LINKS, MOST_CONNECTIONS = 200, 40
#: Listed producers, and consumers, of these connections.
_MOST_SHARING = 500

_BROKER = object_name("Broker")


@dataclass(frozen=True, slots=True)
class Facts:
    """The broker's answers. Each object is a row: its attributes and `object`, the text of its name."""

    queue: Row
    explain: Mapping[str, Mapping[str, Any]]
    producers: Sequence[Row]
    producers_total: int
    consumers: Sequence[Row]
    consumers_total: int
    broker: Row
    host: Row
    producer: Row | None = None  # the producer to explain; None: the queue is
    connections: Sequence[Row] = ()
    sharing_producers: Sequence[Row] = ()
    sharing_consumers: Sequence[Row] = ()
    now: int = 0  # by the broker's clock, ms since the epoch


async def why(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """Explain a Queue or a Producer; {"gone": True} if it does not exist. For coroutines of any loop. Raises
    AdminError."""
    facts = await link.acall(lambda admin: read(admin, name, link.broker_now))
    return {"gone": True} if facts is None else explanation(facts, link.rates(facts.queue["object"]))


def why_now(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """`why` for synchronous callers."""
    facts = link.call(lambda admin: read(admin, name, link.broker_now))
    return {"gone": True} if facts is None else explanation(facts, link.rates(facts.queue["object"]))


async def read(admin: BrokerAdmin, name: ObjectName, now: int = 0) -> Facts | None:
    """Query the broker; None if there is no such queue or producer. `now`: the broker's time, ms since the epoch."""
    try:
        producer = await admin.read(name) if name.type == "Producer" else None
        queue = ObjectName.parse(str(producer["queue"])) if producer is not None else name
        of_queue = {"queue": str(queue)}
        found, explained, producers, consumers, broker, host = await asyncio.gather(
            admin.read(queue),
            admin.call(queue, "explain", {}),
            admin.query("Producer", where=of_queue, sort="state,blocked_since,id", count=MOST_LINKS),
            admin.query("Consumer", where=of_queue, sort="id", count=MOST_LINKS),
            admin.read(_BROKER),
            admin.read(object_name("VirtualHost", name=queue["virtualhost"])),
        )
    except NotFound:
        return None
    links = [producer] if producer is not None else [*producers.items, *consumers.items]
    names = list(dict.fromkeys(str(link["connection"]) for link in links))[:MOST_CONNECTIONS]
    ids = [int(ObjectName.parse(text)["id"]) for text in names]
    on_them = {"where": {"connection": names}, "count": _MOST_SHARING}
    connections, sharing_producers, sharing_consumers = await asyncio.gather(
        admin.query("Connection", where={"id": ids}, count=MOST_CONNECTIONS),
        admin.query("Producer", **on_them),  # type: ignore[arg-type]
        admin.query("Consumer", **on_them),  # type: ignore[arg-type]
    )
    return Facts(
        queue=row_of(found),
        explain=explained["fields"],
        producers=rows_of(producers.items),
        producers_total=producers.total,
        consumers=rows_of(consumers.items),
        consumers_total=consumers.total,
        broker=row_of(broker),
        host=row_of(host),
        producer=None if producer is None else row_of(producer),
        connections=rows_of(connections.items),
        sharing_producers=rows_of(sharing_producers.items),
        sharing_consumers=rows_of(sharing_consumers.items),
        now=now,
    )


def explanation(facts: Facts, rates: Rates = NO_RATES) -> dict[str, Any]:
    """Return the explanation as the API and the page show it. The deprecated fields `asked`, `says`, and `holds`,
    `to_go` and `binds` of causes and `held` of connections have the values of `object`, `summary`, `blocks`,
    `to_drain`, `effective` and `blocked_producers`."""
    queue = facts.queue
    causes = _causes(facts, rates)
    blocked = bool(facts.producer["reasons"]) if facts.producer is not None else bool(queue["blocked_producers"])
    times = [cause["resume_ms"] for cause in causes]
    name, summary = (facts.producer or queue)["object"], _summary(facts, causes, blocked)
    return {
        "object": name,
        "asked": name,
        "blocked": blocked,
        "summary": summary,
        "says": summary,
        "queue": dict(queue),
        "producer": None if facts.producer is None else dict(facts.producer),
        "causes": causes,
        "resume_ms": max(times) if causes and all(ms is not None for ms in times) else None,
        "drain": {unit: round(drain_rate(queue, rates, unit), 1) for unit in UNITS},
        "consumers": [{**c, **dict(zip(("doing", "stuck"), activity(c, queue), strict=True))} for c in facts.consumers],
        "consumers_total": facts.consumers_total,
        "producers": [dict(producer) for producer in facts.producers],
        "producers_total": facts.producers_total,
        "connections": _connections(facts),
    }


# -- causes ---------------------------------------------------------------------------------------------------------


def _causes(facts: Facts, rates: Rates) -> list[dict[str, Any]]:
    """Return the causes that apply now, each of which suffices to block the queue's producers. `resume_ms`: time until
    it ends without intervention; None if unknown, and then `because` says why."""
    queue = facts.queue
    causes = []
    if (queue["state"] or "").startswith("OVERFULL"):
        causes.append(_overfull(facts, rates))
    causes.extend(_stop(stop, facts.now) for stop in queue.get("stops") or () if not stop.get("stage"))
    if facts.host.get("store_overfull"):
        causes.append(_store_of_host(facts.host))
    causes.extend(_shortage(facts.broker, r) for r in facts.broker.get("shortages") or () if _concerns(facts, r))
    return causes


def _concerns(facts: Facts, reason: str) -> bool:
    """Return whether a shortage of the broker blocks these producers: it blocks only those that use the resource. A
    queue without producers counts as concerned."""
    producers = facts.producers if facts.producer is None else [facts.producer]
    return not producers or any(reason in (producer.get("reasons") or ()) for producer in producers)


def _overfull(facts: Facts, rates: Rates) -> dict[str, Any]:
    queue = facts.queue
    left = estimate(queue, rates, facts.consumers)
    mechanism = str((facts.explain.get("mechanism") or {}).get("value") or "block")
    to_drain = dict(left.to_drain)
    return {
        "kind": "queue",
        **_blocks(mechanism in ("block", "hold")),
        "mechanism": mechanism,
        "title": f"Queue {queue['name']} is overfull",
        "object": queue["object"],
        "since": queue.get("overfull_since"),
        "limits": [limit for unit in UNITS if (limit := _limit(facts, unit)) is not None],
        "to_drain": to_drain,
        "to_go": to_drain,
        "resume_ms": left.ms,
        "because": left.because,
    }


def _blocks(blocks: bool) -> dict[str, bool]:
    """Return the field that says whether a cause blocks producers, by its current and its deprecated name."""
    return {"blocks": blocks, "holds": blocks}


def _limit(facts: Facts, unit: str) -> dict[str, Any] | None:
    """Return the limit of the queue in one unit and the origins of its fields; None if there is no limit.
    `effective`: the depth is above the resume level in this unit."""
    queue = facts.queue
    stop = queue.get(f"effective_stop_{unit}")
    if not stop:
        return None
    resume = queue.get(f"effective_resume_{unit}") or 0
    effective = queue[f"depth_{unit}"] > resume
    return {
        "unit": unit,
        "depth": queue[f"depth_{unit}"],
        "stop": stop,
        "resume": resume,
        "capacity": queue.get(f"effective_capacity_{unit}") or 0,
        "effective": effective,
        "binds": effective,
        "fields": [
            {
                "field": name,
                "value": facts.explain[name]["value"],
                "origin": facts.explain[name]["origin"],
                "origin_object": origin_object(str(facts.explain[name]["origin"]), queue),
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
    return str(_BROKER) if kind == "broker" else None


def _stop(stop: Mapping[str, Any], now: int) -> dict[str, Any]:
    until, below = stop.get("until"), stop.get("below") or 0
    ends = f"the stop ends when its queues are at or below {below}% of their capacity"
    return {
        "kind": "stop",
        **_blocks(True),
        "title": (
            f"A staged start halted: the producers of {stop['scope']} are stopped again"
            if stop.get("halted")
            else f"{stop.get('actor') or 'An operator'} stopped the producers of {stop['scope']}"
        ),
        **{name: stop.get(name) for name in ("scope", "object", "pattern", "reason", "actor", "since", "halted")},
        "until": until,
        "below": below,
        "resume_ms": max(0, until - now) if until else None,
        "because": ends if below else "the stop ends when an operator starts the producers",
    }


def _store_of_host(host: Row) -> dict[str, Any]:
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
        "because": "the disk is full" if full else "stored messages must be consumed or purged",
    }


def _shortage(broker: Row, reason: str) -> dict[str, Any]:
    """Return the cause for a shortage of the broker; `reason`: as the broker reports it, such as memory-overfull."""
    what = reason.partition("-")[0]
    words = {"store": "stored messages on disk", "memory": "messages in memory", "temp": "spooled messages on disk"}
    return {
        "kind": what,
        **_blocks(True),
        "title": f"The broker is above its limit for {words.get(what, what)}",
        "object": broker["object"],
        "since": None,
        "used": broker.get(f"{what}_used_bytes"),
        "limit": broker.get(f"{what}_limit_bytes"),
        "resume": broker.get(f"{what}_limit_bytes"),
        "field": f"{what}_limit",
        "resume_ms": None,
        "because": f"messages must be consumed or purged, in any queue{_origin(broker.get(f'{what}_limit_origin'))}",
    }


def _origin(origin: Any) -> str:
    """Return the origin of a limit of the broker in brackets, or nothing if the broker does not report it."""
    return f" (the limit is {origin})" if origin else ""


def _summary(facts: Facts, causes: Sequence[Mapping[str, Any]], blocked: bool) -> str:
    """Return the explanation in one sentence."""
    queue, name = facts.queue, facts.queue["name"]
    if facts.producer is not None and not blocked:
        credit = facts.producer.get("credit") or 0
        if credit:
            return f"This producer is not blocked: it can send {_messages(credit)} to {name} now."
        waits_for = facts.producer.get("waits_for")
        if waits_for:
            return f"This producer is not blocked, but has no credit: it waits for {waits_for}."
        return f"This producer is not blocked, but has no credit for {name}."
    blocking = [cause for cause in causes if cause["blocks"]]
    if not blocking:
        if causes:
            return f"Queue {name} is overfull but blocks no producers: its mechanism is {causes[0]['mechanism']}."
        if queue["blocked_producers"]:
            return f"Producers of {name} are blocked, but no cause is known. Check the events of the queue."
        if waiting := queue.get("waiting_producers"):
            return f"No producers of {name} are blocked. {_waiting(facts, waiting)}"
        return f"No producers of {name} are blocked."
    subject = "This producer is" if facts.producer is not None else _producers_are(queue["blocked_producers"] or 0)
    titles = [cause["title"] for cause in blocking]
    return f"{subject} blocked: {'; and '.join(title[0].lower() + title[1:] for title in titles)}."


def _waiting(facts: Facts, waiting: int) -> str:
    """Return how many unblocked producers have no credit, and what the first of them waits for."""
    first = next((text for producer in facts.producers if (text := producer.get("waits_for"))), "")
    subject = "One producer has" if waiting == 1 else f"{waiting:,} producers have"
    waits = f"{'it waits' if waiting == 1 else 'they wait'} for {first or 'credit'}"
    return f"{subject} no credit: {waits}."


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _producers_are(count: int) -> str:
    return "1 producer is" if count == 1 else f"{count:,} producers are" if count else "New producers are"


# -- shared connections ---------------------------------------------------------------------------------------------


def _connections(facts: Facts) -> list[dict[str, Any]]:
    """Return the connections of the queue's producers and consumers (or of the producer to explain), each with all its
    links; those with blocked producers of this queue first."""
    mine = facts.queue["object"]
    shown = []
    for connection in facts.connections:
        producers = [p for p in facts.sharing_producers if p["connection"] == connection["object"]]
        consumers = [c for c in facts.sharing_consumers if c["connection"] == connection["object"]]
        blocked = sum(1 for p in producers if p["queue"] == mine and p["state"] == "BLOCKED")
        shown.append(
            {
                **connection,
                "blocked_producers": blocked,
                "held": blocked,
                "here": [_link(p) for p in producers if p["queue"] == mine],
                "other_producers": [_link(p) for p in producers if p["queue"] != mine],
                "consumers_here": [_link(c) for c in consumers if c["queue"] == mine],
                "other_consumers": [_link(c) for c in consumers if c["queue"] != mine],
            }
        )
    shown.sort(key=lambda c: (-c["blocked_producers"], c["id"]))
    return shown


def _link(row: Row) -> dict[str, Any]:
    return {name: row.get(name) for name in ("object", "queue", "link", "state", "credit", "messages")}
