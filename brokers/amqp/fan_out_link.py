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
from brokers.engine.queues.runs import NOTHING
from brokers.engine.registry.transaction import Enrolment, Transaction
from brokers.engine.services.fan_out import FanOut, RoutedMessage
from brokers.engine.values.outcomes import Outcome

NOT_FOUND = "amqp:not-found"

#: A message -> the queues it goes to, or why it is refused. No queues: no subscriber matches, and it is accepted.
Route = Callable[[bytes], Sequence[Queue] | str]


class FanOutLink(IncomingLink):
    """See the module."""

    __slots__ = ("_in_run", "fan_out", "route")

    fan_out: FanOut

    def __init__(self, context: LinkContext, pointer: Any, route: Route) -> None:
        super().__init__(context, pointer)
        self.route = route
        self._in_run = False

    def open(self) -> None:
        """Give the client its first credit, after the link was opened."""
        link_flow(self.pointer, self.fan_out.credit)
        self.context.dirty()

    # -- in runs: see `runs.py` ------------------------------------------------------------------------------------

    def run_allowance(self, transaction: bytes | None) -> tuple[int, int, int]:
        if transaction is not None or self.parts or self.memory.exhausted:
            return NOTHING
        return self.fan_out.run_allowance()

    def take_run(self) -> None:
        """Publish a run at once if all its messages go where the last one went, else each one singly."""
        lane, fan_out, route = self.lane, self.fan_out, self.route
        assert lane is not None
        bodies, size, durable, _ = lane.take()
        found = [route(body) for body in bodies]
        if any(queues != fan_out.last for queues in found):
            self._in_run = True  # Proton has counted the whole run, and the broker not yet
            for body, queues, address in zip(bodies, found, lane.withhold(), strict=True):
                self._publish_to(queues, _delivery(address), body, None)
            self._in_run = False
        elif pending := fan_out.publish_run(bodies, size, durable=durable):
            for message, address in zip(pending, lane.withhold(), strict=True):
                message.delivery = _delivery(address)
        else:
            lane.accept()
        self._top_up()

    def in_transaction(self, delivery: Any) -> bool:
        inside = super().in_transaction(delivery)
        self.begin_lane(self, None)
        return inside

    # -- one by one ------------------------------------------------------------------------------------------------

    def on_delivery(self, delivery: Any) -> None:
        body = None if self.lane is None else self.lane.take_special()
        if body is None:
            body = self._body(delivery)
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

    def _body(self, delivery: Any) -> bytes | None:
        """Return the whole message once its last frame has arrived."""
        if self.closing:
            delivery_settle(delivery)
        elif pn.delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            self.fan_out.credit -= 1
            self._top_up()
        elif pn.delivery_readable(delivery):  # else the client settled a pending one: its outcome will settle it here
            return self.receive(delivery)
        return None

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
        if found and not isinstance(found, str):
            pn.link_advance(self.pointer)
        self._publish_to(found, delivery, body, enrolment)
        self._top_up()

    def _publish_to(
        self, found: Sequence[Queue] | str, delivery: Any, body: bytes, enrolment: Enrolment | None
    ) -> None:
        """`delivery`: None if the client has settled it, and it is settled."""
        if found and not isinstance(found, str):
            self.fan_out.publish(body, found, delivery, enrolment)
            return
        self.fan_out.credit -= 1
        if isinstance(found, str):
            if delivery is not None:
                self.reject(delivery, NOT_FOUND, found)
            if enrolment is not None:
                enrolment.refused()
        elif delivery is not None:
            self.accept(delivery)

    def settled(self, message: RoutedMessage) -> None:
        """Settle a message that has its outcome."""
        if self.closing:
            return
        if message.delivery is None:
            pass  # the client has settled it
        elif message.outcome is Outcome.ACCEPTED:
            self.accept(message.delivery)
        elif message.outcome is Outcome.ROLLED_BACK:
            self.reject(message.delivery, *WHY_REJECTED[message.outcome])
        else:
            self.reject(message.delivery, RESOURCE_LIMIT, "a queue that the message was for is full, or was deleted")
        self._top_up()
        self.context.dirty()

    def _top_up(self) -> None:
        if not self._in_run and not self.closing and not self.far_ahead and self.fan_out.top_up():
            link_flow(self.pointer, self.fan_out.credit - link_credit(self.pointer))
            self.context.dirty()

    def release(self) -> None:
        super().release()
        self.fan_out.close()


def _delivery(address: int | None) -> Any:
    """Return the delivery at an address in Proton's memory; None for None."""
    return None if address is None else pn.cast("pn_delivery_t *", address)
