"""The interface of a link to its connection.

Links are below the connection: they call it through this Protocol, and the connection calls them through the methods of
`link.Link`. So a link can be tested with any object that has these attributes, and neither file imports the other.
"""

from __future__ import annotations

from typing import Protocol

from brokers.amqp.runs import Runs
from brokers.engine.broker import Broker
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection


class Replies(Protocol):
    """The destination of answers to a client's requests."""

    def push(self, message: bytes) -> None: ...


class Drainable(Protocol):
    """A consumer's link whose client has requested a drain."""

    consumer: Consumer

    def finish_drain(self) -> None:
        """Return the rest of the credit, since all available messages were sent."""


class LinkContext(Protocol):
    """`engine`: the engine's connection; None before it is open and after it is lost. `user`: the user that
    signed in, None for an anonymous client. `writable`: the peer reads. `transacted`: the connection has, or had, a
    link to the transaction coordinator. `runs`: the extension that collects runs of deliveries; None: there is none.
    `replies`: address that the client or the broker chose -> destination of answers."""

    broker: Broker
    engine: Connection | None
    user: str | None
    writable: bool
    transacted: bool
    runs: Runs | None
    replies: dict[str, Replies]

    def dirty(self) -> None:
        """Write pending output at the end of the turn."""

    def frame(self) -> None:
        """Encode all pending output now: otherwise Proton puts transfers first."""

    def prefer(self) -> None:
        """Serve this connection before those that only carry messages."""

    def begin_transactions(self) -> None:
        """Read the state of each message from now on, on all links."""

    def expect_answer(self) -> None:
        """Delay the connection's output of this turn until the changes of its request are on disk."""

    def drain_later(self, link: Drainable) -> None:
        """Finish the link's drain at the end of the turn."""

    def forget_drain(self, link: Drainable) -> None:
        """Cancel the drain of a link that has ended. Idempotent."""
