"""Subscriptions to topics, in the terms of Qpid JMS: capabilities, names, filters, durability; and their own link.

| what | how a client requests it |
|---|---|
| a topic | capability `topic` or `temporary-topic` of the terminus, or an address `topic://NAME` |
| an exchange | for a source, its name or `exchange/routing-key` |
| a durable subscription | the source's durability, or its expiry policy `never`; named by the link, up to a `|` |
| a shared one | capability `shared` of the source; with `global` it belongs to all clients |
| no messages of the client's own | the filter `no-local` |
| to unsubscribe a durable one | a link of that name that is attached without a source, and closed |

A durable subscription survives a detach, a lost connection and a restart. *Closing* its link ends it, unless others
share it, as the standard requires: a client that will reconnect detaches.
"""

from __future__ import annotations

from typing import Any

from proton import Described, symbol

from brokers.amqp import proton as pn
from brokers.amqp.consumer_link import ConsumerLink
from brokers.amqp.filters import SELECTOR, selector_of
from brokers.amqp.link_context import LinkContext
from brokers.engine.broker import Broker
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.subscription import Subscription, SubscriptionSpec
from brokers.engine.services.subscriptions import everything
from brokers.engine.values.message import sequence_of

TOPIC, TEMPORARY_TOPIC, QUEUE, SHARED, GLOBAL = "topic", "temporary-topic", "queue", "shared", "global"
SCHEME = "topic://"

#: Separates a subscription's name from a client's suffix that makes the name of its link unique.
DELIMITER = "|"

#: The descriptors of the filter: its symbol, and its number.
_NO_LOCAL = ("apache.org:no-local-filter:list", 0x0000468C00000003)


class SubscriberLink(ConsumerLink):
    """A link that consumes from a subscription."""

    __slots__ = ("subscription",)

    def __init__(self, context: LinkContext, pointer: Any, subscription: Subscription, *, presettled: bool) -> None:
        super().__init__(context, pointer, presettled=presettled)
        self.subscription = subscription

    def oldest(self) -> int | None:
        """Return the oldest message that the client has not settled; see `Consumer.oldest`."""
        return min((sequence_of(message[0]) for message in self.unsettled.values()), default=None)

    def peer_closed(self) -> None:
        self.context.broker.subscriptions.unsubscribe(self.subscription)


def topic_name(terminus: Any) -> str | None:
    """Return the topic that a terminus names; None if it is not marked as one."""
    address = pn.terminus_address(terminus)
    if address.startswith(SCHEME):
        return address.removeprefix(SCHEME)
    capabilities = pn.terminus_capabilities(terminus)
    return address if TOPIC in capabilities or TEMPORARY_TOPIC in capabilities else None


def spec_of(broker: Broker, engine: Connection, pointer: Any) -> SubscriptionSpec | None:
    """The subscription that a receiving link asks for; None: its source is a queue. Raises AdminError."""
    source = pn.link_remote_source(pointer)
    address, topic = pn.terminus_address(source), topic_name(source)
    host = broker.virtualhosts[engine.virtualhost]
    capabilities = pn.terminus_capabilities(source)
    if topic is not None:
        exchange, key = broker.routing.topic(host, topic)
    else:
        found = None if QUEUE in capabilities else broker.routing.find(host, address)
        if not isinstance(found, tuple):
            return None
        topic, (exchange, key) = address, found
    shared, durable = SHARED in capabilities, is_durable(source)
    of_all_clients = shared and GLOBAL in capabilities
    filters = pn.terminus_filters(source)
    return SubscriptionSpec(
        topic=topic,
        exchange=exchange.name,
        key=everything(exchange) if key is None else key,
        client="" if of_all_clients else engine.container_id,
        name=subscription_name(pn.link_name(pointer)) if shared or durable else "",
        durable=durable,
        shared=shared,
        selector=selector_of(filters)[1] if broker.active_subscriptions.compile is not None else "",
        no_local=any(f.descriptor in _NO_LOCAL for f in filters.values()),
    )


def is_durable(source: Any) -> bool:
    return bool(pn.terminus_durability(source) != pn.NONDURABLE or pn.terminus_expiry_policy(source) == pn.EXPIRE_NEVER)


def subscription_name(link: str) -> str:
    return link.partition(DELIMITER)[0]


def is_global(link: str) -> bool:
    """Return whether a link without a source names a subscription of all clients."""
    return link.partition(DELIMITER)[2].startswith(GLOBAL)


def confirm(pointer: Any, spec: SubscriptionSpec) -> None:
    """Set the applied filters in the local source, which is a copy of the remote one."""
    applied = {}
    if spec.no_local:
        applied[symbol("no-local")] = Described(symbol(_NO_LOCAL[0]), [])
    if spec.selector:
        applied[symbol("jms-selector")] = Described(symbol(SELECTOR[0]), spec.selector)
    pn.set_terminus_filter(pn.link_source(pointer), applied)


def describe(pointer: Any, spec: SubscriptionSpec) -> None:
    """Describe a durable subscription to a client that attached by its name only."""
    source = pn.link_source(pointer)
    pn.terminus_set_type(source, pn.SOURCE)
    pn.set_terminus_address(source, spec.topic)
    pn.terminus_set_durability(source, pn.DELIVERIES)
    pn.terminus_set_expiry_policy(source, pn.EXPIRE_NEVER)
    shared = (SHARED,) if spec.shared else ()
    of_all_clients = (GLOBAL,) if spec.shared and not spec.client else ()
    pn.set_terminus_capabilities(source, TOPIC, *shared, *of_all_clients)
    confirm(pointer, spec)
