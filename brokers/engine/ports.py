"""What the engine asks of others: of the protocol layer's links and connections, and of the stores of messages.

The engine leaves effects that carry these ports; its driver carries the effects out (`flow/turn.py`). A change of a
store is buffered and has a ticket: it is safe once the broker has heard so of its ticket (`Broker.committed`); tickets
of one store ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from brokers.engine.values.message import Message
from brokers.engine.values.outcomes import Outcome
from brokers.model import ObjectName

# -- links and connections -------------------------------------------------------------------------------------


class LinkPort(Protocol):
    """The protocol layer's end of a link."""

    def end(self, condition: str, description: str) -> None:
        """End the link. `condition` is an AMQP error condition."""
        ...


class ProducerPort(LinkPort, Protocol):
    """The protocol layer's end of a producer's link."""

    def sync_credit(self) -> None:
        """The producer's credit is another than its client knows."""
        ...

    def drain(self) -> None:
        """Ask the client to use or give back its credit at once."""
        ...

    def settle(self, count: int, outcome: Outcome) -> None:
        """The oldest `count` of the producer's unsettled deliveries have their outcome."""
        ...


class ConsumerPort(LinkPort, Protocol):
    """The protocol layer's end of a consumer's link."""

    def send(self, messages: list[Message]) -> None:
        """Deliver these messages."""
        ...

    def confirm(self, count: int) -> None:
        """The oldest `count` settlements that the consumer waits to have confirmed are safe."""
        ...

    def settle_discharged(self, acknowledgement: Any) -> None:
        """The transaction of an acknowledgement that the client has not settled is over."""
        ...


class ConnectionPort(Protocol):
    """The protocol layer's end of a connection."""

    def end(self, condition: str, description: str) -> None:
        """End the connection. `condition` is an AMQP error condition."""
        ...


class TransactionPort(Protocol):
    """The protocol layer's link that declared a transaction."""

    def discharged(self, transaction: Any) -> None:
        """The transaction is over. Acknowledgements in it that were not settled are settled now, or their consumers'
        again."""
        ...


class LinkConnection(Protocol):
    """The connection of a link, as its producer or consumer knows it."""

    @property
    def virtualhost(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def name(self) -> ObjectName: ...

    @property
    def client(self) -> str:
        """For people: who, from which container, from where."""
        ...

    def forget(self, link: Any) -> None:
        """The link has ended."""
        ...


class ProducerConnection(LinkConnection, Protocol):
    """`blocked`: the connection's blocked producers, by channel."""

    blocked: dict[int, dict[Any, None]]

    @property
    def subject(self) -> str:
        """What the broker log calls the connection."""
        ...


class ConsumerConnection(LinkConnection, Protocol):
    """`writable`: False while the peer does not read; nothing is dispatched to it."""

    @property
    def writable(self) -> bool: ...


# -- stores ----------------------------------------------------------------------------------------------------

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
