"""A link of a client that publishes to an exchange, or to an address of its own in each message (no target address)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.incoming_link import NO_MEMORY, WHY_REJECTED, IncomingLink
from brokers.amqp.link import RESOURCE_LIMIT, TRANSFER_LIMIT
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import delivery_settle, link_credit, link_flow
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.transaction import Transaction
from brokers.engine.services.fan_out import FanOut, RoutedMessage
from brokers.engine.values.outcomes import Outcome

NOT_FOUND = "amqp:not-found"

#: A message -> the queues it goes to, or why it is refused. No queues: no subscriber matches, and it is accepted.
Route = Callable[[bytes], Sequence[Queue] | str]


class FanOutLink(IncomingLink):
    """See the module."""

    __slots__ = ("fan_out", "route")

    fan_out: FanOut

    def __init__(self, context: LinkContext, pointer: Any, route: Route) -> None:
        super().__init__(context, pointer)
        self.route = route

    def open(self) -> None:
        """Give the client its first credit, after the link was opened."""
        link_flow(self.pointer, self.fan_out.credit)
        self.context.dirty()

    def on_delivery(self, delivery: Any) -> None:
        if self.closing:
            delivery_settle(delivery)
            return
        if pn.delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            self.fan_out.credit -= 1
            self._top_up()
            return
        if not pn.delivery_readable(delivery):
            return  # the client settled a pending one: its outcome will settle it here
        body = self.receive(delivery)
        if body is None:
            return
        if self.fan_out.credit <= 0:
            self.refuse(delivery, TRANSFER_LIMIT, "the message was not accepted: the link had no credit")
            return
        transaction = None
        if not self.plain and self.in_transaction(delivery):
            transaction = self.transaction_of(delivery)
            if transaction is None:
                self.fan_out.credit -= 1
                self._top_up()
                return
        self._publish(delivery, body, transaction)

    def _publish(self, delivery: Any, body: bytes, transaction: Transaction | None) -> None:
        enrolment = (
            transaction.enrolment(unsettled=not pn.delivery_settled(delivery)) if transaction is not None else None
        )
        if self.memory.exhausted:
            self.fan_out.credit -= 1
            self.reject(delivery, RESOURCE_LIMIT, NO_MEMORY)
            if enrolment is not None:
                enrolment.refused()
            self._top_up()
            return
        found = self.route(body)
        if not found or isinstance(found, str):
            self.fan_out.credit -= 1
            if isinstance(found, str):
                self.reject(delivery, NOT_FOUND, found)
                if enrolment is not None:
                    enrolment.refused()
            else:
                self.accept(delivery)
            self._top_up()
            return
        pn.link_advance(self.pointer)
        self.fan_out.publish(body, found, delivery, enrolment)
        self._top_up()

    def settled(self, message: RoutedMessage) -> None:
        """Settle a message that has its outcome."""
        if self.closing:
            return
        if message.outcome is Outcome.ACCEPTED:
            self.accept(message.delivery)
        elif message.outcome is Outcome.ROLLED_BACK:
            self.reject(message.delivery, *WHY_REJECTED[message.outcome])
        else:
            self.reject(message.delivery, RESOURCE_LIMIT, "a queue that the message was for is full, or was deleted")
        self._top_up()
        self.context.dirty()

    def _top_up(self) -> None:
        if not self.closing and not self.far_ahead and self.fan_out.top_up():
            link_flow(self.pointer, self.fan_out.credit - link_credit(self.pointer))
            self.context.dirty()

    def release(self) -> None:
        super().release()
        self.fan_out.close()
