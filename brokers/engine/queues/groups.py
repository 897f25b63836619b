"""Message groups: of the consumers that request groups, one gets all messages of a group, in order, until it detaches.

The first consumer that examines a message of a group owns the group. When it detaches, the group is free, and the other
consumers examine the messages that they skipped. Groups are stored by a hash of their names, so memory is bounded:
groups with the same hash have the same owner. A message without a group goes to any consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from brokers.engine.queues.consumer import Consumer

BUCKETS = 1024


class Groups:
    """The message groups of one queue."""

    def __init__(self) -> None:
        self._owners: dict[int, Consumer] = {}

    def wants(self, consumer: Consumer, group: str) -> bool:
        """Return whether the consumer owns this group; a free group becomes its own."""
        return not group or self._owners.setdefault(crc32(group.encode()) % BUCKETS, consumer) is consumer

    def release(self, consumer: Consumer) -> bool:
        """Free the groups of a consumer that detaches. Return False if it owned none."""
        before = len(self._owners)
        self._owners = {bucket: owner for bucket, owner in self._owners.items() if owner is not consumer}
        return len(self._owners) < before
