"""The base of all links of clients: context, end, and Proton's events.

A link connects an engine object with the protocol: it translates Proton's events into calls of the engine, the engine's
effects into calls of Proton, and releases both at the end.
"""

from __future__ import annotations

from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.link_context import LinkContext
from brokers.engine.registry.transaction import State, Transaction

#: Error conditions of several kinds of links.
UNKNOWN_TRANSACTION = "amqp:transaction:unknown-id"
TRANSFER_LIMIT = "amqp:link:transfer-limit-exceeded"
RESOURCE_LIMIT = "amqp:resource-limit-exceeded"


class Link:
    """The base of all links. `closing`: the broker's end is closed, and further input is discarded. `orderly`: the
    client ended it, or the broker shuts down; it was not lost."""

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
        """Called when the peer reads again."""

    def open_transaction(self, identity: bytes) -> Transaction | None:
        """Return the connection's open transaction with this id, if there is one."""
        engine = self.context.engine
        found = None if engine is None else engine.transactions.get(identity)
        return found if found is not None and found.state is State.OPEN else None

    def watch_transactions(self) -> None:
        """Called when the connection begins to use transactions."""

    def release(self) -> None:
        """Release the engine's objects. Called once, when either side ended the link."""

    def peer_closed(self) -> None:
        """Called after `release` if the peer closed the link. Not called when it detached, or was disconnected."""

    def end(self, condition: str, description: str, info: dict[Any, Any] | None = None) -> None:
        """Close the broker's end with an error."""
        if not self.closing:
            self.closing = True
            self.release()
            pn.set_condition(pn.link_condition(self.pointer), condition, description, info)
            pn.link_close(self.pointer)
            self.context.dirty()
