"""A virtual host: a name space of queues and exchanges, with policies for its queues and rules for its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.ports import Store
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.slow_consumer import SlowConsumerPolicy
from brokers.engine.registry.subscription import Subscription
from brokers.engine.values.policy import Policies, Value
from brokers.model import ObjectName, object_name

DEFAULT = "default"


class VirtualHost:
    """`defaults`: policy fields for its queues. `policies`: destination policies by pattern. `bound`: the exchanges
    that a queue is bound to, in the order of its first binding to each. `create_on_attach`: unknown queues are created
    when a client attaches; `durable_queues`: as durable ones. `anonymous`: clients that did not sign in may publish and
    consume. `transaction_idle_limit_ms`: transactions idle for this time are rolled back; 0: never. `store`: of its
    durable queues' messages, None before the first such queue; `left_out`: how often its queues have left out numbers
    of messages that could not be read (`values.message.LEFT_OUT`); `store_limits`: those of `store_overfull_bytes` and
    `store_underfull_bytes` that are set; `meter`: counts what its queues use of all limits. `subscriptions`: those with
    a name, by identity. `slow_consumer_policies`: by name. `dead_letter_sources`: dead-letter queue -> number of queues
    whose dead letters go to it."""

    __slots__ = (
        "_dead_letter_sources",
        "anonymous",
        "bound",
        "create_on_attach",
        "defaults",
        "durable_queues",
        "exchanges",
        "left_out",
        "meter",
        "name",
        "object_name",
        "policies",
        "queues",
        "slow_consumer_policies",
        "store",
        "store_limits",
        "store_usage",
        "subscriptions",
        "transaction_idle_limit_ms",
        "version",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.object_name: ObjectName = object_name("VirtualHost", name=name)
        self.version = 1
        self.defaults: dict[str, Value] = {}
        self.create_on_attach = False
        self.durable_queues = True
        self.anonymous = False
        self.transaction_idle_limit_ms = 0
        self.store: Store | None = None
        self.left_out = 0
        self.store_limits: dict[str, int] = {}
        self.store_usage = Usage(Resource.STORE, blocks_all=True)
        self.meter = Meter(quota=self.store_usage)
        self.queues: dict[str, Queue] = {}
        self.policies = Policies()
        self.exchanges: dict[str, Exchange] = {}
        self.bound: dict[Queue, tuple[Exchange, ...]] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.slow_consumer_policies: dict[str, SlowConsumerPolicy] = {}
        self._dead_letter_sources: Counter[str] | None = None

    @property
    def dead_letter_sources(self) -> Mapping[str, int]:
        if self._dead_letter_sources is None:
            names = ((queue.gate.limits.dead_letter_queue, queue.name) for queue in self.queues.values())
            self._dead_letter_sources = Counter(name for name, source in names if name and name != source)
        return self._dead_letter_sources

    def limits_changed(self) -> None:
        """Count the dead-letter sources again when they are next read: limits of queues have changed, or queues have
        come or gone."""
        self._dead_letter_sources = None
