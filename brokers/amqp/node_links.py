"""Links of nodes that are not queues (`$management`, `$events`, `$samples`), and the interface of a node.

A node gets links and answers with encoded messages; it does not depend on Proton. Messages to a client are sent
settled, within the client's credit; the rest waits in the link. Only users who signed in can attach these links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from brokers.amqp import proton as pn
from brokers.amqp.incoming_link import IncomingLink
from brokers.amqp.link import TRANSFER_LIMIT, Link
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import ACCEPTED, REJECTED, delivery_settle, delivery_update, link_credit, link_flow

#: Requests that a client may send to a node before they are answered.
REQUEST_CREDIT = 64
#: The largest request, in bytes.
MAX_REQUEST_SIZE = 1 << 20
#: Maximum number of answers that wait for the client's credit.
MAX_WAITING = 1000


class Node(Protocol):
    """The interface of a node. Raise Refused to end the link with an error."""

    def open_source(self, link: NodeSource, filters: Any) -> None:
        """Open a link on which a client receives from the node; `filters`: the source's filter set, as Python
        objects."""
        ...

    def open_target(self, link: NodeTarget) -> None:
        """Open a link on which a client sends to the node."""
        ...


class NodeSource(Link):
    """A link on which a node sends. `address`: the address of replies for it. `on_credit` is called when the client has
    given credit, the functions in `on_end` when the link ends."""

    __slots__ = ("address", "on_credit", "on_end", "tag", "waiting")

    def __init__(self, context: LinkContext, pointer: Any, address: str) -> None:
        super().__init__(context, pointer)
        self.address = address
        self.waiting: deque[bytes] = deque()
        self.on_credit: Callable[[], None] | None = None
        self.on_end: list[Callable[[], object]] = []
        self.tag = 0

    @property
    def credit(self) -> int:
        """The number of messages that can be sent at once."""
        if self.closing or not self.context.writable:
            return 0
        return max(0, int(link_credit(self.pointer)) - len(self.waiting))

    def push(self, message: bytes) -> None:
        if len(self.waiting) >= MAX_WAITING:
            self.end("amqp:resource-limit-exceeded", f"{MAX_WAITING:,} messages wait for credit on this link")
        elif not self.closing:
            self.waiting.append(message)
            self.pump()

    def pump(self) -> None:
        if self.closing:
            return
        pointer, waiting = self.pointer, self.waiting
        while waiting and link_credit(pointer) > 0:
            body = waiting.popleft()
            self.tag += 1
            tag = pn.new("char[]", self.tag.to_bytes(8, "big"))
            value = pn.new("pn_delivery_tag_t*")
            value.size, value.start = 8, tag
            delivery = pn.delivery(pointer, value[0])
            pn.link_send(pointer, body, len(body))
            pn.link_advance(pointer)
            delivery_settle(delivery)
            self.context.dirty()

    def on_delivery(self, delivery: Any) -> None:
        delivery_settle(delivery)

    def on_flow(self) -> None:
        self.pump()
        if self.on_credit is not None and not self.closing:
            self.on_credit()
        if not self.closing and pn.link_get_drain(self.pointer) and not self.waiting:
            pn.link_drained(self.pointer)
            self.context.dirty()

    def on_writable(self) -> None:
        self.on_flow()

    def release(self) -> None:
        self.waiting.clear()
        for call in self.on_end:
            call()


class NodeTarget(IncomingLink):
    """A link on which a node receives messages. `on_message` is called with each message, and returns why it is
    rejected; "" accepts it."""

    __slots__ = ("on_message",)

    max_size = MAX_REQUEST_SIZE

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        super().__init__(context, pointer)
        self.on_message: Callable[[bytes], str] | None = None

    def on_delivery(self, delivery: Any) -> None:
        if self.closing or pn.delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            if not self.closing:
                self.top_up()
            return
        if not pn.delivery_readable(delivery):
            if pn.delivery_settled(delivery):
                delivery_settle(delivery)
            return
        body = self.receive(delivery)
        if body is None:
            return
        if link_credit(self.pointer) <= 0:
            self.refuse(delivery, TRANSFER_LIMIT, "the request was not accepted: the link had no credit")
            return
        self.context.expect_answer()
        fault = self.on_message(body) if self.on_message else "the link has no receiver"
        if fault:
            pn.delivery_error(delivery, "amqp:decode-error", fault)
        delivery_update(delivery, REJECTED if fault else ACCEPTED)
        delivery_settle(delivery)
        self.top_up()

    def top_up(self) -> None:
        credit = link_credit(self.pointer)
        if credit <= REQUEST_CREDIT // 2:
            link_flow(self.pointer, REQUEST_CREDIT - credit)
            self.context.dirty()

    def release(self) -> None:
        super().release()
        self.on_message = None
