"""Dispatch to consumers with a selector: each gets the messages that match, in order.

A consumer examines each message once, and once more after the message was returned to the queue; it records its
position in each lane. The work of a turn is bounded; the rest follows in later turns, and meanwhile other consumers may
get the messages. Consumers with a selector are served before those without.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.queues.consumer import BATCH, Consumer
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.values.message import Message

#: Messages examined in one turn, and at a time. One of which much is decoded counts as several: as one more for each
#: `DECODED_AS_ONE` bytes.
MOST_EXAMINED, BATCH_EXAMINED = 256, 64
DECODED_AS_ONE = 1024


def dispatch_chosen(
    lanes: PriorityLanes,
    choosers: deque[Consumer],
    batches: list[tuple[Consumer, list[Message]]],
    *,
    sparing: bool = False,
) -> None:
    """Assign matching messages to the consumers that have a selector and credit, round-robin. `sparing`: only to those
    without a message."""
    left, busy = MOST_EXAMINED, True
    most = BATCH if len(choosers) > 1 else MOST_EXAMINED
    while busy and left > 0:
        busy = False
        for _ in range(len(choosers)):
            consumer = choosers[0]
            choosers.rotate(-1)
            if consumer.credit <= 0 or not consumer.connection.writable or (sparing and consumer.unacknowledged):
                continue
            chosen, examined = _choose(lanes, consumer, min(consumer.credit, most), left)
            left -= examined
            if chosen:
                busy = True
                consumer.credit -= len(chosen)
                consumer.messages += len(chosen)
                consumer.unacknowledged += len(chosen)
                batches.append((consumer, chosen))
    if left <= 0:
        lanes.agenda.redispatch.add(lanes.queue)


def _choose(lanes: PriorityLanes, consumer: Consumer, most: int, left: int) -> tuple[list[Message], int]:
    """Acquire up to `most` messages. Return them and the number of examined messages, `left` and the last one's at
    most."""
    chosen: list[Message] = []
    examined = 0
    while consumer.to_revisit and len(chosen) < most and examined < left:
        number = consumer.to_revisit.pop(0)
        examined += 1
        lane = lanes.lane_of(number)
        for message in lanes.copies(lane, number - 1, 1):
            examined += weight(lanes, message[1]) - 1
            if message[0] == number and _wanted(lanes, consumer, message):
                lanes.pick(lane, number)
                chosen.append(message)
    for lane in lanes.lanes:
        while len(chosen) < most and examined < left:
            found = lanes.copies(lane, consumer.position(lane.rank), min(BATCH_EXAMINED, left - examined))
            if not found:
                break
            for message in found:
                examined += weight(lanes, message[1])
                consumer.positions[lane.rank] = message[0]
                if _wanted(lanes, consumer, message):
                    lanes.pick(lane, message[0])
                    chosen.append(message)
                if len(chosen) == most or examined >= left:
                    break
    return chosen, examined


def weight(lanes: PriorityLanes, body: bytes) -> int:
    """Return as how many an examined message counts."""
    return 1 if len(body) < DECODED_AS_ONE else 1 + lanes.turn.format.decoded_bytes(body) // DECODED_AS_ONE


def _wanted(lanes: PriorityLanes, consumer: Consumer, message: Message) -> bool:
    assert consumer.selects is not None
    return consumer.selects(message[1]) and consumer not in lanes.excluded.get(message[0], ())
