"""What the queues of a broker share: the turn, and the sets of queues with pending work.

A queue adds itself to a set; the engine's driver, or the broker at an interval, does the work and removes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from brokers.engine.flow.turn import Turn
from brokers.engine.values.message import NEVER, Message

Q = TypeVar("Q")


class Agenda(Generic[Q]):
    """Sets of queues. `touched`: with messages to dispatch or credit to grant at the end of the turn. `redispatch`:
    with more messages to dispatch, in a turn of their own. `changed`: since the last sample. `watched`: with credit to
    take back at an interval. `expiring`: with messages that expire. `delayed`: with messages whose delivery time has
    not come. `release_at`: when the first of these times may come, ms; NEVER: not at all. `marked_at`: when the arrival
    times of messages were last marked (`arrivals.py`), ms. `unsafe`: with messages that
    the store has not confirmed; `spooling`: with bodies that the temp store has not confirmed. `freeing`: what is to be
    freed, a portion in each step, see `purging.py`."""

    __slots__ = (
        "changed",
        "dead_letter",
        "delayed",
        "expiring",
        "freeing",
        "marked_at",
        "redispatch",
        "release_at",
        "spooling",
        "touched",
        "turn",
        "unsafe",
        "watched",
    )

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.touched: set[Q] = set()
        self.redispatch: set[Q] = set()
        self.changed: set[Q] = set()
        self.watched: set[Q] = set()
        self.expiring: set[Q] = set()
        self.delayed: set[Q] = set()
        self.release_at = NEVER
        self.marked_at = turn.now
        self.unsafe: set[Q] = set()
        self.spooling: set[Q] = set()
        self.freeing: deque[Iterator[None]] = deque()
        #: (queue, consumer, message, reason, the consumer's error) -> the result of dead-lettering a message: as
        #: `Queue.remove` returns it; None: the message must stay in the queue.
        self.dead_letter: Callable[[Q, Any, Message, str, str], int | None] = (
            lambda queue, consumer, message, reason, words: None
        )

    def delay(self, queue: Q, until: int) -> None:
        """Note that a queue has a message whose delivery time may come at `until`, ms."""
        self.delayed.add(queue)
        self.release_at = min(self.release_at, until)

    def free_some(self) -> bool:
        """Free a portion of what has to be freed. Return whether there is more."""
        freeing = self.freeing
        if freeing and next(freeing[0], self) is self:
            freeing.popleft()
        return bool(freeing)

    def forget(self, queue: Q) -> None:
        """Remove a deleted queue from all sets."""
        for queues in (
            self.touched,
            self.redispatch,
            self.changed,
            self.watched,
            self.expiring,
            self.delayed,
            self.unsafe,
            self.spooling,
        ):
            queues.discard(queue)
