"""The Protocols that the engine requires: of the protocol layer's links and connections, and of message stores.

The engine leaves effects that carry these ports; its driver performs them (`flow/turn.py`). A change of a store is
buffered and has a ticket: it is safe once the store has confirmed the ticket (`Broker.committed`); tickets of one store
ascend.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypeVar

from brokers.engine.values.message import Message
from brokers.engine.values.outcomes import Outcome
from brokers.model import ObjectName

#: The type of transactions, which the engine's registry defines.
T_contra = TypeVar("T_contra", contravariant=True)

# -- links and connections -------------------------------------------------------------------------------------


class LinkPort(Protocol):
    """The protocol layer's end of a link."""

    def end(self, condition: str, description: str) -> None:
        """End the link. `condition` is an AMQP error condition."""
        ...


class ProducerPort(LinkPort, Protocol):
    """The protocol layer's end of a producer's link."""

    def sync_credit(self) -> None:
        """Send the client the producer's present credit."""
        ...

    def drain(self) -> None:
        """Request that the client uses or returns its credit at once."""
        ...

    def settle(self, count: int, outcome: Outcome) -> None:
        """Settle the oldest `count` unsettled deliveries of the producer with this outcome."""
        ...

    @property
    def client_link(self) -> LinkPort:
        """The end of the client's link: this one, or that of the fan-out to which the producer belongs."""
        ...


class DischargedAcknowledgement(Protocol):
    """An acknowledgement whose transaction has ended: see `registry.transaction.Acknowledgement`."""

    removes: bool
    rejected: bool
    returned: bool
    delivery: Any  # of the protocol layer

    @property
    def message(self) -> Message: ...


class ConsumerPort(LinkPort, Protocol):
    """The protocol layer's end of a consumer's link."""

    def send(self, messages: list[Message]) -> None:
        """Deliver these messages."""
        ...

    def confirm(self, count: int) -> None:
        """Confirm the oldest `count` settlements of the consumer."""
        ...

    def settle_discharged(self, acknowledgement: DischargedAcknowledgement) -> None:
        """Settle an acknowledgement whose transaction has ended, and that the client has not settled."""
        ...


class ConnectionPort(Protocol):
    """The protocol layer's end of a connection."""

    def end(self, condition: str, description: str) -> None:
        """End the connection. `condition` is an AMQP error condition."""
        ...


class TransactionPort(Protocol[T_contra]):
    """The protocol layer's link that declared a transaction."""

    def discharged(self, transaction: T_contra) -> None:
        """Report that the transaction has ended. Its unsettled acknowledgements are settled after a commit, and void
        after a rollback."""
        ...


class LinkConnection(Protocol):
    """The connection of a producer or consumer."""

    @property
    def virtualhost(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def name(self) -> ObjectName: ...

    @property
    def container_id(self) -> str: ...

    @property
    def client(self) -> str:
        """The user, container and address, for people."""
        ...

    def forget(self, link: Any) -> None:
        """Remove a link that has ended."""
        ...


class ProducerConnection(LinkConnection, Protocol):
    """`blocked`: the connection's blocked producers, by channel."""

    blocked: dict[int, dict[Any, None]]

    @property
    def subject(self) -> str:
        """The connection's name in the broker log."""
        ...


class ConsumerConnection(LinkConnection, Protocol):
    """`writable`: False while the peer does not read; nothing is dispatched to it."""

    @property
    def writable(self) -> bool: ...


# -- stores ----------------------------------------------------------------------------------------------------

#: (queue, number) of a message.
Place = tuple[int, int]


class Store(Protocol):
    """Queues and messages are identified by numbers. `used_bytes`: size on disk, as last measured. `pending_bytes`: the
    estimated size of messages put since then. `full`: it has refused messages because the disk is full, and there has
    not been enough room since."""

    @property
    def used_bytes(self) -> int: ...

    @property
    def pending_bytes(self) -> int: ...

    @property
    def full(self) -> bool: ...

    @property
    def buffered(self) -> int:
        """The ticket of the newest changes that are buffered; 0: none are."""
        ...

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        """Buffer a message. `expires`: ms, 0 for never. Return the ticket."""
        ...

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        """Buffer the move of a stored message to another queue, with another body. Never refused. Return the ticket."""
        ...

    def put_run(self, queue: int, first: int, bodies: Sequence[bytes], size: int) -> int:
        """Buffer one or more messages with successive numbers from `first`, which never expire: all of them are stored
        or all are refused. `size`: of all bodies, in bytes; the sequence does not change afterwards. Return the
        ticket."""
        ...

    def remove(self, queue: int, number: int) -> int: ...

    def remove_run(self, queue: int, numbers: Collection[int]) -> int:
        """Buffer the removal of one or more messages. Never between `begin` and `end`. Return the ticket."""
        ...

    def purge(self, queue: int, numbers: array[int]) -> int:
        """Buffer the removal of any number of messages, in order, some of which may not be there. The array does not
        change afterwards. Never between `begin` and `end`. Return the ticket."""
        ...

    def fail(self, queue: int, number: int, count: int) -> int: ...

    def drop_queue(self, queue: int) -> int: ...

    def name_queue(self, queue: int, name: str) -> None:
        """Record the queue's name, for a recovery without the configuration."""
        ...

    def begin(self, transaction: int) -> int:
        """Begin a group: the changes buffered until `end` are written all or none. Return the ticket."""
        ...

    def end(self) -> None: ...

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:
        """Return bodies by number; None if the store cannot be read now."""
        ...


class Stores(Protocol):
    """The store of each virtual host, by its name."""

    def open(self, virtualhost: str) -> Store:
        """Return the store of a virtual host, created if necessary. Raises `brokers.admin.AdminError` if it cannot be
        used."""
        ...

    def open_temp(self) -> Store:
        """Return the broker's temp store, which is emptied when it is first opened. Raises AdminError."""
        ...

    def drop(self, virtualhost: str) -> None:
        """Delete the store of a deleted virtual host."""
        ...
