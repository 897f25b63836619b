"""A producer becomes blocked or unblocked: what is known of it, what is announced, and what the broker log says.

A link that publishes the same messages to several queues (a fan-out) has a producer for each of them. These share
their reasons: none of them runs before the last of the queues lets the messages through. It need not be mutual: where
all messages to A go to B as well, but not all to B go to A, a full A leaves the producer of B running.

Events are of producers. The broker log is of channels, by the rule of Qpid's Java broker: one CHN-1005 when the first
cause comes, naming the queue or, where the cause is no queue's own, `** All Queues **`; one CHN-1006 when nothing
blocks any producer of the channel any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Turn

#: What Qpid's Java broker writes where a queue's name would stand, for a store that is full.
ALL_QUEUES = "** All Queues **"


def block(turn: Turn, producer: Producer, reason: str, cause: str, shown: Mapping[str, Any]) -> None:
    """Add a reason of the producer's own queue. `cause`: what the log names, a queue or `ALL_QUEUES`; `shown`: the
    attributes of the event."""
    first = producer.add_reason(reason)
    producer.keep_time(turn.now)
    fan_out_changed(turn, producer.siblings)
    if not first:
        return
    channel = producer.connection.blocked.setdefault(producer.channel, {})
    logged = not channel
    channel[producer] = None
    attributes = {**shown, "reasons": list(producer.reasons)}
    _announce(turn, "producer-blocked", producer, f"Flow Control Enforced (Queue {cause})", attributes, logged=logged)


def unblock(turn: Turn, producer: Producer, reason: str, shown: Mapping[str, Any]) -> bool:
    """Take a reason of the producer's own queue away. True if that queue does not block it any more."""
    if reason not in producer.causes:
        return False
    del producer.causes[reason]
    if producer.causes:
        return False
    _update(turn, producer, shown)
    fan_out_changed(turn, producer.siblings)
    return True


def detached(turn: Turn, producer: Producer) -> None:
    """The producer is gone, and with it the reasons that it shared with others."""
    _leave_channel(producer)
    producer.causes.clear()
    fan_out_changed(turn, [other for other in producer.siblings if other is not producer])


def fan_out_changed(turn: Turn, producers: Iterable[Producer]) -> None:
    """The reasons of one of these have changed, or which of them share theirs."""
    for producer in producers:
        if bool(producer.reasons) is not (producer.blocked_since is not None):
            _update(turn, producer, None)


def _update(turn: Turn, producer: Producer, shown: Mapping[str, Any] | None) -> None:
    lasted = producer.keep_time(turn.now)
    if lasted is None or producer not in producer.connection.blocked.get(producer.channel, ()):
        return  # another queue of the fan-out blocks it, or it was blocked for that alone and never announced
    last = _leave_channel(producer)
    attributes = {**(producer.queue.event_attributes() if shown is None else shown), "blocked_ms": lasted}
    _announce(turn, "producer-released", producer, "Flow Control Removed", attributes, logged=last)


def _leave_channel(producer: Producer) -> bool:
    """True if it was the last blocked producer of its channel."""
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
    facts = {**attributes, "client": connection.client, "link": producer.link}
    turn.add_fact(kind, producer.name, subject, words, facts, logged=logged)
