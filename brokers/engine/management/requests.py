"""Requests on managed objects: read, query, create, update, delete, call. Values in, values out.

The management node calls it for requests by AMQP, and the in-memory admin interface calls it directly; the errors are
those of `brokers.admin`. `brokers/model/` declares types, attributes and operations; the classes in `resources/`
implement them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokers.admin import ManagedObject, NotFound, Page
from brokers.engine.broker import Broker
from brokers.engine.management.queries import Query
from brokers.engine.management.resources.broker import BrokerResource
from brokers.engine.management.resources.client import ConnectionResource, ConsumerResource, ProducerResource
from brokers.engine.management.resources.exchange import ExchangeResource
from brokers.engine.management.resources.policy import PolicyResource
from brokers.engine.management.resources.queue import QueueResource
from brokers.engine.management.resources.resource import ManagedObjects
from brokers.engine.management.resources.subscription import SlowConsumerPolicyResource, SubscriptionResource
from brokers.engine.management.resources.user import UserResource
from brokers.engine.management.resources.virtualhost import VirtualHostResource
from brokers.model import TYPES, ObjectName


class Management:
    """See the module. `actor`: the user of the connection of the request."""

    def __init__(self, broker: Broker) -> None:
        self.queues = QueueResource(broker)
        self.resources: Mapping[str, ManagedObjects] = {
            "Broker": BrokerResource(broker),
            "VirtualHost": VirtualHostResource(broker),
            "Queue": self.queues,
            "Policy": PolicyResource(broker),
            "Exchange": ExchangeResource(broker),
            "Subscription": SubscriptionResource(broker),
            "SlowConsumerPolicy": SlowConsumerPolicyResource(broker),
            "Connection": ConnectionResource(broker),
            "Producer": ProducerResource(broker),
            "Consumer": ConsumerResource(broker),
            "User": UserResource(broker.accounts),
        }

    def _of(self, type_name: str) -> ManagedObjects:
        try:
            return self.resources[type_name]
        except KeyError:
            raise NotFound(f"{type_name!r} is not a type of managed objects: there are {', '.join(TYPES)}") from None

    def read(self, name: ObjectName) -> ManagedObject:
        """Read an object. Raises NotFound."""
        return self._of(name.type).read(name)

    def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
        visible: Callable[[ObjectName], bool] | None = None,
    ) -> Page:
        """See `queries.Query`. Raises NotFound for an unknown type, InvalidValue."""
        return self._of(type_name).query(Query(where, search, sort, offset, count, visible))

    def create(self, name: ObjectName, attributes: Mapping[str, Any], actor: str = "") -> ManagedObject:
        """Create an object. Raises NotAllowed, InvalidValue, AlreadyExists."""
        return self._of(name.type).create(name, attributes, actor)

    def update(self, name: ObjectName, attributes: Mapping[str, Any], version: int, actor: str = "") -> ManagedObject:
        """Update an object. Raises NotFound, NotAllowed, StaleVersion, InvalidValue."""
        return self._of(name.type).update(name, attributes, version, actor)

    def delete(self, name: ObjectName, version: int | None = None, actor: str = "") -> None:
        """Delete an object. `version` None: any. Raises NotFound, NotAllowed, StaleVersion, InvalidValue."""
        self._of(name.type).delete(name, version, actor)

    def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], actor: str = ""
    ) -> Mapping[str, Any]:
        """Call an operation. Raises NotFound, also for an unknown operation, InvalidValue, and the operation's
        errors."""
        return self._of(name.type).call(name, operation, arguments, actor)
