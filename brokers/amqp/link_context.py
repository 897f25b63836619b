"""What a link asks of the connection that it is on, and all that it knows of it.

Links stand below the connection: they call it through this Protocol, and the connection calls them by the methods of
`link.Link`. So a link can be tested with any object that has these attributes, and neither file needs the other.
"""

from __future__ import annotations

from typing import Protocol

from brokers.engine.broker import Broker
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection


class Replies(Protocol):
    """Where answers to a client's requests go."""

    def push(self, message: bytes) -> None: ...


class Drainable(Protocol):
    """A consumer's link whose client has asked for a drain."""

    consumer: Consumer

    def finish_drain(self) -> None:
        """All that could be sent has been: give back the rest of the credit."""


class LinkContext(Protocol):
    """`engine`: what the engine knows the connection as; None before it is open and after it is lost. `user`: who
    signed in, None for an anonymous client. `writable`: the peer reads. `transacted`: the connection has, or had, a
    link to the transaction coordinator. `replies`: address that the client chose or was given -> where answers go."""

    broker: Broker
    engine: Connection | None
    user: str | None
    writable: bool
    transacted: bool
    replies: dict[str, Replies]

    def dirty(self) -> None:
        """There may be something to write at the end of the turn."""

    def frame(self) -> None:
        """Make frames of all that there is to say so far: otherwise Proton puts transfers first."""

    def prefer(self) -> None:
        """Serve this connection before those that only carry messages."""

    def begin_transactions(self) -> None:
        """Look at the state of each message from now on, on all links."""

    def expect_answer(self) -> None:
        """A request has come in this turn: its answer must not be sent unless what it changed is safe."""

    def drain_later(self, link: Drainable) -> None:
        """Finish the link's drain at the end of the turn."""

    def forget_drain(self, link: Drainable) -> None:
        """The link has ended. Idempotent."""
