"""Explain why a producer or a queue is blocked: each cause with its effective limit and the origin of that limit, the
condition and time at which it ends, the other blocked producers, and the other links of their connections.

`facts.py` queries the broker; `explanation` is pure. What the broker does not report is None, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.model import ObjectName
from console.conditions.trends import NO_RATES, Rates
from console.incident.causes import causes_of, inferred_of, origin_object
from console.incident.drain import UNITS, activity, drain_rate
from console.incident.facts import Facts, Row, read
from console.links.link import BrokerLink

__all__ = ["Facts", "explanation", "origin_object", "read", "why", "why_now"]


async def why(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """Explain a Queue or a Producer; {"gone": True} if it does not exist. For coroutines of any loop. Raises
    AdminError."""
    facts = await link.acall(lambda admin: read(admin, name, link.broker_now))
    return {"gone": True} if facts is None else explanation(facts, _rates(link, facts))


def why_now(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    """`why` for synchronous callers."""
    facts = link.call(lambda admin: read(admin, name, link.broker_now))
    return {"gone": True} if facts is None else explanation(facts, _rates(link, facts))


def _rates(link: BrokerLink, facts: Facts) -> Rates:
    return NO_RATES if facts.queue is None else link.rates(facts.queue["object"])


def explanation(facts: Facts, rates: Rates = NO_RATES) -> dict[str, Any]:
    """Return the explanation as the API and the page show it. The deprecated fields `asked`, `says`, and `holds`,
    `to_go` and `binds` of causes and `held` of connections have the values of `object`, `summary`, `blocks`,
    `to_drain`, `effective` and `blocked_producers`."""
    queue = facts.queue or {}
    causes = causes_of(facts, rates)
    blocked = _is_blocked(facts, causes)
    times = [cause["resume_ms"] for cause in causes]
    name, summary = (facts.producer or queue)["object"], _summary(facts, causes, blocked)
    return {
        "object": name,
        "asked": name,
        "blocked": blocked,
        "summary": summary,
        "says": summary,
        "notes": _notes(facts),
        "queue": None if facts.queue is None else dict(queue),
        "producer": None if facts.producer is None else dict(facts.producer),
        "causes": causes,
        "resume_ms": max(times) if causes and all(ms is not None for ms in times) else None,
        "drain": {unit: round(drain_rate(queue, rates, unit), 1) for unit in UNITS},
        "consumers": [
            {**c, **dict(zip(("doing", "stuck"), activity(c, queue), strict=True))} for c in facts.consumers or ()
        ],
        "consumers_total": facts.consumers_total,
        "producers": [dict(producer) for producer in facts.producers or ()],
        "producers_total": facts.producers_total,
        "connections": _connections(facts),
    }


def _is_blocked(facts: Facts, causes: Sequence[Mapping[str, Any]]) -> bool | None:
    """Return whether the producer, or one of the queue, is blocked; None if the broker does not report it."""
    if facts.producer is not None:
        return None if facts.producer.get("state") is None else bool(facts.producer.get("reasons"))
    count = (facts.queue or {}).get("blocked_producers")
    if count is not None:
        return bool(count)
    return None if any(cause["blocks"] for cause in causes) or facts.producers is None else False


def _notes(facts: Facts) -> list[str]:
    """Return what is not known, and what is inferred, as sentences."""
    found = []
    if facts.queue is None or (facts.producers is None and facts.producer is None):
        found.append("This broker does not report to which queues a producer sends.")
    unknown = facts.producer is not None and facts.producer.get("state") is None
    if unknown or (facts.producers and any(producer.get("state") is None for producer in facts.producers)):
        found.append("This broker does not report which producers are blocked.")
    found += [
        f"The broker does not report which producers are blocked. It is inferred of a producer: {sentence}."
        for sentence in inferred_of(facts)
    ]
    if facts.consumers is None and facts.queue is not None:
        found.append("This broker does not list consumers.")
    return found


def _summary(facts: Facts, causes: Sequence[Mapping[str, Any]], blocked: bool | None) -> str:
    """Return the explanation in one sentence."""
    if facts.producer is not None and blocked is False:
        return _not_blocked(facts, facts.producer)
    blocking = [cause for cause in causes if cause["blocks"]]
    if not blocking:
        return _without_block(facts, causes, blocked)
    if blocked is None:
        return f"{'This producer' if facts.producer else 'Producers'} can be blocked: {_titles(blocking)}."
    count = (facts.queue or {}).get("blocked_producers") or 0
    return f"{'This producer is' if facts.producer else _producers_are(count)} blocked: {_titles(blocking)}."


def _without_block(facts: Facts, causes: Sequence[Mapping[str, Any]], blocked: bool | None) -> str:
    """Return the sentence where no cause blocks producers. A cause can let them be refused, or none is known."""
    name = facts.name
    if refusing := [cause for cause in causes if cause["kind"] == "stop"]:
        return f"What producers send to {name} is refused: {_titles(refusing)}."
    if causes:
        refuses = " It refuses what they send." if causes[0]["mechanism"] == "reject" else ""
        return f"Queue {name} is overfull but blocks no producers: its mechanism is {causes[0]['mechanism']}.{refuses}"
    if facts.producer is not None:
        is_so = "is blocked, but no cause is known" if blocked else "may be blocked: the broker does not report it"
        return f"This producer {is_so}. Check the events of its queue."
    if blocked:
        return f"Producers of {name} are blocked, but no cause is known. Check the events of the queue."
    if blocked is None:
        return f"Nothing is known that blocks producers of {name}."
    waiting = (facts.queue or {}).get("waiting_producers")
    return f"No producers of {name} are blocked.{f' {_waiting(facts, waiting)}' if waiting else ''}"


def _titles(causes: Sequence[Mapping[str, Any]]) -> str:
    titles = [cause["title"] for cause in causes]
    return "; and ".join(title[0].lower() + title[1:] for title in titles)


def _not_blocked(facts: Facts, producer: Row) -> str:
    to = f" to {facts.name}" if facts.name else ""
    if "credit" not in producer or producer["credit"] is None:
        return "This producer is not blocked."
    if producer["credit"]:
        return f"This producer is not blocked: it can send {_messages(producer['credit'])}{to} now."
    if waits_for := producer.get("waits_for"):
        return f"This producer is not blocked, but has no credit: it waits for {waits_for}."
    return f"This producer is not blocked, but has no credit for {facts.name or 'its queue'}."


def _waiting(facts: Facts, waiting: int) -> str:
    """Return how many unblocked producers have no credit, and what the first of them waits for."""
    first = next((text for producer in facts.producers or () if (text := producer.get("waits_for"))), "")
    subject = "One producer has" if waiting == 1 else f"{waiting:,} producers have"
    waits = f"it waits for {first or 'credit'}"
    if waiting > 1:
        waits = f"they wait for {first.replace('its turn', 'their turn', 1) or 'credit'}"
    return f"{subject} no credit: {waits}."


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _producers_are(count: int) -> str:
    return "1 producer is" if count == 1 else f"{count:,} producers are" if count else "New producers are"


# -- shared connections ---------------------------------------------------------------------------------------------


def _connections(facts: Facts) -> list[dict[str, Any]]:
    """Return the connections of the queue's producers and consumers (or of the producer to explain), each with all its
    links; those with blocked producers of this queue first."""
    mine = None if facts.queue is None else facts.queue["object"]
    shown = []
    for connection in facts.connections:
        producers = [p for p in facts.sharing_producers if p["connection"] == connection["object"]]
        consumers = [c for c in facts.sharing_consumers if c["connection"] == connection["object"]]
        blocked = sum(1 for p in producers if _queue(p) == mine and p.get("state") == "BLOCKED")
        shown.append(
            {
                **connection,
                "blocked_producers": blocked,
                "held": blocked,
                "here": [_link(p) for p in producers if _queue(p) == mine],
                "other_producers": [_link(p) for p in producers if _queue(p) != mine],
                "consumers_here": [_link(c) for c in consumers if _queue(c) == mine],
                "other_consumers": [_link(c) for c in consumers if _queue(c) != mine],
            }
        )
    shown.sort(key=lambda c: (-c["blocked_producers"], c["id"]))
    return shown


def _queue(link: Row) -> str | None:
    """Return the queue of a link; None if the broker does not say it, which is that of the producer to explain."""
    return link.get("queue")


def _link(row: Row) -> dict[str, Any]:
    return {name: row.get(name) for name in ("object", "queue", "link", "state", "credit", "messages")}
