"""The managed types of clients: Connection, Producer, Consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from brokers.admin import NotFound
from brokers.engine.broker import Broker
from brokers.engine.flow.credit import draining
from brokers.engine.flow.producer import Producer
from brokers.engine.management.resources.resource import ManagedResource, OperationCall, Reader, Values
from brokers.engine.management.resources.shared_readers import time_reader
from brokers.engine.management.waiting import waits, waits_for
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection
from brokers.engine.services.closing import Consequences
from brokers.model import ObjectName


class Numbered(Protocol):
    """An object that is named by a number."""

    @property
    def name(self) -> ObjectName: ...


N = TypeVar("N", bound=Numbered)
T = TypeVar("T")


def _close_operations(
    close: Callable[[T, str, str], None], preview: Callable[[T], Consequences]
) -> dict[str, OperationCall[T]]:
    """Return the operations `close` and `preview-close`."""

    def perform(thing: T, given: Values) -> dict[str, Any]:
        close(thing, given.get("reason", ""), given["actor"])
        return {}

    return {"close": perform, "preview-close": lambda thing, given: asdict(preview(thing))}


def _look_up(things: Mapping[int, N], name: ObjectName) -> N:
    """Return the object with this name. Raises NotFound, also if only the virtual host is wrong."""
    number = name["id"]
    thing = things.get(int(number)) if number.isdecimal() and len(number) < 20 else None
    if thing is None or thing.name != name:
        raise NotFound(f"there is no {name.type.lower()} {name}")
    return thing


class ConnectionResource(ManagedResource[Connection]):
    type_name = "Connection"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            "virtualhost": lambda c: c.virtualhost,
            "id": lambda c: c.id,
            "remote_address": lambda c: c.remote_address,
            "container_id": lambda c: c.container_id,
            "user": lambda c: c.user,
            "product": lambda c: c.product,
            "product_version": lambda c: c.product_version,
            "opened": time_reader(broker.turn, lambda c: c.opened),
            "producers": lambda c: len(c.producers),
            "consumers": lambda c: len(c.consumers),
            "blocked_producers": lambda c: sum(producer.blocked for producer in c.producers),
            "unacknowledged_messages": lambda c: sum(consumer.unacknowledged for consumer in c.consumers),
            "open_transactions": lambda c: len(c.transactions),
            "oldest_transaction": lambda c: min((t.began for t in c.transactions.values()), default=None),
            "idle_timeout": lambda c: c.idle_timeout,
            "version": lambda c: 1,
        }
        closing = broker.closing
        self.operations = _close_operations(closing.close_connection, closing.of_connection)

    def all(self) -> Iterable[Connection]:
        return self.broker.connections.values()

    def look_up(self, name: ObjectName) -> Connection:
        return _look_up(self.broker.connections, name)

    def name_of(self, thing: Connection) -> ObjectName:
        return thing.name


def _link_readers() -> dict[str, Reader[Producer | Consumer]]:
    """Return the readers of attributes that both types of link have."""
    return {
        "virtualhost": lambda link: link.connection.virtualhost,
        "id": lambda link: link.id,
        "queue": lambda link: str(link.queue.object_name),
        "connection": lambda link: str(link.connection.name),
        "link": lambda link: link.link,
        "client": lambda link: link.connection.client,
        "credit": lambda link: link.credit,
        "messages": lambda link: link.messages,
        "version": lambda link: 1,
    }


class ProducerResource(ManagedResource[Producer]):
    type_name = "Producer"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        turn = broker.turn
        self.readers = {
            **_link_readers(),
            "state": lambda p: "BLOCKED" if p.blocked else "RUNNING",
            "reasons": lambda p: list(p.reasons),
            "blocked_since": time_reader(turn, lambda p: p.blocked_since),
            "blocked_ms": lambda p: p.blocked_ms + p.blocked_for(turn.now),
            "blocked_count": lambda p: p.blocked_count,
            "release": lambda p: p.release_condition(),
            "waits_for": lambda p: waits_for(p, turn.now),
            "waiting_since": time_reader(turn, lambda p: p.without_since if waits(p) else None),
            "unsettled_messages": lambda p: p.unsettled,
            "draining": lambda p: draining([p]) > 0,
            "bytes": lambda p: p.bytes,
        }
        self.operations = _close_operations(broker.closing.close_producer, broker.closing.of_producer)

    def all(self) -> Iterable[Producer]:
        return self.broker.producers.values()

    def look_up(self, name: ObjectName) -> Producer:
        return _look_up(self.broker.producers, name)

    def name_of(self, thing: Producer) -> ObjectName:
        return thing.name


class ConsumerResource(ManagedResource[Consumer]):
    type_name = "Consumer"

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.readers = {
            **_link_readers(),
            "browsing": lambda c: c.browsing,
            "unacknowledged_messages": lambda c: c.unacknowledged,
        }
        self.operations = _close_operations(broker.closing.close_consumer, broker.closing.of_consumer)

    def all(self) -> Iterable[Consumer]:
        return self.broker.consumers.values()

    def look_up(self, name: ObjectName) -> Consumer:
        return _look_up(self.broker.consumers, name)

    def name_of(self, thing: Consumer) -> ObjectName:
        return thing.name
