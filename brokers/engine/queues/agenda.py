"""What the queues of a broker have in common: the turn, and the sets of queues that have something left to do.

A queue puts itself into a set, and the engine's driver, or the broker when time has passed, takes it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from brokers.engine.flow.turn import Turn
from brokers.engine.values.message import Message

Q = TypeVar("Q")


class Agenda(Generic[Q]):
    """`touched`: have something to dispatch or to grant at the end of the turn. `redispatch`: have more to dispatch, in
    a turn of its own. `changed`: since the last sample. `watched`: have credit to take back, and are swept by time.
    `expiring`: have messages that expire; `delayed`: have messages that are not due. `unsafe`: wait for their store;
    `spooling`: wait for the temp store."""

    __slots__ = (
        "changed",
        "dead_letter",
        "delayed",
        "expiring",
        "redispatch",
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
        self.unsafe: set[Q] = set()
        self.spooling: set[Q] = set()
        #: (queue, consumer, message, why, the consumer's words) -> what becomes of a message that consumers give up:
        #: as `Queue.remove` returns it; None: it must stay in the queue.
        self.dead_letter: Callable[[Q, Any, Message, str, str], int | None] = (
            lambda queue, consumer, message, reason, words: None
        )

    def forget(self, queue: Q) -> None:
        """The queue is gone."""
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
