"""Attaching: open a client's link as a producer, a consumer, a fan-out, or a node's link, or refuse it.

One function for both directions. Permissions are checked here, and the link is opened as it was granted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokers.admin import AdminError, NotFound
from brokers.amqp import proton as pn
from brokers.amqp.consumer_link import ConsumerLink
from brokers.amqp.coordinator_link import CoordinatorLink
from brokers.amqp.fan_out_link import FanOutLink, Route
from brokers.amqp.filters import read_filters
from brokers.amqp.incoming_link import IncomingLink
from brokers.amqp.link import Link
from brokers.amqp.link_context import LinkContext
from brokers.amqp.node_links import Node, NodeSource, NodeTarget
from brokers.amqp.producer_link import ProducerLink
from brokers.amqp.properties import properties
from brokers.amqp.refusals import Refused
from brokers.amqp.subscriber_link import (
    SCHEME,
    TEMPORARY_TOPIC,
    TOPIC,
    SubscriberLink,
    confirm,
    describe,
    is_durable,
    is_global,
    spec_of,
    subscription_name,
    topic_name,
)
from brokers.amqp.temporary_link import TemporarySource, TemporaryTarget, TemporaryTopicTarget, describe_dynamic
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.subscription import Subscription
from brokers.engine.services.fan_out import FanOut

#: How a receiver requests message groups: by a capability of its source or, if a client cannot set one (JMS), by this
#: suffix of the address, unless a queue has exactly that name.
GROUPS, GROUPS_PARAMETER = "message-groups", "?message-groups=true"


def attach(context: LinkContext, pointer: Any, engine: Connection, *, channel: int, nodes: Mapping[str, Node]) -> Link:
    """Open the link and return its object. `channel`: the number of its session on the connection; `nodes`: addresses
    that are not queues. Raises AdminError or Refused: then the link is not open yet."""
    attaching = _Attaching(context, engine, channel, nodes)
    return attaching.source(pointer) if pn.link_is_sender(pointer) else attaching.target(pointer)


class _Attaching:
    def __init__(self, context: LinkContext, engine: Connection, channel: int, nodes: Mapping[str, Node]) -> None:
        self.context = context
        self.broker = context.broker
        self.engine = engine
        self.channel = channel
        self.nodes = nodes

    def source(self, pointer: Any) -> Link:
        """Attach a link on which the client receives."""
        remote = pn.link_remote_source(pointer)
        address = pn.terminus_address(remote)
        if pn.terminus_type(remote) == pn.UNSPECIFIED:
            return self._attach_by_name(pointer)
        if pn.terminus_is_dynamic(remote):
            return self._attach_dynamic_source(pointer)
        if address.startswith("$"):
            return self._attach_node_source(pointer, address)
        if not address:
            raise Refused("amqp:not-implemented", "the source has no address: a consumer needs a queue")
        self._check_right("consume")
        host, durable = self.broker.virtualhosts[self.engine.virtualhost], is_durable(remote)
        spec = spec_of(self.broker, self.engine, pointer)
        if spec is not None:
            self.broker.temporary.check_consumer(self.engine, host.exchanges[spec.exchange], durable=durable)
            subscription = self.broker.subscriptions.subscribe(self.engine, spec)
            pn.terminus_copy(pn.link_source(pointer), remote)
            confirm(pointer, spec)
            return self._open_subscriber(pointer, subscription)
        filters = read_filters(pn.terminus_filters(remote))
        grouped = GROUPS in pn.terminus_capabilities(remote)
        plain = address.removesuffix(GROUPS_PARAMETER)
        if plain != address and address not in host.queues:
            address, grouped = plain, True
        queue = self.broker.find_or_create_queue(self.engine, address)
        self.broker.temporary.check_consumer(self.engine, queue, durable=durable)
        browsing = pn.terminus_distribution_mode(remote) == pn.DIST_MODE_COPY
        link = ConsumerLink(self.context, pointer, presettled=_presettled(pointer))
        pn.terminus_copy(pn.link_source(pointer), remote)
        pn.set_terminus_filter(pn.link_source(pointer), filters.applied)  # what is not confirmed is not applied
        return self._open_consumer(pointer, link, queue, browsing=browsing, selects=filters.selects, grouped=grouped)

    def _attach_by_name(self, pointer: Any) -> Link:
        """No source, or none with an address: the durable subscription of the link's name, as a client asks that will
        unsubscribe it."""
        self._check_right("consume")
        name, of_all_clients = subscription_name(pn.link_name(pointer)), is_global(pn.link_name(pointer))
        try:
            subscription = self.broker.subscriptions.named(self.engine, name, of_all_clients=of_all_clients)
        except NotFound as missing:
            raise NotFound(f"the source has no address, and {missing}") from None
        describe(pointer, subscription.spec)
        return self._open_subscriber(pointer, subscription)

    def _open_subscriber(self, pointer: Any, subscription: Subscription) -> Link:
        link = SubscriberLink(self.context, pointer, subscription, presettled=_presettled(pointer))
        # Qpid JMS requests copies on durable subscriptions: the messages of a subscription are copies already.
        self._open_consumer(pointer, link, subscription.queue, browsing=False)
        link.consumer.oldest = link.oldest
        return link

    def _open_consumer(
        self,
        pointer: Any,
        link: ConsumerLink,
        queue: Queue,
        *,
        browsing: bool,
        selects: Callable[[bytes], bool] | None = None,
        grouped: bool = False,
    ) -> Link:
        """Open the link, whose local source is set, and attach its consumer. `grouped`: with message groups."""
        pn.terminus_copy(pn.link_target(pointer), pn.link_remote_target(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.link_remote_snd_settle_mode(pointer))
        pn.link_set_rcv_settle_mode(pointer, pn.RCV_FIRST)
        pn.link_open(pointer)
        link.consumer = self.broker.attach_consumer(
            self.engine,
            queue,
            pn.link_name(pointer),
            link,
            browsing=browsing,
            selects=selects,
            group_of=(lambda body: properties(body).group) if grouped else None,
        )
        link.consumer.acquired = link.acquired
        return link

    def target(self, pointer: Any) -> Link:
        """Attach a link on which the client sends."""
        remote = pn.link_remote_target(pointer)
        address = pn.terminus_address(remote)
        if pn.terminus_type(remote) == pn.COORDINATOR:
            return self._attach_coordinator(pointer)
        if pn.terminus_is_dynamic(remote):
            return self._attach_dynamic_target(pointer)
        if address.startswith("$"):
            node_target = NodeTarget(self.context, pointer)
            self._node(address).open_target(node_target)
            self._open_target(node_target, remote)
            node_target.top_up()
            return node_target
        self._check_right("publish")
        broker, name, channel = self.broker, pn.link_name(pointer), self.channel
        topic = topic_name(remote)
        if topic is None:
            target = broker.resolve_target(self.engine, address) if address else None
        else:
            target = broker.resolve_target(self.engine, topic, topic=True)
        if isinstance(target, Queue):
            link = ProducerLink(self.context, pointer)
            self._open_target(link, remote)
            link.producer = broker.attach_producer(self.engine, target, name, channel, link)
            return link
        route = self._route_to(*target, topic=topic is not None) if target else self._route_by_message()
        fan_out_link = FanOutLink(self.context, pointer, route)
        self._open_target(fan_out_link, remote)
        fan_out_link.fan_out = FanOut(broker.links, self.engine, name, channel, fan_out_link.settled)
        fan_out_link.fan_out.handle = fan_out_link
        fan_out_link.open()
        return fan_out_link

    def _attach_coordinator(self, pointer: Any) -> Link:
        link = CoordinatorLink(self.context, pointer)
        pn.terminus_copy(pn.link_target(pointer), pn.link_remote_target(pointer))
        pn.add_target_capabilities(pointer, *CoordinatorLink.CAPABILITIES)
        pn.terminus_copy(pn.link_source(pointer), pn.link_remote_source(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.link_remote_snd_settle_mode(pointer))
        pn.link_set_rcv_settle_mode(pointer, pn.RCV_FIRST)
        pn.link_set_max_message_size(pointer, link.max_size)
        pn.link_open(pointer)
        link.open()
        return link

    def _route_to(self, exchange: Exchange, key: str | None, *, topic: bool) -> Route:
        """Route to an exchange, with the key of the address or else the subject of each message."""
        return lambda body: self._find(exchange, properties(body).subject if key is None else key, body, topic=topic)

    def _find(self, exchange: Exchange, key: str, body: bytes, *, topic: bool) -> Sequence[Queue] | str:
        """Return the queues for a message, or why it is refused. A topic without subscribers is not an error."""
        found = exchange.route(key)
        if not found and not topic:
            return "no queue is bound for this message's routing key"
        return self.broker.active_subscriptions.wanting(found, body, self.engine)

    def _route_by_message(self) -> Route:
        """Route each message by its `to`: the link has no target address (the anonymous terminus)."""

        def route(body: bytes) -> Sequence[Queue] | str:
            found = properties(body)
            if not found.to or found.to.startswith("$"):
                return f"the message's to is {found.to!r}: it must be the name of a queue or an exchange"
            topic = found.topic or found.to.startswith(SCHEME)
            try:
                target = self.broker.resolve_target(
                    self.engine, found.to.removeprefix(SCHEME) if topic else found.to, topic=topic
                )
            except AdminError as refused:
                return str(refused)
            if isinstance(target, Queue):
                return (target,)
            exchange, key = target
            return self._find(exchange, found.subject if key is None else key, body, topic=topic)

        return route

    def _open_target(self, link: IncomingLink, remote: Any, *, dynamic: str = "") -> None:
        """`dynamic`: the name of the queue or topic that was created for the link."""
        pointer = link.pointer
        if dynamic:
            describe_dynamic(pn.link_target(pointer), remote, dynamic)
        else:
            pn.terminus_copy(pn.link_target(pointer), remote)
        pn.terminus_copy(pn.link_source(pointer), pn.link_remote_source(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.link_remote_snd_settle_mode(pointer))
        pn.link_set_rcv_settle_mode(pointer, pn.RCV_FIRST)
        pn.link_set_max_message_size(pointer, link.max_size)
        pn.link_open(pointer)

    def _attach_dynamic_source(self, pointer: Any) -> Link:
        """Attach to a new temporary queue; nodes send their answers there, too, to users with permission for nodes."""
        user = self.context.user
        if user is None or not self.broker.accounts.rights(user).manages_something:
            self._check_right("consume")
        filters = read_filters(pn.terminus_filters(pn.link_remote_source(pointer)))  # may refuse: before the queue
        queue = self.broker.temporary.create_queue(self.engine)
        link = TemporarySource(self.context, pointer, presettled=_presettled(pointer))
        link.queue = queue
        describe_dynamic(pn.link_source(pointer), pn.link_remote_source(pointer), queue.name)
        pn.set_terminus_filter(pn.link_source(pointer), filters.applied)
        self._open_consumer(pointer, link, queue, browsing=False, selects=filters.selects)
        self.context.replies[queue.name] = link
        return link

    def _attach_dynamic_target(self, pointer: Any) -> Link:
        """Attach to a new temporary queue or topic: its connection consumes from it, others send to it."""
        self._check_right("consume")
        temporary, remote = self.broker.temporary, pn.link_remote_target(pointer)
        capabilities = pn.terminus_capabilities(remote)
        name, channel = pn.link_name(pointer), self.channel
        if TOPIC in capabilities or TEMPORARY_TOPIC in capabilities:
            exchange = temporary.create_topic(self.engine)
            topic = TemporaryTopicTarget(self.context, pointer, self._route_to(exchange, None, topic=True))
            topic.exchange = exchange
            self._open_target(topic, remote, dynamic=exchange.name)
            topic.fan_out = FanOut(self.broker.links, self.engine, name, channel, topic.settled)
            topic.fan_out.handle = topic
            topic.open()
            return topic
        queue = temporary.create_queue(self.engine)
        link = TemporaryTarget(self.context, pointer)
        link.queue = queue
        self._open_target(link, remote, dynamic=queue.name)
        link.producer = self.broker.attach_producer(self.engine, queue, name, channel, link)
        return link

    def _attach_node_source(self, pointer: Any, address: str) -> Link:
        reply_to = pn.terminus_address(pn.link_remote_target(pointer))
        link = NodeSource(self.context, pointer, reply_to)
        remote = pn.link_remote_source(pointer)
        self._node(address).open_source(link, pn.terminus_filter(remote))
        if reply_to:
            self._take_replies(link)
        pn.terminus_copy(pn.link_source(pointer), remote)
        self._open_node_source(pointer)
        return link

    def _take_replies(self, link: NodeSource) -> None:
        """Send replies for the link's address to it, until it ends or another link has that address."""
        links, address = self.context.replies, link.address
        links[address] = link
        link.on_end.append(lambda: links.pop(address) if links.get(address) is link else None)

    def _open_node_source(self, pointer: Any) -> None:
        pn.terminus_copy(pn.link_target(pointer), pn.link_remote_target(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.SND_SETTLED)
        pn.link_open(pointer)

    def _node(self, address: str) -> Node:
        node = self.nodes.get(address)
        if node is None:
            raise Refused("amqp:not-found", f"there is no node {address}")
        if self.context.user is None:
            raise Refused("amqp:unauthorized-access", f"{address} requires a user who signed in")
        if not self.broker.accounts.rights(self.context.user).manages_something:
            raise Refused(
                "amqp:unauthorized-access",
                f"user {self.context.user} has no permission to manage, which {address} requires",
            )
        self.context.prefer()
        return node

    def _check_right(self, right: str) -> None:
        """Raise Refused if the client lacks the permission. No user has fewer permissions than an anonymous client."""
        host = self.engine.virtualhost
        if self.broker.virtualhosts[host].anonymous:
            return
        if self.context.user is None:
            raise Refused("amqp:unauthorized-access", f"virtual host {host} does not allow anonymous clients")
        if not self.broker.accounts.rights(self.context.user).may(right, host):
            raise Refused(
                "amqp:unauthorized-access",
                f"user {self.context.user} has no permission to {right} in virtual host {host}",
            )


def _presettled(pointer: Any) -> bool:
    return bool(pn.link_remote_snd_settle_mode(pointer) == pn.SND_SETTLED)
