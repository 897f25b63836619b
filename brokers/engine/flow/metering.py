"""What queues and links use of each limited resource, counted as it happens, and what credit pledges of it.

A `Meter` counts for one virtual host into the usages of the broker and of its own store. A `Footprint` is what one
queue, or one link to several, takes up of them: it is weighed once a turn, in constant time, however many messages came
in the turn. Those came on credit, and credit is given for bytes: each producer may have one message outstanding, and
more only while all that is outstanding, at the largest size seen lately, fits into what is left of every limit that its
messages may use. So the overshoot of a limit is one message a producer at most, and a producer that does not use its
credit leaves the others one message each.

What a store takes on disk is measured by its owner, every so often; what was put into it since then is added to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.values.limits import UNLIMITED


class Meter:
    """`memory`, `store`, `temp`: the broker's usages; `quota`: that of the virtual host's store. `exceeded` is called
    with a usage that has come above its limit, at once."""

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
        """So many bytes more are in memory, and so many more of them wait outside queues."""
        memory = self.memory
        memory.used += used
        memory.waiting += waiting
        if memory.exceeded:
            self.exceeded(memory)

    def count_store(self, store: Store) -> None:
        """The store of the virtual host may have changed."""
        used = store.used_bytes + store.pending_bytes
        if used != self.quota.used:
            self.store.used += used - self.quota.used
            self.quota.used = used
        for usage in (self.quota, self.store):
            if usage.exceeded:
                self.exceeded(usage)

    def count_temp(self, store: Store) -> None:
        """The temp store may have changed."""
        self.temp.used = store.used_bytes + store.pending_bytes
        if self.temp.exceeded:
            self.exceeded(self.temp)


class Footprint:
    """See the module. `usages`: of all that its messages may use;
    `transient`: of what those may use that are not stored. `size`: the bytes that a message is reckoned with."""

    __slots__ = ("_gone", "memory", "meter", "pledged", "size", "transient", "usages", "waiting")

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.usages: tuple[Usage, ...] = (meter.memory,)
        self.transient: tuple[Usage, ...] = self.usages
        self.memory = 0
        self.waiting = 0
        self.pledged = 0
        self.size = 0
        self._gone = False

    def use(self, meter: Meter, transient: tuple[Usage, ...], stored: tuple[Usage, ...]) -> None:
        """Count there from now on, with a meter that nothing has been counted by, or with the same one."""
        pledged = self.pledged
        self.pledge(0, self.size)
        self.meter, self.transient, self.usages = meter, transient, transient + stored
        self.pledge(pledged, 1)

    def weigh(self, queued: int, waiting: int) -> None:
        """So many bytes are in memory now, in the queue and outside it."""
        used = queued + waiting
        if used != self.memory or waiting != self.waiting:
            if self._gone:
                return
            more, longer = used - self.memory, waiting - self.waiting
            self.memory, self.waiting = used, waiting
            self.meter.count_memory(more, longer)

    def pledge(self, messages: int, size: int) -> None:
        """So many messages may still come on credit, of so many bytes each."""
        self.size = size
        pledged = messages * size
        if pledged != self.pledged and not self._gone:
            for usage in self.usages:
                usage.pledged += pledged - self.pledged
            self.pledged = pledged

    def left(self, usages: tuple[Usage, ...] | None = None) -> int:
        """Bytes that are not used, and not pledged, of the limit that has the fewest; UNLIMITED if there is none."""
        left = UNLIMITED
        for usage in self.usages if usages is None else usages:
            if usage.levels.overfull:
                left = min(left, usage.levels.overfull - usage.used - usage.pledged)
        return left

    def clear(self) -> None:
        """Its queue or link is gone."""
        self.weigh(0, 0)
        self.pledge(0, 0)
        self._gone = True
