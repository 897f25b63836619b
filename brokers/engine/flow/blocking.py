"""Producers are blocked and unblocked: their state, the events, and the lines of the broker log.

A fan-out, which publishes the same messages to several queues, has a producer for each of them. These share their
reasons: all are blocked until the last of the queues accepts messages. This need not be mutual: if all messages to A go
to B as well, but not all messages to B go to A, an overfull A does not block the producer of B.

Events are per producer. The broker log is per channel, as in Qpid's Java broker: one CHN-1005 for the first cause,
which names the queue or, if the cause is not the queue's own, `** All Queues **`; one CHN-1006 when no producer of the
channel is blocked any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Turn
from brokers.engine.values.events import name_in_events

#: Written by Qpid's Java broker in place of a queue's name if the store is overfull.
ALL_QUEUES = "** All Queues **"


def block(turn: Turn, producer: Producer, reason: str, cause: str, of_queue: Mapping[str, Any]) -> None:
    """Add a reason of the producer's own queue. `cause`: the name in the log, a queue or `ALL_QUEUES`; `of_queue`: the
    queue's attributes for the event."""
    first = producer.add_reason(reason)
    producer.update_blocked_time(turn.now)
    fan_out_changed(turn, producer.siblings)
    if not first:
        return
    channel = producer.connection.blocked.setdefault(producer.channel, {})
    logged = not channel
    channel[producer] = None
    attributes = {**of_queue, "reasons": list(producer.reasons)}
    _announce(turn, "producer-blocked", producer, f"Flow Control Enforced (Queue {cause})", attributes, logged=logged)


def unblock(turn: Turn, producer: Producer, reason: str, of_queue: Mapping[str, Any]) -> bool:
    """Remove a reason of the producer's own queue. Return True if it was the last one."""
    if reason not in producer.causes:
        return False
    del producer.causes[reason]
    if producer.causes:
        return False
    _update(turn, producer, of_queue)
    fan_out_changed(turn, producer.siblings)
    return True


def detached(turn: Turn, producer: Producer) -> None:
    """Remove the reasons of a producer whose link has ended, also from those that share them."""
    _leave_channel(producer)
    producer.causes.clear()
    fan_out_changed(turn, [other for other in producer.siblings if other is not producer])


def fan_out_changed(turn: Turn, producers: Iterable[Producer]) -> None:
    """Update producers of which the reasons, or the sharing of reasons, have changed."""
    shared: dict[int, bool] = {}  # a group of producers that share their reasons, by its identity -> it has some
    for producer in producers:
        group = producer.fan_out
        blocked = bool(producer.causes)
        if group and not blocked:
            if id(group) not in shared:
                shared[id(group)] = any(each.causes for each in group)
            blocked = shared[id(group)]
        if blocked is not (producer.blocked_since is not None):
            _update(turn, producer, None)


def _update(turn: Turn, producer: Producer, of_queue: Mapping[str, Any] | None) -> None:
    lasted = producer.update_blocked_time(turn.now)
    if lasted is None or producer not in producer.connection.blocked.get(producer.channel, ()):
        return  # another queue of the fan-out blocks it, or was the only one that did, which is not announced
    last = _leave_channel(producer)
    attributes = {**(producer.queue.event_attributes() if of_queue is None else of_queue), "blocked_ms": lasted}
    _announce(turn, "producer-released", producer, "Flow Control Removed", attributes, logged=last)


def _leave_channel(producer: Producer) -> bool:
    """Return True if it was the last blocked producer of its channel."""
    blocked = producer.connection.blocked
    channel = blocked.get(producer.channel)
    if channel is None or producer not in channel:
        return False
    del channel[producer]
    if channel:
        return False
    del blocked[producer.channel]
    return True


def _announce(
    turn: Turn, kind: str, producer: Producer, words: str, attributes: Mapping[str, Any], *, logged: bool
) -> None:
    connection = producer.connection
    subject = f"{connection.subject}/ch:{producer.channel}"
    facts = {**attributes, "client": connection.client, "link": name_in_events(producer.link)}
    turn.add_fact(kind, producer.name, subject, words, facts, logged=logged)
