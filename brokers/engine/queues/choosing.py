"""Consumers with a selector: they get what they want past what they do not, in order.

Each remembers how far it has looked in each line, and looks at every message once; at one that came back since, again.
The work of a turn is bounded: what is left is looked at in turns of its own, and meanwhile others may take it. While it
looks, a consumer with a selector goes before those without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.engine.queues.consumer import BATCH, Consumer
from brokers.engine.values.message import Message

if TYPE_CHECKING:
    from brokers.engine.queues.queue import Queue

#: Messages that are looked at in one turn, and at a time.
LOOKS, LOOK = 256, 64


def dispatch_chosen(queue: Queue, batches: list[tuple[Consumer, list[Message]]]) -> None:
    """Assign to each consumer that has a selector and credit what it wants, in turns."""
    choosers, looks, busy = queue.choosers, LOOKS, True
    most = BATCH if len(choosers) > 1 else LOOKS
    while busy and looks > 0:
        busy = False
        for _ in range(len(choosers)):
            consumer = choosers[0]
            choosers.rotate(-1)
            if consumer.credit <= 0 or not consumer.connection.writable:
                continue
            chosen, looked = _choose(queue, consumer, min(consumer.credit, most), looks)
            looks -= looked
            if chosen:
                busy = True
                consumer.credit -= len(chosen)
                consumer.messages += len(chosen)
                consumer.unacknowledged += len(chosen)
                batches.append((consumer, chosen))
    if looks <= 0:
        queue.turn.later.add(queue)


def _choose(queue: Queue, consumer: Consumer, most: int, looks: int) -> tuple[list[Message], int]:
    """Acquire up to `most` messages; with how many were looked at, about `looks` at most."""
    chosen: list[Message] = []
    looked = 0
    while consumer.again and len(chosen) < most and looked < looks:
        number = consumer.again.pop(0)
        looked += 1
        line = queue.line_of(number)
        for message in queue.copies(line, number - 1, 1):
            if message[0] == number and _wanted(queue, consumer, message):
                queue.pick(line, number)
                chosen.append(message)
    for line in queue.lines:
        while len(chosen) < most and looked < looks:
            found = queue.copies(line, consumer.seen_of(line.rank), min(LOOK, looks - looked))
            if not found:
                break
            for message in found:
                looked += 1
                consumer.seen[line.rank] = message[0]
                if _wanted(queue, consumer, message):
                    queue.pick(line, message[0])
                    chosen.append(message)
                    if len(chosen) == most:
                        break
    return chosen, looked


def _wanted(queue: Queue, consumer: Consumer, message: Message) -> bool:
    assert consumer.selects is not None
    return consumer.selects(message[1]) and consumer not in queue.excluded.get(message[0], ())
