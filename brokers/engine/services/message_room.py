"""Whether a queue takes messages that an operator moves or copies to it now: never above its stop level, and not while
its producers are stopped. What it does not take stays where it is.

It is stricter than for a producer, whose message would be parked, rejected, spooled or make a ring queue drop its
oldest one.
"""

from __future__ import annotations

from brokers.engine.flow.gate import level
from brokers.engine.queues.queue import Queue
from brokers.engine.queues.storage import UnsafeRun
from brokers.engine.values.amounts import counted

#: Messages that the store has not written yet, and their bytes, above which a queue takes no more: calls are faster
#: than a disk, and what is not written is in memory.
MOST_UNWRITTEN, MOST_UNWRITTEN_BYTES = 20_000, 64 << 20


class Room:
    """What one call has put into a queue so far, or is going to put into it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._messages = 0
        self._bytes = 0
        unsafe = queue.storage.unsafe
        self._unwritten = sum(each.count for each in unsafe)
        self._unwritten_bytes = sum(each.size if isinstance(each, UnsafeRun) else len(each.body) for each in unsafe)

    def closed(self) -> str:
        """Return the sentence why it takes no messages at all now; "": it takes some."""
        queue, gate = self.queue, self.queue.gate
        if gate.state.stopped:
            scopes = ", ".join(str(scope) for scope in gate.stops)
            return f"the producers of queue {queue.name} are stopped ({scopes}), so it takes no messages"
        if gate.state.overfull:
            depth = f"{counted(gate.depth_messages, 'message')}, {counted(gate.depth_bytes, 'byte')}"
            return f"queue {queue.name} is overfull: {depth}; it takes messages again when it has resumed"
        if gate.parked or gate.awaiting:
            return f"messages of producers wait to enter queue {queue.name}, and go first"
        if gate.staged:
            return f"the producers of queue {queue.name} are being started in stages: it takes messages after that"
        return ""

    def refusal(self, size: int) -> str:
        """Return the sentence why it does not take a message of `size` bytes now; "": it does."""
        gate = self.queue.gate
        messages, total = gate.depth_messages + self._messages + 1, gate.depth_bytes + self._bytes + size
        if messages <= gate.stop_messages and total <= gate.stop_bytes:
            return self.closed() or self._unwritten_too_much()
        return self.closed() or (
            f"queue {self.queue.name} has no room: the next message would take it above its stop level of"
            f" {_levels(level(gate.stop_messages), level(gate.stop_bytes))}"
        )

    def _unwritten_too_much(self) -> str:
        unwritten = self._unwritten + self._messages
        if not self._unwritten or (
            unwritten < MOST_UNWRITTEN and self._unwritten_bytes + self._bytes < MOST_UNWRITTEN_BYTES
        ):
            return ""
        left = counted(unwritten, "message")
        return f"the store is still writing {left} of queue {self.queue.name}: it takes more after that"

    def never_fits(self, size: int) -> bool:
        """Return whether a message is larger than the stop level of the queue, so that even the empty one has no
        room."""
        return size > self.queue.gate.stop_bytes

    def shortage(self, body: bytes, *, added: bool) -> str:
        """Return the sentence why it takes no further message; "": it does. `added`: the message takes memory or disk
        space that it did not take before."""
        gate = self.queue.gate
        short = [usage.reason for usage in gate.shortages] if added else []
        if short and not gate.admits(self.queue.resource_of(body)):
            return f"queue {self.queue.name} takes no new messages: {', '.join(short)}"
        durable = self.queue.durable
        if durable is not None and durable.store.full and durable.is_durable(body):
            return f"the store of virtual host {self.queue.virtualhost} is full"
        return ""

    def put(self, size: int) -> None:
        """Count a message that will be put into the queue."""
        self._messages += 1
        self._bytes += size


def _levels(messages: int, size: int) -> str:
    found = ([counted(messages, "message")] if messages else []) + ([counted(size, "byte")] if size else [])
    return " or ".join(found)
