"""The broker, composed of its registry and services; and the methods that the server calls.

Errors that a client can cause are raised as the errors of `brokers.admin`, since both the management node and the links
answer with them. What must survive a restart is left in `turn.records`, record by record.
"""

from __future__ import annotations

from brokers.engine.flow.turn import Turn
from brokers.engine.ports import Stores
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.accounts import Accounts
from brokers.engine.services.active_subscriptions import ActiveSubscriptions
from brokers.engine.services.addresses import Addresses
from brokers.engine.services.clients import Clients
from brokers.engine.services.closing import Closing
from brokers.engine.services.dead_letters import DeadLetters
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.links import Links
from brokers.engine.services.message_changes import MessageChanges
from brokers.engine.services.message_lists import MessageLists
from brokers.engine.services.message_reading import MessageReading
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.records import Records
from brokers.engine.services.restoring import Restoring
from brokers.engine.services.routing import Routing
from brokers.engine.services.shortages import Shortages
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.stored_messages import StoredMessages
from brokers.engine.services.stores import OpenStores
from brokers.engine.services.subscriptions import Subscriptions
from brokers.engine.services.temporary import Temporary
from brokers.engine.services.transactions import Transactions
from brokers.engine.services.upkeep import Upkeep
from brokers.engine.services.virtualhost_lifecycle import VirtualHostLifecycle
from brokers.model import ObjectName, object_name


class Broker:
    """`started`, `now`: ms since the epoch. `version`: of the product. `stores`: see `OpenStores`. `log`: where the
    broker log is, for people. `journal`: identity of the journal that numbers the events; `last_event`: the newest."""

    def __init__(self, now: int, *, version: str = "", stores: Stores | None = None) -> None:
        self.started = now
        self.product_version = version
        self.object_name: ObjectName = object_name("Broker")
        self.last_event = 0
        self.log = ""
        self.journal = ""
        self.turn = turn = Turn(now)
        self.registry = registry = Registry()
        self._compose(turn, registry, stores)
        self._expose(registry)

    def _compose(self, turn: Turn, registry: Registry, stores: Stores | None) -> None:
        """Create the services; each depends on earlier ones only. One list, since this order is its content."""
        self.stores = OpenStores(stores)
        turn.temp = self.stores.open_temp
        self.agenda = agenda = Agenda[Queue](turn)
        self.enforcement = Enforcement(registry, agenda)
        self.stopping = Stopping(registry, turn)
        self.routing = Routing(registry, turn, self.enforcement, self.stopping)
        self.shortages = Shortages(registry, agenda, self.stores)
        self.slow_consumers = SlowConsumers(registry, turn)
        self.active_subscriptions = ActiveSubscriptions(registry, turn, self.slow_consumers)
        self.links = Links(registry, turn)
        self.accounts = Accounts(registry, turn)
        self.transactions = Transactions(registry, turn)
        self.records = Records(registry, turn, self.shortages)
        self.queue_lifecycle = QueueLifecycle(
            registry,
            agenda,
            stores=self.stores,
            enforcement=self.enforcement,
            stopping=self.stopping,
            shortages=self.shortages,
            routing=self.routing,
            subscriptions=self.active_subscriptions,
            links=self.links,
            records=self.records,
        )
        self.virtualhost_lifecycle = VirtualHostLifecycle(
            registry,
            turn,
            stores=self.stores,
            queues=self.queue_lifecycle,
            routing=self.routing,
            enforcement=self.enforcement,
            slow_consumers=self.slow_consumers,
            shortages=self.shortages,
            stopping=self.stopping,
            accounts=self.accounts,
            transactions=self.transactions,
            records=self.records,
        )
        self.subscriptions = Subscriptions(
            registry, turn, self.routing, self.queue_lifecycle, self.active_subscriptions
        )
        self.temporary = Temporary(registry, self.routing, self.queue_lifecycle)
        self.dead_letters = DeadLetters(registry, agenda, self.queue_lifecycle)
        self.addresses = Addresses(registry, self.routing, self.queue_lifecycle)
        self.clients = Clients(registry, turn, self.links, self.subscriptions, self.transactions)
        self.closing = Closing(registry, turn, self.clients)
        self.stored_messages = StoredMessages(agenda, self.transactions, self.records)
        self.message_lists = MessageLists()
        self.message_reading = MessageReading()
        self.message_changes = MessageChanges(registry, self.dead_letters)
        self.upkeep = Upkeep(
            registry,
            agenda,
            queues=self.queue_lifecycle,
            slow_consumers=self.slow_consumers,
            stopping=self.stopping,
            dead_letters=self.dead_letters,
        )
        self.restoring = Restoring(
            registry,
            agenda,
            stores=self.stores,
            accounts=self.accounts,
            shortages=self.shortages,
            enforcement=self.enforcement,
            routing=self.routing,
            stopping=self.stopping,
            slow_consumers=self.slow_consumers,
            subscriptions=self.active_subscriptions,
            queues=self.queue_lifecycle,
            virtualhosts=self.virtualhost_lifecycle,
        )

    def _expose(self, registry: Registry) -> None:
        """Offer what the server and the protocol layer use most as attributes of the broker, without an extra call."""
        self.virtualhosts = registry.virtualhosts
        self.connections = registry.connections
        self.producers = registry.producers
        self.consumers = registry.consumers
        self.stops = registry.stops
        self.virtualhost = registry.virtualhost
        self.queue = registry.queue
        self.queues = registry.queues
        self.create_virtualhost = self.virtualhost_lifecycle.create
        self.delete_virtualhost = self.virtualhost_lifecycle.delete
        self.create_queue = self.queue_lifecycle.create
        self.add_queue = self.queue_lifecycle.add
        self.delete_queue = self.queue_lifecycle.delete
        self.set_own_policy = self.queue_lifecycle.set_own_policy
        self.set_virtualhost_defaults = self.enforcement.set_virtualhost_defaults
        self.set_broker_defaults = self.enforcement.set_broker_defaults
        self.open_connection = self.clients.open_connection
        self.close_connection = self.clients.close_connection
        self.end_connection = self.clients.end_connection
        self.detach = self.clients.detach
        self.attach_producer = self.links.attach_producer
        self.attach_consumer = self.links.attach_consumer
        self.refuse_producer = self.links.refuse_producer
        self.find_or_create_queue = self.addresses.find_or_create_queue
        self.resolve_target = self.addresses.resolve_target
        self.recover = self.stored_messages.recover
        self.committed = self.stored_messages.committed
        self.spooled = self.stored_messages.spooled
        self.sweep = self.upkeep.sweep
        self.expire = self.upkeep.expire
        self.release = self.upkeep.release
        self.clock_set = self.upkeep.clock_set
        self.sample = self.upkeep.sample
        self.restore = self.restoring.restore
