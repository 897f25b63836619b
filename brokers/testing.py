"""The admin interface in memory: the real engine, without sockets, processes or a clock of its own.

For tests of code that uses `brokers.admin`. The rules are the engine's, so a test with it is valid for the real
broker; one contract suite tests this and every driver. The clock stands still until `advance`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from brokers.admin import (
    SAMPLED,
    BrokerUnreachable,
    Event,
    EventsExpired,
    ManagedObject,
    Page,
    Samples,
)
from brokers.amqp.dead_letter import as_dead_letter
from brokers.amqp.header import at_delivery_time, header
from brokers.amqp.message_format import AmqpFormat
from brokers.engine.broker import Broker
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Close, Detach, Drain, Effect
from brokers.engine.management.requests import Management
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.subscription import SubscriptionSpec
from brokers.engine.registry.virtualhost import DEFAULT
from brokers.engine.services.subscriptions import everything
from brokers.engine.values.outcomes import Outcome
from brokers.engine.values.rights import ALL
from brokers.model import TYPES, ManagedType, ObjectName
from brokers.server.passwords import Passwords

T = TypeVar("T")

START = 1_700_000_000_000


class InMemoryBroker:
    """A `brokers.admin.BrokerAdmin`. `keep`: how many events can be replayed."""

    def __init__(self, *, now: int = START, keep: int = 10_000) -> None:
        self.engine = Broker(now, version="in memory")
        turn = self.engine.turn
        turn.header, turn.at_delivery_time, turn.as_dead_letter = header, at_delivery_time, as_dead_letter
        turn.format = AmqpFormat()
        self.engine.journal = uuid.uuid4().hex
        host = self.engine.create_virtualhost(DEFAULT)
        host.create_on_attach = host.anonymous = True
        self.engine.accounts.credentials = passwords = Passwords()
        secret = passwords.verifier(passwords.generate())
        self.engine.accounts.put_own("console", secret, ALL, "user console is the console's own")
        self.management = Management(self.engine)
        self.reachable = True
        self._keep = keep
        self._events: list[Event] = []
        self._event_readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[Event | None]]] = []
        self._sample_readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[Samples | None]]] = []
        self._connection: Connection | None = None
        self.acquired: list[tuple[Consumer, Message]] = []
        self._end_turn()

    # -- the interface ----------------------------------------------------------------------------------------

    async def types(self) -> Mapping[str, ManagedType]:
        return self._answer(TYPES)

    async def read(self, name: ObjectName) -> ManagedObject:
        self._check()
        return self._answer(self.management.read(name))

    async def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
    ) -> Page:
        self._check()
        page = self.management.query(type_name, where=where, search=search, sort=sort, offset=offset, count=count)
        return self._answer(page)

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        self._check()
        return self._answer(self.management.create(name, attributes, actor or "console"))

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        self._check()
        return self._answer(self.management.update(name, attributes, version, actor or "console"))

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        self._check()
        self.management.delete(name, version, actor or "console")
        self._end_turn()

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self._check()
        return self._answer(self.management.call(name, operation, arguments, "console"))

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        self._check()
        last = self._events[-1].number if self._events else 0
        first = self._events[0].number if self._events else last + 1
        if after is not None and after + 1 < first:
            raise EventsExpired(f"events up to {first - 1} are no longer available", first)
        reader: asyncio.Queue[Event | None] = asyncio.Queue()
        for event in self._events:
            if after is not None and event.number > after:
                reader.put_nowait(event)
        entry = (asyncio.get_running_loop(), reader)
        self._event_readers.append(entry)
        try:
            while (event_or_end := await reader.get()) is not None:
                yield event_or_end
            raise BrokerUnreachable("the connection to the broker was lost")
        finally:
            self._event_readers.remove(entry)

    async def samples(self) -> AsyncIterator[Samples]:
        self._check()
        reader: asyncio.Queue[Samples | None] = asyncio.Queue()
        entry = (asyncio.get_running_loop(), reader)
        self._sample_readers.append(entry)
        try:
            while (samples := await reader.get()) is not None:
                yield samples
            raise BrokerUnreachable("the connection to the broker was lost")
        finally:
            self._sample_readers.remove(entry)

    async def close(self) -> None:
        self.disconnect()

    # -- controls for tests ----------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Lose the connection: every reader ends with BrokerUnreachable, and so does every call until `reconnect`."""
        self.reachable = False
        for loop, events in list(self._event_readers):
            loop.call_soon_threadsafe(events.put_nowait, None)
        for loop, samples in list(self._sample_readers):
            loop.call_soon_threadsafe(samples.put_nowait, None)

    def reconnect(self) -> None:
        self.reachable = True

    def advance(self, ms: int, step: int = 50) -> None:
        """Advance the clock, with the sweeps of a server; clients answer drains at once."""
        self.engine.upkeep.mark_arrivals()
        for _ in range(max(1, ms // step)):
            self.engine.turn.now += min(step, ms)
            self.engine.sweep()
            while self.engine.release():
                self._end_turn()
            self.engine.stopping.end_due_stops()
            self._end_turn()
        self.engine.upkeep.mark_arrivals()

    def sample(self) -> None:
        """Send the samples of the queues that have changed, as a server does once a second."""
        changed = self.engine.sample()
        values = self.management.queues.rows(changed, SAMPLED)
        rows = tuple(
            (queue.object_name, dict(zip(SAMPLED, row, strict=True)))
            for queue, row in zip(changed, values, strict=True)
        )
        samples = Samples(self.engine.turn.now, rows)
        for loop, reader in list(self._sample_readers):
            loop.call_soon_threadsafe(reader.put_nowait, samples)

    def attach_producer(
        self,
        queue: str,
        virtualhost: str = DEFAULT,
        link: str = "sender",
        *,
        user: str | None = None,
        container_id: str = "test",
        product: str = "test client",
    ) -> Producer:
        connection = self._client(virtualhost, user, container_id, product)
        found = self.engine.find_or_create_queue(connection, queue)
        port = _ProducerLink()
        port.producer = producer = self.engine.attach_producer(connection, found, link, 0, port)
        port.detach = lambda: self.engine.detach(producer)
        self._end_turn()
        return producer

    def publish(self, producer: Producer, count: int = 1, size: int = 100) -> int:
        """Publish while there is credit; return how many messages were accepted."""
        accepted = 0
        while accepted < count and producer.credit and producer.queue.publish(producer, b"x" * size):
            accepted += 1
            self._end_turn()
        return accepted

    def fill(self, queue: str, count: int, size: int = 100, virtualhost: str = DEFAULT) -> Producer:
        """Attach a producer and publish as many messages as flow control allows."""
        producer = self.attach_producer(queue, virtualhost)
        self.publish(producer, count, size)
        return producer

    def attach_consumer(self, queue: str, credit: int = 0, virtualhost: str = DEFAULT) -> Consumer:
        connection = self._client(virtualhost)
        found = self.engine.find_or_create_queue(connection, queue)
        consumer = self._attach(connection, found, "receiver")
        self.consume(consumer, credit)
        return consumer

    def subscribe(self, topic: str, name: str = "", *, durable: bool = False, virtualhost: str = DEFAULT) -> Consumer:
        """Attach a consumer to a topic, with a subscription of this name if it is durable."""
        connection, engine = self._client(virtualhost), self.engine
        exchange, key = engine.routing.topic(engine.virtualhost(virtualhost), topic)
        spec = SubscriptionSpec(
            topic, exchange.name, key or everything(exchange), connection.container_id, name, durable=durable
        )
        queue = engine.subscriptions.subscribe(connection, spec).queue
        consumer = self._attach(connection, queue, name or "receiver")
        self._end_turn()
        return consumer

    def consume(self, consumer: Consumer, count: int) -> int:
        """Receive and acknowledge up to `count` messages; return how many there were."""
        consumer.credit += count
        consumer.queue.touch()
        self._end_turn()
        mine = [m for c, m in self.acquired if c is consumer]
        self.acquired = [(c, m) for c, m in self.acquired if c is not consumer]
        for message in mine:
            consumer.queue.remove(consumer, message)
        consumer.credit = 0
        self._end_turn()
        return len(mine)

    def publish_encoded(self, queue: str, *messages: bytes, virtualhost: str = DEFAULT) -> None:
        """Put encoded AMQP messages into a queue, whatever its flow control says."""
        found = self.engine.queue(virtualhost, queue)
        for message in messages:
            found.enqueue(message)
        self._end_turn()

    # -- inside ------------------------------------------------------------------------------------------------

    def _client(
        self,
        virtualhost: str,
        user: str | None = None,
        container_id: str = "test",
        product: str = "test client",
    ) -> Connection:
        peer = _Peer()
        connection = self.engine.open_connection(
            f"vhost:{virtualhost}",
            user=user,
            remote_address="127.0.0.1:40000",
            container_id=container_id,
            idle_timeout=0,
            product=product,
            product_version="1.0",
            handle=peer,
        )
        peer.close = lambda: self._close(connection)
        return connection

    def _close(self, connection: Connection) -> None:
        for consumer in list(connection.consumers):
            self._detach_consumer(consumer)
        self.engine.close_connection(connection)

    def _detach_consumer(self, consumer: Consumer) -> None:
        mine = [m for c, m in self.acquired if c is consumer]
        self.acquired = [(c, m) for c, m in self.acquired if c is not consumer]
        for message in mine:
            consumer.queue.put_back(consumer, message, failed=True)
        self.engine.detach(consumer)

    def _attach(self, connection: Connection, queue: Queue, link: str) -> Consumer:
        port = _ConsumerLink()
        consumer = self.engine.attach_consumer(connection, queue, link, port, browsing=False)
        port.detach = lambda: self._detach_consumer(consumer)
        consumer.acquired = lambda: [message for by, message in self.acquired if by is consumer]
        return consumer

    def _check(self) -> None:
        if not self.reachable:
            raise BrokerUnreachable("the broker cannot be reached")

    def _answer(self, value: T) -> T:
        self._end_turn()
        return value

    def _end_turn(self) -> None:
        """Do as a server after each input: dispatch, grant credit, carry out effects, journal facts."""
        turn, agenda = self.engine.turn, self.engine.agenda
        while agenda.touched or turn.effects or agenda.redispatch:
            agenda.touched.update(agenda.redispatch)
            agenda.redispatch.clear()
            while agenda.touched:
                queue = agenda.touched.pop()
                for consumer, messages in queue.dispatch():
                    self.acquired.extend((consumer, m) for m in messages)
                queue.gate.grant()
                agenda.changed.add(queue)
            for effect in turn.take_effects():
                self._carry_out(effect)
        agenda.free_some()
        turn.take_records()
        for fact in turn.take_facts():
            self.engine.last_event += 1
            event = Event(self.engine.last_event, fact.at, fact.kind, fact.object, fact.text, fact.attributes)
            self._events.append(event)
            for loop, reader in list(self._event_readers):
                loop.call_soon_threadsafe(reader.put_nowait, event)
        del self._events[: -self._keep]

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Drain):
            effect.port.drain()
        elif isinstance(effect, (Detach, Close)):
            effect.port.end(effect.condition, effect.description)


class _ProducerLink:
    """A producer's link: ignores settlements, and answers a drain at once."""

    producer: Producer
    detach: Callable[[], None]

    @property
    def client_link(self) -> _ProducerLink:
        return self

    def sync_credit(self) -> None: ...

    def drain(self) -> None:
        if self.producer.draining:
            self.producer.queue.credit_returned(self.producer, self.producer.credit)

    def settle(self, count: int, outcome: Outcome) -> None: ...

    def end(self, condition: str, description: str) -> None:
        self.detach()


class _ConsumerLink:
    """A consumer's link: `InMemoryBroker.consume` receives the messages."""

    detach: Callable[[], None] = staticmethod(lambda: None)

    def send(self, messages: list[Message]) -> None: ...

    def confirm(self, count: int) -> None: ...

    def settle_discharged(self, acknowledgement: Any) -> None: ...

    def end(self, condition: str, description: str) -> None:
        self.detach()


class _Peer:
    """A client's connection."""

    close: Callable[[], None]

    def end(self, condition: str, description: str) -> None:
        self.close()
