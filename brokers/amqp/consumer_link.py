"""Links on which clients receive from a queue: deliveries to the client, and its outcomes back.

The methods that run for every message are written without calls: the broker's throughput depends on them.
"""

from __future__ import annotations

import itertools
from typing import Any

from brokers.amqp import proton as pn
from brokers.amqp.header import for_delivery
from brokers.amqp.link import UNKNOWN_TRANSACTION, Link
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    TRANSACTIONAL,
    delivery_remote_state,
    delivery_settle,
    delivery_settled,
    delivery_update,
    link_advance,
    link_credit,
    link_send,
)
from brokers.amqp.runs import Lane, Runs, address
from brokers.engine.ports import DischargedAcknowledgement
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message
from brokers.engine.registry.transaction import Acknowledgement, State

# One tag buffer for all deliveries: Proton copies the tag.
_TAG = pn.new("uint64_t*")
_TAG_BYTES = pn.new("pn_delivery_tag_t*")
_TAG_BYTES.size = 8
_TAG_BYTES.start = pn.cast("char*", _TAG)
_TAG_VALUE = _TAG_BYTES[0]
_new_delivery = pn.delivery


_TERMINAL = frozenset((ACCEPTED, REJECTED, pn.RELEASED, MODIFIED))


class ConsumerLink(Link):
    """`unsettled`: delivery -> message, until the client settles; with `lane`, which collects runs of acknowledgements,
    the delivery's address -> message. `acknowledged`: deliveries acknowledged in a
    transaction and not settled. `removing`: delivery whose settlement is confirmed once its message is removed from the
    store -> its place among them, in that order; without those that the client has settled meanwhile. `removed`: the
    next place; `confirmed`: the first one that is not confirmed."""

    __slots__ = (
        "acknowledged",
        "confirmed",
        "consumer",
        "lane",
        "presettled",
        "removed",
        "removing",
        "tag",
        "unsettled",
    )

    consumer: Consumer

    def __init__(self, context: LinkContext, pointer: Any, *, presettled: bool) -> None:
        super().__init__(context, pointer)
        self.presettled = presettled
        self.unsettled: dict[Any, Message] = {}
        self.lane: Lane | None = None
        self.acknowledged: dict[Any, Acknowledgement] = {}
        self.removing: dict[Any, int] = {}
        self.removed = self.confirmed = 0
        self.tag = 0

    def send(self, messages: list[Message]) -> None:
        consumer = self.consumer
        queue = consumer.queue
        failed, expiring = queue.failed_deliveries, queue.expiries
        settle_now = self.presettled or consumer.browsing
        if not settle_now and self.context.runs is not None:
            lane = self.lane or self._begin_lane(self.context.runs)
            if not (failed or expiring):
                self._send_run(lane, messages)
                return
        pointer, unsettled, tag = self.pointer, self.unsettled, self.tag
        for message in messages:
            tag += 1
            _TAG[0] = tag
            delivery = _new_delivery(pointer, _TAG_VALUE)
            body = message[1]
            if failed or expiring:
                body = self._for_receiver(message, failed.get(message[0], 0), expiring.get(message[0]))
            link_send(pointer, body, len(body))
            link_advance(pointer)
            if settle_now:
                if self.presettled:
                    delivery_settle(delivery)
                else:
                    unsettled[delivery] = message
                if not consumer.browsing:
                    queue.remove(consumer, message)
            else:
                unsettled[self._key(delivery)] = message
        self.tag = tag
        self.context.dirty()

    def _key(self, delivery: Any) -> Any:
        """Return the delivery's key in `unsettled`."""
        return delivery if self.lane is None else address(delivery)

    # -- in runs: see `runs.py` ------------------------------------------------------------------------------------

    def _begin_lane(self, runs: Runs) -> Lane:
        """Before the first message."""
        self.lane = lane = runs.Lane(address(self.pointer), self, self.consumer.queue, False)
        self.unsettled = lane.unsettled
        return lane

    def _send_run(self, lane: Lane, messages: list[Message]) -> None:
        sent = lane.send(messages, self.tag)
        self.tag += len(messages)
        self.context.dirty()
        if sent < len(messages):
            for message in messages[sent:]:
                self.consumer.queue.put_back(self.consumer, message)
            self.end("amqp:internal-error", "a message could not be sent")

    def may_acknowledge(self, transaction: bytes) -> bool:
        return self.open_transaction(transaction) is not None

    def take_run(self) -> None:
        lane, consumer = self.lane, self.consumer
        assert lane is not None
        messages, identity = lane.take()
        if identity is None:
            consumer.queue.acknowledge_run(consumer, messages)
            return
        transaction = self.open_transaction(identity)
        if transaction is not None:
            transaction.acknowledge_run(consumer, messages)
            return
        for message in messages:  # rolled back since `may_acknowledge`
            consumer.queue.put_back(consumer, message, failed=True)

    def acquired(self) -> list[Message]:
        """Return the messages that the client has; see `Consumer.acquired`."""
        in_transactions = [acknowledgement.message for acknowledgement in self.acknowledged.values()]
        return [*self.unsettled.values(), *in_transactions]

    # -- one by one ------------------------------------------------------------------------------------------------

    def _for_receiver(self, message: Message, failed: int, expires: int | None) -> bytes:
        """Return the message with its failed deliveries and the rest of its time to live."""
        if expires is not None:
            left = max(1, expires - self.context.broker.turn.now)
            return for_delivery(message[1], failed, left)
        return for_delivery(message[1], failed) if failed else message[1]

    def on_delivery(self, delivery: Any) -> None:
        state = delivery_remote_state(delivery)
        consumer = self.consumer
        if state == ACCEPTED and not consumer.browsing:  # nearly always
            message = self.unsettled.pop(self._key(delivery), None)
            if message is None:
                self._settle_late(delivery)
                return
            self._removed(delivery, consumer.queue.remove(consumer, message))
            return
        if state not in _TERMINAL:
            if state == TRANSACTIONAL and not self.consumer.browsing:
                self._acknowledge_in_transaction(delivery)
                return
            if not delivery_settled(delivery):
                return
        message = self.unsettled.pop(self._key(delivery), None)
        if message is None:
            self._settle_late(delivery)
            return
        if consumer.browsing:
            pass  # it got a copy
        elif state == REJECTED:
            self._removed(delivery, consumer.queue.reject(consumer, message, pn.rejection_text(delivery)))
            return
        elif state == MODIFIED:
            remote = pn.delivery_remote(delivery)
            consumer.queue.put_back(
                consumer,
                message,
                failed=pn.disposition_failed(remote),
                barred=pn.disposition_undeliverable(remote),
            )
        else:
            consumer.queue.put_back(consumer, message)
        delivery_settle(delivery)

    def _removed(self, delivery: Any, ticket: int) -> None:
        """Settle the delivery of a removed message, once the removal is on disk if the client waits for that."""
        if ticket and not delivery_settled(delivery):
            self.removing[delivery] = self.removed
            self.removed += 1
            self.consumer.queue.confirm(self.consumer, ticket)
        else:
            delivery_settle(delivery)

    def _settle_late(self, delivery: Any) -> None:
        """Settle a delivery that has an outcome already, or gets it with its transaction."""
        acknowledgement = self.acknowledged.pop(delivery, None)
        if acknowledgement is not None:
            acknowledgement.settled, acknowledgement.delivery = True, None
        else:
            self.removing.pop(delivery, None)
        delivery_settle(delivery)

    def _acknowledge_in_transaction(self, delivery: Any) -> None:
        settled = delivery_settled(delivery)
        message = self.unsettled.get(self._key(delivery))
        if message is None:
            if settled:
                self._settle_late(delivery)
            return
        identity, outcome, fields = pn.transactional_state(delivery)
        engine = self.context.engine
        transaction = engine.transactions.get(identity) if engine is not None else None
        if transaction is None or (transaction.state is not State.OPEN and transaction.fault is None):
            self.end(UNKNOWN_TRANSACTION, "a message was acknowledged in a transaction that is not open")
            return
        if transaction.state is not State.OPEN:  # rolled back: the client still has the message, unless it settled it
            if settled:
                del self.unsettled[self._key(delivery)]
                self.consumer.queue.put_back(self.consumer, message, failed=True)
                delivery_settle(delivery)
            return
        del self.unsettled[self._key(delivery)]
        failed, barred = [*fields, None, None][:2] if outcome == MODIFIED else (None, None)
        acknowledgement = Acknowledgement(
            self.consumer,
            message,
            removes=outcome == ACCEPTED,
            rejected=outcome == REJECTED,
            failed=bool(failed),
            barred=bool(barred),
            settled=settled,
        )
        transaction.acknowledge(acknowledgement)
        if settled:
            delivery_settle(delivery)
        else:
            acknowledgement.delivery = delivery
            self.acknowledged[delivery] = acknowledgement

    def settle_discharged(self, acknowledgement: DischargedAcknowledgement) -> None:
        """Settle a delivery after the end of the transaction in which it was acknowledged."""
        delivery = acknowledgement.delivery
        if self.acknowledged.pop(delivery, None) is None:
            return
        if acknowledgement.returned:
            self.unsettled[self._key(delivery)] = acknowledgement.message
        else:
            removed = acknowledgement.removes or acknowledgement.rejected
            delivery_update(delivery, ACCEPTED if removed else pn.RELEASED)
            delivery_settle(delivery)
            self.context.dirty()

    def confirm(self, count: int) -> None:
        """Settle the oldest `count` deliveries whose removals are on disk."""
        self.confirmed += count
        first = itertools.takewhile(lambda each: each[1] < self.confirmed, self.removing.items())
        for delivery in [delivery for delivery, _ in first]:
            del self.removing[delivery]
            delivery_update(delivery, ACCEPTED)
            delivery_settle(delivery)
        self.context.dirty()

    def on_flow(self) -> None:
        consumer = self.consumer
        consumer.credit = link_credit(self.pointer)
        context = self.context
        consumer.queue.touch()
        if pn.link_get_drain(self.pointer):
            context.drain_later(self)

    def on_writable(self) -> None:
        if pn.link_get_drain(self.pointer):
            self.context.drain_later(self)

    def finish_drain(self) -> None:
        """Return the rest of the credit, since all available messages were sent. Not while the peer does not read: then
        more could be sent later."""
        if not self.closing and pn.link_get_drain(self.pointer) and self.context.writable:
            pn.link_drained(self.pointer)
            self.consumer.credit = link_credit(self.pointer)
            self.context.dirty()

    def release(self) -> None:
        """Requeue the unsettled messages: as released if the client ended the link, since most were only prefetched;
        with one failed delivery if the link was lost or the broker ended it."""
        consumer = self.consumer
        if self.lane is not None:
            self.lane.end()
        if not consumer.browsing:
            for message in self.unsettled.values():
                consumer.queue.put_back(consumer, message, failed=not self.orderly)
            for acknowledgement in self.acknowledged.values():
                acknowledgement.delivery = None
                if acknowledgement.returned:
                    acknowledgement.put_back(failed=not self.orderly)
        self.unsettled.clear()
        self.acknowledged.clear()
        self.removing.clear()
        self.context.forget_drain(self)
        self.context.broker.detach(consumer)
