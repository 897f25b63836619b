"""A test message that an operator publishes to a queue, through the flow control that a producer's message meets.

The operator's message never waits: one that would be parked is not taken, so that none appears later of which its
author knows nothing.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.flow.overflow import Arrival
from brokers.engine.queues.browsing import Browsing
from brokers.engine.queues.queue import Queue
from brokers.engine.services.queue_facts import queue_fact
from brokers.engine.values.message import HIGHEST_PRIORITY, USUAL_PRIORITY, number_of
from brokers.engine.values.message_format import Draft
from brokers.engine.values.message_ids import id_of

ACCEPTED, PARKED, REJECTED, DISCARDED = "accepted", "parked", "rejected", "discarded"

_NOT_TAKEN = "a producer's message would wait for that; this one was not taken"
_LONGEST_TTL = (1 << 32) - 1


def publish(queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
    """Publish a message. `given`: the arguments of `publish-message`. Raises InvalidValue."""
    body = queue.turn.format.encoded(_draft(given))
    outcome, sentence = _refused(queue, body)
    identity = None
    if not outcome:
        outcome, sentence, identity = _enqueue(queue, body)
        actor, reason = given["actor"], given.get("reason") or ""
        facts = {"outcome": outcome, "bytes": len(body), "actor": actor, "reason": reason}
        queue_fact(queue, "test-message-published", f"Test Message : {len(body):,} bytes, By : {actor}", facts)
    return {"outcome": outcome, "id": identity, "sentence": sentence}


def _draft(given: Mapping[str, Any]) -> Draft:
    wrong: dict[str, str] = {}
    kind = given.get("body_kind") or "text"
    try:
        body = b64decode(given.get("body") or "", validate=True)
        if kind == "text":
            body.decode()
    except UnicodeDecodeError:
        wrong["body"] = "body is not UTF-8, which a text must be"
    except ValueError:
        wrong["body"] = "body is not valid base64"
    priority, ttl = given.get("priority"), given.get("ttl_ms") or 0
    if priority is not None and priority > HIGHEST_PRIORITY:
        wrong["priority"] = f"priority is {priority}: it goes from 0 to {HIGHEST_PRIORITY}"
    if ttl > _LONGEST_TTL:
        wrong["ttl_ms"] = f"ttl_ms is {ttl}: {_LONGEST_TTL:,} at most"
    if wrong:
        raise InvalidValue(wrong)
    return Draft(
        body,
        kind,
        bool(given.get("durable")),
        USUAL_PRIORITY if priority is None else priority,
        ttl,
        given.get("properties") or {},
        given.get("application_properties") or {},
    )


def _refused(queue: Queue, body: bytes) -> tuple[str, str]:
    """Return (outcome, sentence) of a message that the queue does not take; empty: it does."""
    gate = queue.gate
    if gate.state.stopped:
        return PARKED, f"The producers of the queue are stopped: {_NOT_TAKEN}."
    short = ", ".join(usage.reason for usage in gate.shortages)
    if any(usage.exhausted for usage in gate.shortages) or (short and gate.refuses(body)):
        gate.reject()
        return REJECTED, f"The queue rejected it: {short}."
    if short and not gate.admits(queue.resource_of(body)):
        return PARKED, f"The broker is short ({short}): {_NOT_TAKEN}."
    if gate.staged and gate.staging.allowance() <= 0:
        return PARKED, f"The producers of the queue are being started in stages, at a limited rate: {_NOT_TAKEN}."
    policy = gate.interception()
    arrival = Arrival.ENQUEUE if policy is None else policy.arrival
    if arrival is Arrival.REJECT:
        gate.reject()
        return REJECTED, "The queue is overfull, and its policy is to reject messages."
    if arrival is Arrival.PARK_BEHIND:
        return PARKED, f"Messages of producers wait to enter the queue, and go first: {_NOT_TAKEN}."
    if arrival is Arrival.PARK or (arrival is Arrival.WITHHOLD and not gate.admits_withheld()):
        return PARKED, f"The queue is overfull until it resumes: {_NOT_TAKEN}."
    return "", ""


def _enqueue(queue: Queue, body: bytes) -> tuple[str, str, str | None]:
    """Enqueue a message. Return (outcome, sentence, id)."""
    gate, header = queue.gate, queue.turn.header(body)
    overfull, dropped = gate.state.overfull, queue.lanes.dropped
    number = number_of(gate.enqueued + 1, header.priority)
    if queue.storage.spooling:
        queue.spool(body)
    else:
        queue.enqueue(body)
    dropped = queue.lanes.dropped - dropped
    if dropped and not any(each.number == number for each in Browsing(queue).after(number - 1, 1)):
        stored = any(each.number == number for each in queue.storage.unsafe)
        if not stored:
            return (
                DISCARDED,
                "The ring queue is full and dropped it at once: messages of the lowest priority go first.",
                None,
            )
    sentence = "It is in the queue."
    if header.durable and queue.durable is not None:
        sentence = "The queue has taken it, and is writing it to the store; then consumers may get it."
    elif header.durable:
        sentence = "It is in the queue, which is not durable: a restart of the broker would lose it."
    if dropped:
        sentence += f" The ring queue dropped {dropped:,} of its oldest messages for it."
    elif overfull:
        sentence += " The queue is overfull, and its policy takes messages all the same."
    return ACCEPTED, sentence, id_of(number, body)
