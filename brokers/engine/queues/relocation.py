"""Messages leave a queue without a consumer: for another queue, as a copy, or altogether.

A stored message that goes to a durable queue is moved by one change of the store, so that after a crash it is in
exactly one of the two queues. One that comes from a queue that is not durable is part of that queue until the target's
store has it (`leaving.py`), and returns to its place there if the store refuses it. The work is proportional to the
messages and to the part of the queue that they are in, however long the queue is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby

from brokers.engine.queues.backlog import HERE, STORE, TEMP
from brokers.engine.queues.browsing import Seen
from brokers.engine.queues.leaving import send
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import NEVER, Header, number_of, rank_of
from brokers.model.message_operations import DELAYED


def take_out(queue: Queue, taken: Iterable[Seen]) -> None:
    """Take messages that no consumer has acquired out of the order of the queue; `move` or `drop` each of them
    afterwards, and then `settle` the queue. In order of their numbers."""
    lanes = queue.lanes
    available = []
    for seen in taken:
        if seen.state == DELAYED:
            lanes.delayed.take(seen.number)
        else:
            available.append(seen.number)
    for _, numbers in groupby(available, rank_of):
        ranked = list(numbers)
        lanes.lane_of(ranked[0]).pick_all(ranked)


def move(queue: Queue, seen: Seen, body: bytes, target: Queue, sent: bytes) -> None:
    """Put a message that was taken out into another queue. `body`: as it was; `sent`: as it goes there."""
    source, durable = queue.durable, target.durable
    header = arriving(queue, seen, sent)
    if source is None and durable is not None and header.durable:
        queue.storage.loaded(seen.number, seen.place)
        send(queue, (seen.number, body), durable, sent, header=header, answered=partial(_answered, queue, seen, body))
        return
    if source is None or durable is None or not source.stored or not source.is_durable(body):
        drop(queue, seen, body)
        _put(target, header, sent)
        return
    queue.lanes.discount(seen.number, seen.size)
    source.move((seen.number, body), durable, sent, header)


def copy(queue: Queue, seen: Seen, target: Queue, sent: bytes) -> None:
    """Put a copy of a message into another queue."""
    _put(target, arriving(queue, seen, sent), sent)


def _put(queue: Queue, header: Header, body: bytes) -> None:
    if queue.storage.spooling:
        queue.lanes.lane_of(number_of(0, header.priority)).deep = True  # so that its body goes to the temp store
    queue.storage.place(header, body, None, None)


def _answered(queue: Queue, seen: Seen, body: bytes, stored: bool) -> None:
    """Put a message that the target's store has refused at its former place."""
    if stored:
        return
    number, lanes = seen.number, queue.lanes
    if seen.expires != NEVER:
        lanes.expires(number, seen.expires)
    if seen.state == DELAYED and seen.due != NEVER:
        lanes.delayed.add(seen.due, (number, seen.size, HERE, body, seen.expires), of_day=True)
        lanes.agenda.delay(queue, seen.due)
    else:
        queue.restore((number, body))


def drop(queue: Queue, seen: Seen, body: bytes | None) -> None:
    """Remove a message that was taken out. `body`: None: it is missing from a damaged store."""
    if seen.place in (STORE, TEMP) or body is None:
        queue.lanes.forget_entry(seen.entry)
    else:
        queue.lanes.forget((seen.number, body))


def settle(queue: Queue) -> None:
    """Compare the depth with the levels after messages have left."""
    for lane in queue.lanes.lanes:
        lane.deep = lane.deep and len(lane.backlog) > 0
    queue.gate.measure()
    queue.touch()


def arriving(queue: Queue, seen: Seen, sent: bytes) -> Header:
    """Return the header with which a message arrives in another queue: with the rest of its time to live, and its
    delivery time if that has not come. Neither if `sent` has none any more."""
    turn = queue.turn
    header = turn.header(sent)
    left = 0 if not header.ttl or seen.expires == NEVER else max(1, seen.expires - turn.now)
    due = 0
    if seen.state == DELAYED and header.due:
        due = header.due if seen.due == NEVER else seen.due + turn.ahead
    return header._replace(ttl=left, due=due, delay=0)
