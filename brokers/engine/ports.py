"""What a durable queue asks of a message store, and a broker of its stores: buffered changes, each with a ticket.

A change is safe once the broker has been told so of its ticket (`Broker.committed`); tickets of one store ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: (queue, number) of a message.
Place = tuple[int, int]


class Store(Protocol):
    """Queues and messages are known by their numbers. `used_bytes`: what the store takes on disk, as last measured.
    `pending_bytes`: what the messages put since then will take, as far as that can be foretold. `full`: it has refused
    messages for want of room, and there has not been enough since."""

    @property
    def used_bytes(self) -> int: ...

    @property
    def pending_bytes(self) -> int: ...

    @property
    def full(self) -> bool: ...

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        """`expires`: ms, 0 for never."""
        ...

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        """A stored message becomes another queue's, with another body. It is a change: never refused."""
        ...

    def remove(self, queue: int, number: int) -> int: ...

    def fail(self, queue: int, number: int, count: int) -> int: ...

    def drop_queue(self, queue: int) -> int: ...

    def name_queue(self, queue: int, name: str) -> None:
        """What the queue is called, for when the configuration is lost."""
        ...

    def begin(self, transaction: int) -> int:
        """What is buffered from now until `end` is written whole or not at all, whatever else the store must refuse.
        Returns the ticket."""
        ...

    def end(self) -> None: ...

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:
        """Bodies by number; None if the store cannot be read now."""
        ...


class Stores(Protocol):
    """The store of each virtual host, by its name."""

    def open(self, virtualhost: str) -> Store:
        """Its store, created if need be. Raises `brokers.admin.AdminError` if it cannot be used."""
        ...

    def open_temp(self) -> Store:
        """The broker's temp store, empty when it is first opened; the same one again later. Raises AdminError."""
        ...

    def drop(self, virtualhost: str) -> None:
        """The virtual host is gone, and its messages with it."""
        ...
