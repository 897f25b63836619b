"""What every link of a client has: its context, its end, and what Proton reports on it.

A link is the protocol's end of an engine object and does three things: turn what Proton reports into calls of the
engine, turn what the engine decides into calls of Proton, and let go of both at the end.
"""

from __future__ import annotations

from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.link_context import LinkContext

#: Error conditions of several kinds of links.
UNKNOWN_TRANSACTION = "amqp:transaction:unknown-id"
TRANSFER_LIMIT = "amqp:link:transfer-limit-exceeded"
RESOURCE_LIMIT = "amqp:resource-limit-exceeded"


class Link:
    """What every link has. `closing`: our end is closed, and what still arrives is thrown away. `orderly`: it did
    not break off: the client ended it, or the broker ends."""

    __slots__ = ("closing", "context", "orderly", "pointer")

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        self.context = context
        self.pointer = pointer
        self.closing = False
        self.orderly = False

    def on_delivery(self, delivery: Any) -> None:
        raise NotImplementedError

    def on_flow(self) -> None:
        raise NotImplementedError

    def on_writable(self) -> None:
        """The peer reads again."""

    def watch_transactions(self) -> None:
        """The connection has transactions from now on."""

    def let_go(self) -> None:
        """The link has ended, from whichever side. Called once."""

    def peer_closed(self) -> None:
        """The peer has closed the link for good, and it was let go. Not called when it detached, or was cut off."""

    def end(self, condition: str, description: str, info: dict[Any, Any] | None = None) -> None:
        """Close our end, with an error."""
        if not self.closing:
            self.closing = True
            self.let_go()
            pn.set_condition(pn.link_condition(self.pointer), condition, description, info)
            pn.link_close(self.pointer)
            self.context.dirty()
