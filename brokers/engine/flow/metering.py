"""What queues and links use of each limited resource, and what outstanding credit may add.

A `Meter` counts the usage of one virtual host, for the limits of the broker and of the host's own store. A `Footprint`
is the usage of one queue or fan-out: it is measured once a turn, in constant time. Messages that arrive in the turn
came on credit, and credit is granted by bytes: each producer may have one message outstanding, and more only while
everything outstanding, at the largest recent message size, fits into the rest of every limit that its messages use. So
a limit is exceeded by one message per producer at most, and a producer that does not use its credit leaves one message
to each of the others.

The owner of a store measures its size on disk from time to time; the meter adds what was written since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.values.limits import UNLIMITED


class Meter:
    """`memory`, `store`, `temp`: the broker's usages; `quota`: that of the virtual host's store. `exceeded` is called
    at once with a usage that exceeds its limit."""

    __slots__ = ("exceeded", "memory", "quota", "store", "temp")

    def __init__(
        self,
        usages: Mapping[Resource, Usage] | None = None,
        quota: Usage | None = None,
        exceeded: Callable[[Usage], None] = lambda usage: None,
    ) -> None:
        of = usages or {resource: Usage(resource) for resource in Resource}
        self.memory, self.store, self.temp = of[Resource.MEMORY], of[Resource.STORE], of[Resource.TEMP]
        self.quota = quota or Usage(Resource.STORE)
        self.exceeded = exceeded

    def count_memory(self, used: int, waiting: int) -> None:
        """Add bytes to the usage of memory. `waiting`: the part of them that is parked or waits in fan-outs."""
        memory = self.memory
        memory.used += used
        memory.waiting += waiting
        if memory.exceeded:
            self.exceeded(memory)

    def count_store(self, store: Store) -> None:
        """Count what the store of the virtual host uses now."""
        used = store.used_bytes + store.pending_bytes
        if used != self.quota.used:
            self.store.used += used - self.quota.used
            self.quota.used = used
        for usage in (self.quota, self.store):
            if usage.exceeded:
                self.exceeded(usage)

    def count_temp(self, store: Store) -> None:
        """Count what the temp store uses now."""
        self.temp.used = store.used_bytes + store.pending_bytes
        if self.temp.exceeded:
            self.exceeded(self.temp)


class Footprint:
    """See the module. `usages`: those that its messages may affect; `transient`: those that messages affect which are
    not stored. `size`: the assumed size of a message, in bytes. `pledged`: bytes that outstanding credit may add."""

    __slots__ = ("_cleared", "memory", "meter", "pledged", "size", "transient", "usages", "waiting")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.usages: tuple[Usage, ...] = (meter.memory,)
        self.transient: tuple[Usage, ...] = self.usages
        self.memory = 0
        self.waiting = 0
        self.pledged = 0
        self.size = 0
        self._cleared = False

    def use(self, meter: Meter, transient: tuple[Usage, ...], stored: tuple[Usage, ...]) -> None:
        """Count by this meter, which has counted nothing yet or is the present one."""
        pledged = self.pledged
        self.pledge(0, self.size)
        self.meter, self.transient, self.usages = meter, transient, transient + stored
        self.pledge(pledged, 1)

    def weigh(self, queued: int, waiting: int) -> None:
        """Set the bytes in memory: `queued` in the queue, `waiting` outside it."""
        used = queued + waiting
        if used != self.memory or waiting != self.waiting:
            if self._cleared:
                return
            more, longer = used - self.memory, waiting - self.waiting
            self.memory, self.waiting = used, waiting
            self.meter.count_memory(more, longer)

    def pledge(self, messages: int, size: int) -> None:
        """Set what may still arrive on credit: `messages` of `size` bytes each."""
        self.size = size
        pledged = messages * size
        if pledged != self.pledged and not self._cleared:
            for usage in self.usages:
                usage.pledged += pledged - self.pledged
            self.pledged = pledged

    def left(self, usages: tuple[Usage, ...] | None = None) -> int:
        """Return the bytes left of the tightest limit, neither used nor pledged; UNLIMITED without a limit."""
        left = UNLIMITED
        for usage in self.usages if usages is None else usages:
            if usage.levels.overfull:
                left = min(left, usage.levels.overfull - usage.used - usage.pledged)
        return left

    def clear(self) -> None:
        """Stop counting: the queue or fan-out is deleted."""
        self.weigh(0, 0)
        self.pledge(0, 0)
        self._cleared = True
