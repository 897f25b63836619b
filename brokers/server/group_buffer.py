"""The buffers of a message store: what the engine's loop changes until the group is written.

Buffering costs almost nothing; the driver takes the group after the previous one was written (`commit.py`). Changes
between `begin` and `end` are a client's transaction, which lies within one group.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from brokers.engine.ports import Place
from brokers.server.message_groups import MESSAGE_BYTES, Group, Whole


class GroupBuffer:
    """`group_bytes`: size with which a group is complete. `names`: the names of the queues; those of the file to begin
    with."""

    def __init__(self, group_bytes: int, names: dict[int, str]) -> None:
        self.names = names
        self._group_bytes = group_bytes
        self._waiting: list[Group] = [Group(1)]
        self._put_bytes = 0  # total of `disk_bytes`; only the loop writes it
        self._whole: Whole | None = None  # the open transaction

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        """Buffer a message; its queue and number must be unique. `expires`: ms, 0 for never.
        Returns the ticket of its group."""
        whole = self._whole
        group = self._open_group() if whole is None else self._waiting[-1]
        messages = group if whole is None else whole
        if expires:
            messages.rows.extend((queue, number, body, expires))
        else:
            messages.put(queue, number, body)
        size = len(body)
        group.bytes += size
        disk_bytes = size + MESSAGE_BYTES
        group.disk_bytes += disk_bytes
        self._put_bytes += disk_bytes
        return group.ticket

    def put_run(self, queue: int, first: int, bodies: Sequence[bytes], size: int) -> int:
        """Buffer one or more messages with successive unique numbers from `first`, none of which expires: all are
        written, or all are refused. `size`: of all bodies, in bytes. Returns the ticket of their group."""
        whole = self._whole
        group = self._open_group() if whole is None else self._waiting[-1]
        (group if whole is None else whole).put_run(queue, first, bodies)
        group.bytes += size
        disk_bytes = size + MESSAGE_BYTES * len(bodies)
        group.disk_bytes += disk_bytes
        self._put_bytes += disk_bytes
        return group.ticket

    def _open_group(self) -> Group:
        """The group that is being buffered."""
        group = self._waiting[-1]
        if group.bytes >= self._group_bytes:
            group = Group(group.ticket + 1)
            self._waiting.append(group)
        return group

    def remove(self, queue: int, number: int) -> int:
        """Buffer the removal of a message, written or not. Returns the ticket."""
        group = self._waiting[-1]
        removed = (self._whole or group).changes.removed
        numbers = removed.get(queue)
        if numbers is None:
            removed[queue] = {number}
        else:
            numbers.add(number)
        return group.ticket

    def remove_run(self, queue: int, numbers: Collection[int]) -> int:
        """Buffer the removal of one or more messages, outside transactions. Returns the ticket."""
        group = self._waiting[-1]
        group.changes.removed.setdefault(queue, set()).update(numbers)
        return group.ticket

    def purge(self, queue: int, numbers: array[int]) -> int:
        """Buffer the removal of any number of messages, in order, some of which may not be there, outside transactions.
        The array does not change afterwards. Returns the ticket."""
        group = self._waiting[-1]
        group.changes.purged.append((queue, numbers))
        return group.ticket

    def fail(self, queue: int, number: int, count: int) -> int:
        """Buffer the number of a message's failed deliveries. Returns the ticket."""
        group = self._waiting[-1]
        (self._whole or group).changes.failed[queue, number] = count
        return group.ticket

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        """Buffer the move of a written message to another queue, with another body: after a crash it is in exactly one
        of the two. Returns the ticket."""
        group = self._open_group()
        group.changes.moved[place] = (*to, body, expires)
        group.bytes += len(body)
        return group.ticket

    def drop_queue(self, queue: int) -> int:
        """Buffer the removal of all messages of a queue. Its number must not be used again. Returns the ticket."""
        group = self._waiting[-1]
        group.changes.dropped.append(queue)
        return group.ticket

    def name_queue(self, queue: int, name: str) -> None:
        """Buffer a queue's name, in case the configuration is lost. Written with its first messages."""
        if self.names.get(queue) != name:
            self.names[queue] = name
            self._waiting[-1].changes.named[queue] = name

    def begin(self, transaction: int) -> int:
        """Begin a transaction: everything buffered until `end` is written completely or not at all. `transaction`: a
        unique number. Returns the ticket of the group."""
        group = self._open_group()
        self._whole = Whole(transaction)
        group.wholes.append(self._whole)
        return group.ticket

    def end(self) -> None:
        self._whole = None

    @property
    def buffered(self) -> int:
        """The ticket of the newest group if there is anything in it, else 0."""
        newest = self._waiting[-1]
        return newest.ticket if newest else 0

    @property
    def pending(self) -> bool:
        """Whether a group is waiting to be taken."""
        return bool(self._waiting[0])

    def take(self) -> Group:
        """Take the oldest buffered group, possibly empty, which the caller writes."""
        group = self._waiting.pop(0)
        if not self._waiting:
            self._waiting.append(Group(group.ticket + 1))
        return group
