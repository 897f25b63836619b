"""Links with a dynamic terminus: each has a temporary queue or topic of its own, which is deleted with the link."""

from __future__ import annotations

from typing import Any

from proton import Described, symbol, ulong

from brokers.amqp import proton as pn
from brokers.amqp.consumer_link import ConsumerLink
from brokers.amqp.fan_out_link import FanOutLink
from brokers.amqp.node_links import MAX_WAITING
from brokers.amqp.producer_link import ProducerLink
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange

#: The only supported lifetime, whatever the client requests: to the end of its link (part 3.5.10 of the standard).
_DELETE_ON_CLOSE = {symbol("lifetime-policy"): Described(ulong(0x2B), [])}


def describe_dynamic(terminus: Any, remote: Any, address: str) -> None:
    """Answer a dynamic terminus with its address and lifetime."""
    pn.terminus_copy(terminus, remote)
    pn.set_terminus_address(terminus, address)
    pn.set_terminus_properties(terminus, _DELETE_ON_CLOSE)


class TemporarySource(ConsumerLink):
    """A link on which a client receives from a queue of its own, to which nodes may send answers, too."""

    __slots__ = ("queue",)

    queue: Queue

    def push(self, message: bytes) -> None:
        """Enqueue an answer; the link ends if too many wait."""
        queue = self.queue
        if queue.gate.depth_messages >= MAX_WAITING:
            self.end("amqp:resource-limit-exceeded", f"{MAX_WAITING:,} messages wait for credit on this link")
        elif not self.closing:
            queue.enqueue(message)

    def release(self) -> None:
        super().release()
        self.context.replies.pop(self.queue.name, None)
        self.context.broker.temporary.delete(self.queue)


class TemporaryTarget(ProducerLink):
    """A link on which a client sends to a queue that it created."""

    __slots__ = ("queue",)

    queue: Queue

    def release(self) -> None:
        super().release()
        self.context.broker.temporary.delete(self.queue)


class TemporaryTopicTarget(FanOutLink):
    """A link on which a client publishes to a topic that it created."""

    __slots__ = ("exchange",)

    exchange: Exchange

    def release(self) -> None:
        super().release()
        self.context.broker.temporary.delete(self.exchange)
