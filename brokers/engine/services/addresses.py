"""The addresses that clients attach to; unknown queues are created if the virtual host allows it."""

from __future__ import annotations

from brokers.admin import NotFound
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.routing import Routing, Target
from brokers.engine.services.temporary_names import check_not_temporary


class Addresses:
    """See the module."""

    def __init__(self, registry: Registry, routing: Routing, queues: QueueLifecycle) -> None:
        self.registry = registry
        self.routing = routing
        self.queues = queues

    def find_or_create_queue(self, connection: Connection, name: str) -> Queue:
        """Return the queue a client attaches to. Raises NotFound if the virtual host does not create queues on
        attach."""
        host = self.registry.virtualhosts[connection.virtualhost]
        queue = host.queues.get(name)
        if queue is not None:
            return queue
        check_not_temporary(name)
        if not host.create_on_attach:
            raise NotFound(f"there is no queue {name} in virtual host {host.name}, and clients may not create it")
        return self.queues.create(host, name, durable=host.durable_queues)

    def resolve_target(self, connection: Connection, address: str, *, topic: bool = False) -> Target:
        """Resolve a producer's address, see `Routing.find`; an unknown name stands for a queue, or with `topic` for a
        topic. Raises NotFound if the virtual host does not create queues and topics on attach."""
        host = self.registry.virtualhosts[connection.virtualhost]
        found = self.routing.topic(host, address) if topic else self.routing.find(host, address)
        return found if found is not None else self.find_or_create_queue(connection, address)
