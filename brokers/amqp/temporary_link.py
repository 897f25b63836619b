"""Links with a dynamic terminus: each has a temporary queue or topic of its own, which goes when the link does."""

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

#: The one life that a node may have here, whatever was asked for: to the end of its link (part 3.5.10 of the standard).
_DELETE_ON_CLOSE = {symbol("lifetime-policy"): Described(ulong(0x2B), [])}


def describe_dynamic(terminus: Any, remote: Any, address: str) -> None:
    """Answer a dynamic terminus: its address, and how long it lives."""
    pn.terminus_copy(terminus, remote)
    pn.set_terminus_address(terminus, address)
    pn.set_terminus_properties(terminus, _DELETE_ON_CLOSE)


class TemporarySource(ConsumerLink):
    """The client receives from a queue of its own. Answers of the broker's nodes may be sent there, too."""

    __slots__ = ("queue",)

    queue: Queue

    def push(self, message: bytes) -> None:
        """An answer; the link ends where too many wait."""
        queue = self.queue
        if queue.gate.depth_messages >= MAX_WAITING:
            self.end("amqp:resource-limit-exceeded", f"{MAX_WAITING:,} messages wait for credit on this link")
        elif not self.closing:
            queue.enqueue(message)

    def let_go(self) -> None:
        super().let_go()
        self.context.replies.pop(self.queue.name, None)
        self.context.broker.temporary.delete(self.queue)


class TemporaryTarget(ProducerLink):
    """The client has made a queue, and may send to it."""

    __slots__ = ("queue",)

    queue: Queue

    def let_go(self) -> None:
        super().let_go()
        self.context.broker.temporary.delete(self.queue)


class TemporaryTopicTarget(FanOutLink):
    """The client has made a topic, and may publish to it."""

    __slots__ = ("exchange",)

    exchange: Exchange

    def let_go(self) -> None:
        super().let_go()
        self.context.broker.temporary.delete(self.exchange)
