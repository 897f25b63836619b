"""Links of clients: producers that publish to a queue, and consumers that take from one.

Each is the protocol's end of an engine object and does three things: turn what Proton reports into calls of the engine,
turn what the engine decides into calls of Proton, and let go of both at the end. The methods that run for every
message are written out flat: that is where the broker's speed is made.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from brokers.amqp import proton as pn
from brokers.amqp.header import for_delivery
from brokers.amqp.proton import (
    ACCEPTED,
    MODIFIED,
    REJECTED,
    delivery_aborted,
    delivery_partial,
    delivery_pending,
    delivery_remote_state,
    delivery_settle,
    delivery_settled,
    delivery_update,
    link_advance,
    link_credit,
    link_flow,
    link_recv,
    link_send,
    unpack,
)
from brokers.engine.consumer import Consumer
from brokers.engine.overflow import Verdict
from brokers.engine.producer import Producer
from brokers.engine.queue import Message
from brokers.engine.receipt import Outcome

if TYPE_CHECKING:
    from brokers.amqp.connection import AmqpConnection

#: The largest message that is taken, in bytes; announced to clients, and held against them.
MAX_MESSAGE_SIZE = 128 << 20

TRANSFER_LIMIT = "amqp:link:transfer-limit-exceeded"
RESOURCE_LIMIT = "amqp:resource-limit-exceeded"

TAKEN, HELD, REFUSED = Verdict.TAKEN, Verdict.HELD, Verdict.REFUSED

_SCRATCH_SIZE = 1 << 20
_SCRATCH = pn.new("char[]", _SCRATCH_SIZE)

# One tag buffer for all deliveries: Proton copies the tag.
_TAG = pn.new("uint64_t*")
_TAG_BYTES = pn.new("pn_delivery_tag_t*")
_TAG_BYTES.size = 8
_TAG_BYTES.start = pn.cast("char*", _TAG)
_TAG_VALUE = _TAG_BYTES[0]
_new_delivery = pn.delivery


_TERMINAL = frozenset((ACCEPTED, REJECTED, pn.RELEASED, MODIFIED))


class Link:
    """What every link has. `closing`: our end is closed, and what still arrives is thrown away. `orderly`: nobody broke
    off: the client ended it, or the broker ends."""

    __slots__ = ("closing", "connection", "orderly", "pointer")

    def __init__(self, connection: AmqpConnection, pointer: Any) -> None:
        self.connection = connection
        self.pointer = pointer
        self.closing = False
        self.orderly = False

    def on_delivery(self, delivery: Any) -> None:
        raise NotImplementedError

    def on_flow(self) -> None:
        raise NotImplementedError

    def on_writable(self) -> None:
        """The peer reads again."""

    def let_go(self) -> None:
        """The link has ended, from whichever side. Called once."""

    def end(self, condition: str, description: str, info: dict[Any, Any] | None = None) -> None:
        """Close our end, with an error."""
        if not self.closing:
            self.closing = True
            self.let_go()
            pn.set_condition(pn.link_condition(self.pointer), condition, description, info)
            pn.link_close(self.pointer)
            self.connection.dirty()


class IncomingLink(Link):
    """A link on which the client sends: puts messages of many frames together."""

    __slots__ = ("parts", "size")

    max_size = MAX_MESSAGE_SIZE

    def __init__(self, connection: AmqpConnection, pointer: Any) -> None:
        super().__init__(connection, pointer)
        self.parts: list[bytes] = []
        self.size = 0

    def receive(self, delivery: Any) -> bytes | None:
        """The whole message, once its last frame is here. Larger than `max_size`: the link has ended."""
        length = delivery_pending(delivery)
        if length <= _SCRATCH_SIZE:
            taken = link_recv(self.pointer, _SCRATCH, length)
            data = unpack(_SCRATCH, taken) if taken > 0 else b""
        else:
            buffer = pn.new("char[]", length)
            taken = link_recv(self.pointer, buffer, length)
            data = unpack(buffer, taken) if taken > 0 else b""
        if self.parts or delivery_partial(delivery):
            return self._join(delivery, data)
        return bytes(data)

    def _join(self, delivery: Any, data: bytes) -> bytes | None:
        self.parts.append(data)
        self.size += len(data)
        if self.size > self.max_size:
            self.forget_parts()
            text = f"a message may have {self.max_size:,} bytes at most"
            self.refuse(delivery, "amqp:link:message-size-exceeded", text)
            return None
        if delivery_partial(delivery):
            return None
        whole = b"".join(self.parts)
        self.forget_parts()
        return whole

    def forget_parts(self) -> None:
        self.parts.clear()
        self.size = 0

    def refuse(self, delivery: Any, condition: str, text: str) -> None:
        """Reject a delivery that breaks the protocol, and end the link. It is settled, since a client that sends on
        regardless must not fill our memory with deliveries that are not."""
        pn.delivery_error(delivery, condition, text)
        delivery_update(delivery, REJECTED)
        delivery_settle(delivery)
        self.end(condition, text)


class ProducerLink(IncomingLink):
    """`held`: deliveries whose outcome is withheld, oldest first; None for one that the client settled itself."""

    __slots__ = ("held", "producer")

    producer: Producer

    def __init__(self, connection: AmqpConnection, pointer: Any) -> None:
        super().__init__(connection, pointer)
        self.held: deque[Any] = deque()

    def on_delivery(self, delivery: Any) -> None:
        # Runs for every message: what is rare is asked only where an empty or unfinished delivery gives it away.
        length = delivery_pending(delivery)
        if self.closing or length < 2:  # Proton says 1 for one that was aborted
            body = self._odd(delivery)
        elif length > _SCRATCH_SIZE or self.parts or delivery_partial(delivery):
            body = self._odd(delivery) if delivery_aborted(delivery) else self.receive(delivery)
        else:
            taken = link_recv(self.pointer, _SCRATCH, length)
            body = unpack(_SCRATCH, taken) if taken >= 0 else self._odd(delivery)
        if body is None:
            return
        producer = self.producer
        verdict = producer.queue.publish(producer, body)
        if verdict is TAKEN:
            delivery_update(delivery, ACCEPTED)
            delivery_settle(delivery)
        elif verdict is HELD:
            self._hold(delivery)
        elif verdict is REFUSED:
            self._reject(delivery)
        else:
            text = f"the message was not taken: the link had no credit on queue {producer.queue.name}"
            self.refuse(delivery, TRANSFER_LIMIT, text)

    def _hold(self, delivery: Any) -> None:
        """Its outcome comes later. One that the client has settled needs none, but keeps its place in the line."""
        if delivery_settled(delivery):
            delivery_settle(delivery)
            self.held.append(None)
        else:
            link_advance(self.pointer)
            self.held.append(delivery)

    def _reject(self, delivery: Any, outcome: Outcome = Outcome.REFUSED) -> None:
        full = "is full" if outcome is Outcome.REFUSED else "cannot store the message now: see the broker's log"
        text = f"queue {self.producer.queue.name} {full}"
        pn.delivery_error(delivery, RESOURCE_LIMIT, text)
        delivery_update(delivery, REJECTED)
        delivery_settle(delivery)

    def settle(self, count: int, outcome: Outcome) -> None:
        """The oldest `count` held deliveries have their outcome."""
        for _ in range(min(count, len(self.held))):
            delivery = self.held.popleft()
            if delivery is None:
                continue
            if outcome is Outcome.ACCEPTED:
                delivery_update(delivery, ACCEPTED)
                delivery_settle(delivery)
            else:
                self._reject(delivery, outcome)
        self.connection.dirty()

    def refuse(self, delivery: Any, condition: str, text: str) -> None:
        self.connection.container.broker.refuse_producer(self.producer, condition, text)
        super().refuse(delivery, condition, text)

    def _odd(self, delivery: Any) -> bytes | None:
        """A delivery without new bytes, or aborted, or on a link that we have closed. The message, if it is one after
        all."""
        if self.closing:
            delivery_settle(delivery)
        elif delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            self.producer.queue.abort(self.producer)
        elif pn.delivery_readable(delivery):
            return self.receive(delivery)
        elif delivery_settled(delivery):
            if delivery in self.held:
                self.held[self.held.index(delivery)] = None
            delivery_settle(delivery)
        return None

    def on_flow(self) -> None:
        """The client answered a drain: what it did not use comes back."""
        producer = self.producer
        if producer.draining:
            back = producer.credit - link_credit(self.pointer)
            if back > 0 or not pn.link_get_drain(self.pointer):
                pn.link_drained(self.pointer)
                producer.queue.credit_returned(producer, max(0, back))

    def sync_credit(self) -> None:
        """Tell the client how much credit it has."""
        if not self.closing:
            more = self.producer.credit - link_credit(self.pointer)
            link_flow(self.pointer, more)
            self.connection.dirty()

    def drain(self) -> None:
        if not self.closing:
            pn.link_drain(self.pointer, 0)
            self.connection.dirty()

    def let_go(self) -> None:
        self.held.clear()
        self.connection.container.broker.detach(self.producer)


class ConsumerLink(Link):
    """`unsettled`: delivery -> message, until the client settles. `removing`: deliveries whose settlement is confirmed
    once their messages are out of the store, in that order."""

    __slots__ = ("consumer", "presettled", "removing", "tag", "unsettled")

    consumer: Consumer

    def __init__(self, connection: AmqpConnection, pointer: Any, *, presettled: bool) -> None:
        super().__init__(connection, pointer)
        self.presettled = presettled
        self.unsettled: dict[Any, Message] = {}
        self.removing: deque[Any] = deque()
        self.tag = 0

    def send(self, messages: list[Message]) -> None:
        pointer, unsettled, tag = self.pointer, self.unsettled, self.tag
        consumer = self.consumer
        queue = consumer.queue
        failed, expiring = queue.deliveries, queue.deadlines.at
        settle_now = self.presettled or consumer.browsing
        for message in messages:
            tag += 1
            _TAG[0] = tag
            delivery = _new_delivery(pointer, _TAG_VALUE)
            body = message[1]
            if failed or expiring:
                body = self._told(message, failed.get(message[0], 0), expiring.get(message[0]))
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
                unsettled[delivery] = message
        self.tag = tag
        self.connection.dirty()

    def _told(self, message: Message, failed: int, expires: int | None) -> bytes:
        """The message as the receiver gets it: with its failed deliveries and what is left of its time to live."""
        if expires is not None:
            left = max(1, expires - self.connection.container.broker.turn.now)
            return for_delivery(message[1], failed, left)
        return for_delivery(message[1], failed) if failed else message[1]

    def on_delivery(self, delivery: Any) -> None:
        state = delivery_remote_state(delivery)
        if state != ACCEPTED and state not in _TERMINAL and not delivery_settled(delivery):
            return
        message = self.unsettled.pop(delivery, None)
        if message is None:
            delivery_settle(delivery)
            return
        consumer = self.consumer
        if consumer.browsing:
            pass  # it had a copy
        elif state in (ACCEPTED, REJECTED):
            if state == ACCEPTED:
                ticket = consumer.queue.remove(consumer, message)
            else:
                ticket = consumer.queue.reject(consumer, message, pn.rejection_text(delivery))
            if ticket and not delivery_settled(delivery):
                self.removing.append(delivery)
                consumer.queue.confirm(consumer, ticket)
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

    def confirm(self, count: int) -> None:
        """The oldest `count` removals are safe."""
        for _ in range(min(count, len(self.removing))):
            delivery = self.removing.popleft()
            delivery_update(delivery, ACCEPTED)
            delivery_settle(delivery)
        self.connection.dirty()

    def on_flow(self) -> None:
        consumer = self.consumer
        consumer.credit = link_credit(self.pointer)
        container = self.connection.container
        container.broker.turn.touched.add(consumer.queue)
        if pn.link_get_drain(self.pointer):
            container.draining.add(self)

    def on_writable(self) -> None:
        if pn.link_get_drain(self.pointer):
            self.connection.container.draining.add(self)

    def finish_drain(self) -> None:
        """Everything that could be sent has been: give back the rest of the credit. While the peer does not read,
        more could be sent later."""
        if not self.closing and pn.link_get_drain(self.pointer) and self.connection.writable:
            pn.link_drained(self.pointer)
            self.consumer.credit = link_credit(self.pointer)
            self.connection.dirty()

    def let_go(self) -> None:
        """Messages that it held go back to their places: released if the client ended the link itself, for then most
        were only waiting for their turn there; as delivered once in vain if it was lost or thrown out."""
        consumer = self.consumer
        if not consumer.browsing:
            for message in self.unsettled.values():
                consumer.queue.put_back(consumer, message, failed=not self.orderly)
        self.unsettled.clear()
        self.removing.clear()
        self.connection.container.draining.discard(self)
        self.connection.container.broker.detach(consumer)
