"""Creation and deletion of virtual hosts, with all their objects."""

from __future__ import annotations

from brokers.admin import AlreadyExists, InvalidValue
from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.accounts import Accounts
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.records import Records
from brokers.engine.services.routing import Routing
from brokers.engine.services.shortages import Shortages
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.stores import OpenStores
from brokers.engine.services.transactions import Transactions
from brokers.engine.values.names import check_name


class VirtualHostLifecycle:
    """See the module."""

    def __init__(
        self,
        registry: Registry,
        turn: Turn,
        *,
        stores: OpenStores,
        queues: QueueLifecycle,
        routing: Routing,
        enforcement: Enforcement,
        slow_consumers: SlowConsumers,
        shortages: Shortages,
        stopping: Stopping,
        accounts: Accounts,
        transactions: Transactions,
        records: Records,
    ) -> None:
        self.registry = registry
        self.turn = turn
        self.stores = stores
        self.queues = queues
        self.routing = routing
        self.enforcement = enforcement
        self.slow_consumers = slow_consumers
        self.shortages = shortages
        self.stopping = stopping
        self.accounts = accounts
        self.transactions = transactions
        self.records = records

    def create(self, name: str) -> VirtualHost:
        """Create a virtual host. Raises InvalidValue for its name, AlreadyExists."""
        check_name("virtual host", name)
        if name in self.registry.virtualhosts:
            raise AlreadyExists(f"there is a virtual host {name} already")
        host = self.add(name)
        self.records.persist_virtualhost(host)
        return host

    def add(self, name: str) -> VirtualHost:
        """Add a virtual host to the registry."""
        host = self.registry.virtualhosts[name] = VirtualHost(name)
        host.meter = self.shortages.meter(host)
        return host

    def delete(self, host: VirtualHost) -> None:
        """Delete a virtual host. Raises InvalidValue while it has open connections."""
        if any(c.virtualhost == host.name for c in self.registry.connections.values()):
            raise InvalidValue({"name": f"virtual host {host.name} has open connections: close them first"})
        for queue in list(host.queues.values()):
            self.queues.delete(queue)
        for exchange in list(host.exchanges.values()):
            self.routing.delete_exchange(exchange)
        for policy in list(host.policies.by_pattern.values()):
            self.enforcement.delete_policy(policy)
        for slow in list(host.slow_consumer_policies.values()):
            self.slow_consumers.delete(slow)
        del self.registry.virtualhosts[host.name]
        self.shortages.forget(host)
        self.accounts.forget_virtualhost(host.name)
        if self.stores.drop(host):
            self.transactions.forget(host.name)
        for scope in [s for s in self.registry.stops if s.virtualhost == host.name]:
            self.stopping.drop_stop(scope, f"virtual host {host.name} was deleted")
        self.turn.records.append(PersistRecord("virtualhost", str(host.object_name), None))
