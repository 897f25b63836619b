"""Creation and deletion of queues, with their policies, stops, bindings, links and stores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from brokers.admin import AlreadyExists
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Detach, PersistRecord
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.active_subscriptions import ActiveSubscriptions
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.links import Links
from brokers.engine.services.queue_facts import queue_fact
from brokers.engine.services.records import Records
from brokers.engine.services.routing import Routing
from brokers.engine.services.shortages import Shortages
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.stores import OpenStores
from brokers.engine.values.names import check_name
from brokers.engine.values.policy import Value


class QueueLifecycle:
    """See the module."""

    def __init__(
        self,
        registry: Registry,
        agenda: Agenda[Queue],
        *,
        stores: OpenStores,
        enforcement: Enforcement,
        stopping: Stopping,
        shortages: Shortages,
        routing: Routing,
        subscriptions: ActiveSubscriptions,
        links: Links,
        records: Records,
    ) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn
        self.stores = stores
        self.enforcement = enforcement
        self.stopping = stopping
        self.shortages = shortages
        self.routing = routing
        self.subscriptions = subscriptions
        self.links = links
        self.records = records
        self._temp_ids = count(1)

    def create(
        self,
        host: VirtualHost,
        name: str,
        own: Mapping[str, Value] | None = None,
        *,
        durable: bool = False,
        transient: bool = False,
    ) -> Queue:
        """Create a queue. Raises InvalidValue for its name or policy, AlreadyExists, AdminError if it is durable and no
        store can be opened."""
        check_name("queue", name)
        if name in host.queues:
            raise AlreadyExists(f"there is a queue {name} in virtual host {host.name} already")
        settings, limits = self.enforcement.effective(self.enforcement.layers(host, name, own or {}))
        number = 0
        if durable:
            self.stores.open(host)
            number = self.registry.last_store_id = self.registry.last_store_id + 1
            self.records.persist_broker()
        queue = self.add(host, name, own or {}, number)
        queue.transient = transient
        queue.gate.set_limits(limits, settings)
        host.limits_changed()
        queue_fact(queue, "queue-created", "Create")
        self.stopping.stop_covered(queue)
        for usage in self.shortages.of(host):
            queue.gate.begin_shortage(usage)
        self.agenda.changed.add(queue)
        self.records.persist_queue(queue)
        return queue

    def add(self, host: VirtualHost, name: str, own: Mapping[str, Value], number: int) -> Queue:
        """Add a queue to the registry, with limits still to be set. `number`: its number in the store; 0 if it is not
        durable."""
        temp_id = next(self._temp_ids)
        queue = Queue(host.name, name, self.agenda, own, temp_id=temp_id, store_id=number, store=host.store)
        if queue.durable is not None:
            queue.durable.store.name_queue(number, name)
        queue.gate.use(host.meter)
        host.queues[name] = queue
        host.policies.add(name)
        return queue

    def set_own_policy(self, queue: Queue, own: Mapping[str, Value]) -> None:
        """Set the queue's own policy fields. Raises InvalidValue if they contradict each other or inherited ones."""
        self.enforcement.set_own(queue, own)
        queue.version += 1
        self.agenda.changed.add(queue)
        self.records.persist_queue(queue)

    def delete(self, queue: Queue, why: str = "") -> None:
        """Delete a queue and its messages, and detach its links. `why`: the description in the detach."""
        self.subscriptions.forget(queue)
        self.registry.owners.pop(queue, None)
        links: list[Producer | Consumer] = [
            *queue.gate.producers,
            *queue.dispatcher.destructive,
            *queue.dispatcher.browsers,
        ]
        for link in links:
            text = why or f"queue {queue.name} was deleted"
            self.turn.effects.append(Detach(link.handle, "amqp:resource-deleted", text))
            self.links.detach(link)
        self.routing.unbind_everywhere(queue)
        host = self.registry.host_of(queue)
        del host.queues[queue.name]
        host.limits_changed()
        host.policies.drop(queue.name)
        queue.close()
        for scope in [s for s in self.registry.stops if s.virtualhost == queue.virtualhost and s.queue == queue.name]:
            self.stopping.drop_stop(scope, f"queue {queue.name} was deleted")
        queue_fact(queue, "queue-deleted", "Deleted")
        self.turn.records.append(PersistRecord("queue", str(queue.object_name), None))
