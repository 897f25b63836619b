"""The links of clients: producers and consumers, attached to queues and detached."""

from __future__ import annotations

from collections.abc import Callable

from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Turn
from brokers.engine.ports import ConsumerPort, ProducerPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.values.events import name_in_events


class Links:
    """See the module."""

    def __init__(self, registry: Registry, turn: Turn) -> None:
        self.registry = registry
        self.turn = turn

    def attach_producer(
        self,
        connection: Connection,
        queue: Queue,
        link: str,
        channel: int,
        handle: ProducerPort,
        *,
        inside: bool = False,
    ) -> Producer:
        """Attach a producer. `inside`: see `Producer.inside`."""
        producer = Producer(self.registry.next_number(), connection, queue, link, channel=channel, handle=handle)
        producer.inside = inside
        self.registry.producers[producer.id] = producer
        connection.producers.add(producer)
        queue.gate.attach_producer(producer)
        return producer

    def attach_consumer(
        self,
        connection: Connection,
        queue: Queue,
        link: str,
        handle: ConsumerPort,
        *,
        browsing: bool,
        selects: Callable[[bytes], bool] | None = None,
        group_of: Callable[[bytes], str] | None = None,
    ) -> Consumer:
        """Attach a consumer. `selects`: whether an encoded message matches its selector. `group_of`: returns the
        message group of an encoded message, "" for none; None if it does not request groups."""
        number = self.registry.next_number()
        consumer = Consumer(number, connection, queue, link, browsing=browsing, handle=handle, selects=selects)
        if group_of is not None and not browsing:
            groups = queue.dispatcher.groups = queue.dispatcher.groups or Groups()
            consumer.selects = lambda body: (
                (selects is None or selects(body)) and groups.wants(consumer, group_of(body))
            )
        self.registry.consumers[consumer.id] = consumer
        connection.consumers.add(consumer)
        queue.attach_consumer(consumer)
        return consumer

    def detach(self, link: Producer | Consumer) -> bool:
        """Remove an ended link; a consumer's acquired messages must have been put back before. Return False if it is
        already detached."""
        if isinstance(link, Producer):
            if self.registry.producers.pop(link.id, None) is None:
                return False
            link.connection.forget(link)
            link.queue.detach_producer(link)
            return True
        if self.registry.consumers.pop(link.id, None) is None:
            return False
        link.connection.forget(link)
        link.queue.detach_consumer(link)
        return True

    def refuse_producer(self, producer: Producer, condition: str, description: str) -> None:
        """Detach a producer that violated the protocol, with a fact. The caller ends its link."""
        connection = producer.connection
        self.turn.add_fact(
            "producer-detached",
            producer.name,
            f"{connection.subject}/ch:{producer.channel}",
            f"Detached : {condition} : {description}",
            {"client": connection.client, "link": name_in_events(producer.link), **producer.queue.event_attributes()},
        )
        self.detach(producer)
