"""What a transaction has published: single messages, and runs of them (`queues/runs.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from brokers.engine.queues.queue import Queue


class Published(NamedTuple):
    """Messages to one queue, in their order; they count in its depth until the commit or rollback. `size`: of all
    bodies, in bytes. `run`: whether they are a run, which is durable or not as a whole (`durable`); else it is a single
    message of any kind."""

    queue: Queue
    bodies: Sequence[bytes]
    size: int
    run: bool = False
    durable: bool = False

    @property
    def needs_store(self) -> bool:
        """Whether it becomes visible only once its queue's store has it."""
        if self.run:
            return self.durable and self.queue.durable is not None
        return self.queue.is_durable(self.bodies[0])

    def commit(self) -> None:
        """Enqueue the messages of a committed transaction that need no store."""
        if self.run:
            self.queue.commit_run(self.bodies, self.size)
        else:
            self.queue.commit(self.bodies[0])

    def commit_stored(self, ticket: int, transaction: int) -> bool:
        """Store them, see `Queue.commit_stored`."""
        if self.run:
            return self.queue.commit_run_stored(self.bodies, self.size, ticket, transaction, durable=self.durable)
        return self.queue.commit_stored(self.bodies[0], ticket, transaction)
