"""Messages on their way from a queue that is not durable to a durable one, which must store them first.

Until the store has answered, a message is part of the queue that it comes from: it counts in that queue's depth, is in
none of its lanes, and cannot be taken. So it is lost neither when the store refuses it nor when the other queue is
deleted, and producers get no room that it may need again. Like every message, it is removed with its queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from brokers.engine.queues.durable_storage import DurableStorage
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import Header, Message


def send(
    queue: Queue,
    message: Message,
    target: DurableStorage,
    sent: bytes,
    *,
    header: Header,
    answered: Callable[[bool], None],
) -> None:
    """Send a message that is in no lane of the queue to another queue, as `sent` with `header`. `answered`: called with
    whether it is stored there; if not, it must return to a place in its queue. Not called for a deleted queue."""
    number, body = message
    queue.lanes.leaving[number] = body
    queue.lanes.deadlines.forget(number)
    target.receive(header, sent, partial(_answered, queue, number, answered))


def _answered(queue: Queue, number: int, answered: Callable[[bool], None], stored: bool) -> None:
    if queue.deleted:
        return
    body = queue.lanes.leaving.pop(number)
    if stored:
        queue.lanes.discount(number, len(body))
        queue.gate.measure()
    answered(stored)
    queue.touch()
