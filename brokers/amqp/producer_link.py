"""Links on which clients send to one queue: its verdict on each message, withheld settlements, and credit.

`on_delivery` runs for every message and is written without calls: the broker's throughput depends on it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.incoming_link import SCRATCH, SCRATCH_SIZE, WHY_REJECTED, IncomingLink
from brokers.amqp.link import TRANSFER_LIMIT
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import (
    ACCEPTED,
    delivery_aborted,
    delivery_partial,
    delivery_pending,
    delivery_settle,
    delivery_settled,
    delivery_update,
    link_advance,
    link_credit,
    link_flow,
    link_recv,
    unpack,
)
from brokers.amqp.runs import Lane, address
from brokers.engine.flow.producer import Producer
from brokers.engine.queues.runs import NOTHING
from brokers.engine.values.outcomes import Outcome, Verdict

IS_ACCEPTED, IS_PENDING, IS_REJECTED = Verdict.ACCEPTED, Verdict.PENDING, Verdict.REJECTED


class ProducerLink(IncomingLink):
    """`withheld`: deliveries whose settlement is withheld, oldest first; None for one that the client settled itself.
    They are addresses if the broker collects runs."""

    __slots__ = ("producer", "withheld")

    producer: Producer

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        super().__init__(context, pointer)
        self.withheld: deque[Any] = deque()

    @property
    def client_link(self) -> ProducerLink:
        return self

    # -- in runs: see `runs.py` ------------------------------------------------------------------------------------

    def run_allowance(self, transaction: bytes | None) -> tuple[int, int, int]:
        producer = self.producer
        if self.parts or (transaction is not None and self.open_transaction(transaction) is None):
            return NOTHING
        return producer.queue.run_allowance(producer)

    def take_run(self) -> None:
        lane, producer = self.lane, self.producer
        assert lane is not None
        bodies, size, durable, identity = lane.take()
        if identity is not None:
            self._take_run_in(lane, identity, bodies, size, durable=durable)
        elif producer.queue.publish_run(producer, bodies, size, durable=durable) is IS_ACCEPTED:
            lane.accept()
        else:
            self.withheld.extend(lane.withhold())

    def _take_run_in(self, lane: Lane, identity: bytes, bodies: list[bytes], size: int, *, durable: bool) -> None:
        """Take a run in the transaction with this id, which was open when the run began."""
        transaction = self.open_transaction(identity)
        if transaction is not None:
            transaction.publish_run(self.producer, bodies, size, durable=durable)
            lane.accept_in(pn.state_address(self.accepted_in(transaction)))
            return
        for each in lane.withhold():  # something has ended it since
            self.producer.queue.abort(self.producer)  # its credit is used
            if each is not None:
                self.transaction_of(pn.cast("pn_delivery_t *", each))  # rejects it

    def in_transaction(self, delivery: Any) -> bool:
        inside = super().in_transaction(delivery)
        self.begin_lane(self, self.producer.queue)
        return inside

    # -- one by one ------------------------------------------------------------------------------------------------

    def on_delivery(self, delivery: Any) -> None:
        # Runs for every message: rare cases are checked only if a delivery is empty or incomplete.
        length = delivery_pending(delivery)
        if self.lane is not None and (body := self.lane.take_special()) is not None:
            if not self.plain and self.in_transaction(delivery):
                self._publish_in_transaction(delivery, body)
                return
        elif length < 2 or not self.plain:  # Proton reports 1 for an aborted one
            body = self._odd(delivery)
        elif length > SCRATCH_SIZE or self.parts or delivery_partial(delivery):
            body = self._odd(delivery) if delivery_aborted(delivery) else self.receive(delivery)
        else:
            taken = link_recv(self.pointer, SCRATCH, length)
            body = unpack(SCRATCH, taken) if taken >= 0 else self._odd(delivery)
        if body is None:
            return
        producer = self.producer
        verdict = producer.queue.publish(producer, body)
        if verdict is IS_ACCEPTED:
            delivery_update(delivery, ACCEPTED)
            delivery_settle(delivery)
        elif verdict is IS_PENDING:
            self._withhold(delivery)
        elif verdict is IS_REJECTED:
            self._reject(delivery)
        else:
            self._refuse_without_credit(delivery)

    def _refuse_without_credit(self, delivery: Any) -> None:
        text = f"the message was not accepted: the link had no credit on queue {self.producer.queue.name}"
        self.refuse(delivery, TRANSFER_LIMIT, text)

    def _publish_in_transaction(self, delivery: Any, body: bytes) -> None:
        transaction = self.transaction_of(delivery)
        if transaction is None:
            self.producer.queue.abort(self.producer)  # its credit is used
            return
        verdict = transaction.publish(self.producer, body, unsettled=not delivery_settled(delivery))
        if verdict is IS_ACCEPTED:
            self.accept(delivery)
        elif verdict is IS_PENDING:
            self._withhold(delivery)
        elif verdict is IS_REJECTED:
            self._reject(delivery)
        else:
            self._refuse_without_credit(delivery)

    def _withhold(self, delivery: Any) -> None:
        """Withhold the settlement. A delivery that the client has settled needs none, but occupies its place in the
        order."""
        if delivery_settled(delivery):
            delivery_settle(delivery)
            self.withheld.append(None)
        else:
            link_advance(self.pointer)
            self.withheld.append(self._in_withheld(delivery))

    def _in_withheld(self, delivery: Any) -> Any:
        return delivery if self.context.runs is None else address(delivery)

    def _reject(self, delivery: Any, outcome: Outcome = Outcome.REJECTED) -> None:
        condition, text = WHY_REJECTED[outcome]
        queue = self.producer.queue
        if outcome is Outcome.REJECTED and (reasons := queue.shortage_reasons()):
            short = ", ".join(reasons)
            text = f"the broker has no capacity left for messages to queue {{queue}}: {short}"
        self.reject(delivery, condition, text.format(queue=queue.name))

    def settle(self, count: int, outcome: Outcome) -> None:
        """Settle the oldest `count` withheld deliveries."""
        withheld, runs = self.withheld, self.context.runs
        if runs is not None and outcome is Outcome.ACCEPTED:
            next_one = withheld.popleft
            for in_transaction in runs.accept([next_one() for _ in range(min(count, len(withheld)))]):
                self.accept(pn.cast("pn_delivery_t *", in_transaction))
            self.context.dirty()
            return
        for _ in range(min(count, len(withheld))):
            delivery = withheld.popleft()
            if delivery is None:
                continue
            if runs is not None:
                delivery = pn.cast("pn_delivery_t *", delivery)
            if outcome is Outcome.ACCEPTED:
                self.accept(delivery)
            else:
                self._reject(delivery, outcome)
        self.context.dirty()

    def refuse(self, delivery: Any, condition: str, text: str) -> None:
        self.context.broker.refuse_producer(self.producer, condition, text)
        super().refuse(delivery, condition, text)

    def _odd(self, delivery: Any) -> bytes | None:
        """Handle a delivery without new bytes, or aborted, or on a link that is closing or not plain. Return its
        message if it has one outside transactions."""
        if self.closing:
            delivery_settle(delivery)
        elif delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            self.producer.queue.abort(self.producer)
        elif pn.delivery_readable(delivery):
            body = self.receive(delivery)
            if body is None or not self.in_transaction(delivery):
                return body
            self._publish_in_transaction(delivery, body)
        elif delivery_settled(delivery):
            if (withheld := self._in_withheld(delivery)) in self.withheld:
                self.withheld[self.withheld.index(withheld)] = None
            delivery_settle(delivery)
        return None

    def on_count(self) -> None:
        """Take back unused credit after the client answered a drain. A late answer may also count credit as used that
        was granted since."""
        producer = self.producer
        back = producer.credit - link_credit(self.pointer)
        if producer.draining:
            if back > 0 or not pn.link_get_drain(self.pointer):
                pn.link_drained(self.pointer)
                producer.queue.credit_returned(producer, max(0, back))
        elif back > 0:
            producer.queue.credit_forgone(producer, back)

    def sync_credit(self) -> None:
        """Send the client its current credit."""
        if not self.closing:
            more = self.producer.credit - link_credit(self.pointer)
            link_flow(self.pointer, more)
            self.context.dirty()

    def drain(self) -> None:
        if not self.closing:
            pn.link_drain(self.pointer, 0)
            self.context.dirty()

    def release(self) -> None:
        super().release()
        self.plain = False  # so that further deliveries are checked
        self.withheld.clear()
        self.context.broker.detach(self.producer)
