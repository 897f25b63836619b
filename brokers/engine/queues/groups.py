"""Message groups: of the consumers that ask for them, one gets all messages of a group, in order, until it goes.

A group is given to the first consumer that comes upon it, and is free again when that consumer has gone; the others
then look again at what they had passed over. Groups are kept by a hash of their names, so memory is bounded however
many there are: groups of one hash go together. A message without a group is for anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from brokers.engine.queues.consumer import Consumer

BUCKETS = 1024


class Groups:
    """Those of one queue."""

    def __init__(self) -> None:
        self._owners: dict[int, Consumer] = {}

    def wants(self, consumer: Consumer, group: str) -> bool:
        """Whether the consumer may have a message of this group; a group that is free is its own from now on."""
        return not group or self._owners.setdefault(crc32(group.encode()) % BUCKETS, consumer) is consumer

    def release(self, consumer: Consumer) -> bool:
        """The consumer has gone. False: it had no group."""
        before = len(self._owners)
        self._owners = {bucket: owner for bucket, owner in self._owners.items() if owner is not consumer}
        return len(self._owners) < before
