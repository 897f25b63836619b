"""Where the declared attributes of managed objects come from: one small function each.

`brokers/model/` declares; this reads. A test holds the two to each other. Values are plain: numbers, text, lists
and maps, None where an attribute is nullable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokers.engine.broker import Broker
from brokers.engine.connection import Connection
from brokers.engine.exchange import Exchange
from brokers.engine.flow.credit import draining
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.usage import Resource
from brokers.engine.management.waiting import waiting_producers, waits, waits_for
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.services.accounts import User
from brokers.engine.services.shortages import LIMITS, STORE_LIMITS
from brokers.engine.slow_consumer import FIELDS as SLOW_FIELDS
from brokers.engine.slow_consumer import SlowConsumerPolicy
from brokers.engine.subscription import Subscription
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.message import NEVER
from brokers.engine.values.policy import FIELDS, Policy
from brokers.engine.values.stops import Stop
from brokers.engine.virtualhost import VirtualHost

Getter = Callable[[Broker, Any], Any]

PRODUCT = "Headgate broker"


def _level(level: int) -> int:
    return 0 if level == UNLIMITED else level


_EFFECTIVE: dict[str, Callable[[Limits], int]] = {
    "effective_capacity_bytes": lambda limits: limits.capacity_bytes,
    "effective_stop_bytes": lambda limits: _level(limits.stop_bytes),
    "effective_resume_bytes": lambda limits: _level(limits.resume_bytes),
    "effective_capacity_messages": lambda limits: limits.capacity_messages,
    "effective_stop_messages": lambda limits: _level(limits.stop_messages),
    "effective_resume_messages": lambda limits: _level(limits.resume_messages),
}


def effective(limits: Limits) -> dict[str, int]:
    """The `effective_*` attributes of a queue with these limits; 0 = no limit."""
    return {attribute: get(limits) for attribute, get in _EFFECTIVE.items()}


def _of_limits(get: Callable[[Limits], int]) -> Getter:
    return lambda _, queue: get(queue.limits)


def _limit(name: str) -> Getter:
    return lambda b, _: b.shortages.limits.get(name)


def _limit_in_force(resource: Resource) -> Getter:
    return lambda b, _: b.shortages.in_force(resource)


def _limit_origin(resource: Resource) -> Getter:
    return lambda b, _: b.shortages.origin(resource)


def _store_limit(name: str) -> Getter:
    return lambda _, host: host.store_limits.get(name)


def _shown(broker: Broker, stops: Iterable[Stop]) -> list[dict[str, Any]]:
    return [stop.by_time_of_day(broker.turn.ahead).shown() for stop in stops]


def _time(of: Callable[[Any], int | None]) -> Getter:
    """A time of the engine's, as the time of day."""
    return lambda b, o: None if (at := of(o)) is None else at + b.turn.ahead


def _policy(of: Callable[[Any], Mapping[str, Any]]) -> dict[str, Getter]:
    def getter(field: str) -> Getter:
        return lambda _, o: of(o).get(field)

    return {field: getter(field) for field in FIELDS}


def _open_transactions(connections: Iterable[Connection]) -> int:
    return sum(len(c.transactions) for c in connections)


def _best_match(broker: Broker, queue: Queue) -> str | None:
    best = broker.virtualhosts[queue.virtualhost].policies.of(queue.name)
    return best.pattern if best is not None else None


def _totals(queues: Callable[[Broker, Any], Iterable[Queue]]) -> dict[str, Getter]:
    def total(of: Callable[[Queue], int]) -> Getter:
        return lambda b, o: sum(of(q) for q in queues(b, o))

    return {
        "queues": total(lambda q: 1),
        "overfull_queues": total(lambda q: q.state.overfull),
        "stopped_queues": total(lambda q: q.state.stopped),
        "producers": total(lambda q: q.producer_count),
        "blocked_producers": total(lambda q: q.blocked_producers),
        "consumers": total(lambda q: q.consumer_count),
        "depth_messages": total(lambda q: q.depth_messages),
        "depth_bytes": total(lambda q: q.depth_bytes),
    }


_BROKER: dict[str, Getter] = {
    "product": lambda b, o: PRODUCT,
    "product_version": lambda b, o: b.product_version,
    "started": _time(lambda b: b.started),
    **_policy(lambda o: o.defaults),
    **_totals(lambda b, o: b.queues()),
    "connections": lambda b, o: len(b.connections),
    "open_transactions": lambda b, o: _open_transactions(b.connections.values()),
    **{name: _limit(name) for names in LIMITS.values() for name in names},
    **{f"{resource.name.lower()}_limit_bytes": _limit_in_force(resource) for resource in LIMITS},
    **{f"{resource.name.lower()}_limit_origin": _limit_origin(resource) for resource in LIMITS},
    "memory_used_bytes": lambda b, o: b.shortages.used(Resource.MEMORY),
    "store_used_bytes": lambda b, o: b.shortages.used(Resource.STORE),
    "temp_used_bytes": lambda b, o: b.shortages.used(Resource.TEMP),
    "shortages": lambda b, o: [u.reason for u in b.shortages.usages.values() if u.overfull],
    "stops": lambda b, o: _shown(b, b.stops.values()),
    "last_event": lambda b, o: b.last_event,
    "log": lambda b, o: b.log,
    "journal": lambda b, o: b.journal,
    "version": lambda b, o: o.version,
}

_VIRTUALHOST: dict[str, Getter] = {
    "name": lambda b, o: o.name,
    "create_on_attach": lambda b, o: o.create_on_attach,
    "anonymous": lambda b, o: o.anonymous,
    "durable_queues": lambda b, o: o.durable_queues,
    "transaction_idle_limit_ms": lambda b, o: o.transaction_idle_limit_ms,
    **{name: _store_limit(name) for name in STORE_LIMITS},
    "store_overfull": lambda b, o: o.store_usage.overfull,
    "store_used_bytes": lambda b, o: o.store.used_bytes if o.store else 0,
    **_policy(lambda o: o.defaults),
    **_totals(lambda b, o: o.queues.values()),
    "connections": lambda b, o: sum(1 for c in b.connections.values() if c.virtualhost == o.name),
    "open_transactions": lambda b, o: _open_transactions(c for c in b.connections.values() if c.virtualhost == o.name),
    "stops": lambda b, o: _shown(b, (s for s in b.stops.values() if s.scope.virtualhost in ("", o.name))),
    "version": lambda b, o: o.version,
}

_QUEUE: dict[str, Getter] = {
    "virtualhost": lambda b, q: q.virtualhost,
    "name": lambda b, q: q.name,
    "durable": lambda b, q: q.store_id > 0,
    "temporary_for": lambda b, q: str(owner.name) if (owner := b.temporary.owner(q)) is not None else "",
    "state": lambda b, q: q.state.value,
    "depth_messages": lambda b, q: q.depth_messages,
    "depth_bytes": lambda b, q: q.depth_bytes,
    "unacknowledged_messages": lambda b, q: q.unacknowledged,
    "delayed_messages": lambda b, q: len(q.delayed),
    "delayed_bytes": lambda b, q: q.delayed.depth_bytes,
    "next_delivery_time": _time(lambda q: q.delayed.soonest if q.delayed.soonest < NEVER else None),
    "uncommitted_messages": lambda b, q: q.uncommitted_messages,
    "uncommitted_bytes": lambda b, q: q.uncommitted_bytes,
    "parked_messages": lambda b, q: len(q.outside) + len(q.lacking),
    "parked_bytes": lambda b, q: q.outside.bytes + q.lacking.bytes,
    **_policy(lambda q: q.own),
    **{attribute: _of_limits(get) for attribute, get in _EFFECTIVE.items()},
    "producers": lambda b, q: q.producer_count,
    "blocked_producers": lambda b, q: q.blocked_producers,
    "waiting_producers": lambda b, q: waiting_producers(q),
    "draining_producers": lambda b, q: draining(q.ledger.pending),
    "consumers": lambda b, q: q.consumer_count,
    "credit": lambda b, q: q.ledger.reserved + len(q.ledger.probes),
    "rate_in": lambda b, q: q.rate_in,
    "rate_out": lambda b, q: q.rate_out,
    "enqueued_messages": lambda b, q: q.enqueued,
    "dequeued_messages": lambda b, q: q.dequeued,
    "overfull_since": _time(lambda q: q.overfull_since),
    "stopped_since": _time(lambda q: q.stopped_since),
    "rejected_messages": lambda b, q: q.rejected,
    "longest_wait_ms": lambda b, q: q.longest_wait(b.turn.now),
    "dropped_messages": lambda b, q: q.dropped,
    "expired_messages": lambda b, q: q.expired,
    "dead_lettered_messages": lambda b, q: q.dead_lettered,
    "discarded_messages": lambda b, q: q.discarded,
    "overfull_count": lambda b, q: q.overfull_count,
    "overfull_ms": lambda b, q: q.overfull_ms + (max(0, b.turn.now - q.overfull_since) if q.overfull_since else 0),
    "stops": lambda b, q: _shown(b, [*q.stops.values(), *q.staged.values()]),
    "policy": _best_match,
    "bindings": lambda b, q: [
        {"exchange": e.name, "key": key}
        for e in b.virtualhosts[q.virtualhost].bound.get(q, ())
        for key in e.bindings[q]
    ],
    "version": lambda b, q: q.version,
}

_POLICY: dict[str, Getter] = {
    "virtualhost": lambda b, p: p.virtualhost,
    "pattern": lambda b, p: p.pattern,
    "priority": lambda b, p: p.priority,
    **_policy(lambda p: p.given),
    "queues": lambda b, p: b.virtualhosts[p.virtualhost].policies.count(p.pattern),
    "version": lambda b, p: p.version,
}

_EXCHANGE: dict[str, Getter] = {
    "virtualhost": lambda b, e: e.virtualhost,
    "name": lambda b, e: e.name,
    "exchange_type": lambda b, e: e.kind,
    **_policy(lambda e: e.own),
    "queues": lambda b, e: len(e.bindings),
    "stops": lambda b, e: _shown(
        b, (s for s in b.stops.values() if s.scope.exchange == e.name and s.scope.virtualhost == e.virtualhost)
    ),
    "bindings": lambda b, e: [{"queue": q.name, "key": key} for q, keys in e.bindings.items() for key in keys],
    "version": lambda b, e: e.version,
}


def _of_queue(name: str) -> Getter:
    return lambda b, subscription: _QUEUE[name](b, subscription.queue)


def _wish(name: str) -> Getter:
    return lambda _, subscription: getattr(subscription.wish, name)


def _slow_policy(broker: Broker, subscription: Subscription) -> str | None:
    policy = broker.slow_consumers.watched.get(subscription)
    return policy.name if policy is not None else None


def _given(name: str) -> Getter:
    return lambda _, policy: policy.given.get(name)


_SUBSCRIPTION: dict[str, Getter] = {
    "virtualhost": lambda b, s: s.queue.virtualhost,
    "name": lambda b, s: s.queue.name,
    "held_in": lambda b, s: str(s.queue.object_name),
    **{
        name: _wish(name)
        for name in ("topic", "exchange", "key", "client", "durable", "shared", "selector", "no_local")
    },
    "subscription": lambda b, s: s.wish.name,
    "created": lambda b, s: s.created,
    **{name: _of_queue(name) for name in ("consumers", "depth_messages", "depth_bytes", "unacknowledged_messages")},
    "message_age_ms": lambda b, s: s.message_age(b.turn.now),
    "slow_consumer_policy": _slow_policy,
    "slow_since": _time(lambda s: s.slow_since),
    "version": lambda b, s: s.version,
}

_SLOW_CONSUMER_POLICY: dict[str, Getter] = {
    "virtualhost": lambda b, p: p.virtualhost,
    "name": lambda b, p: p.name,
    **{name: _given(name) for name in SLOW_FIELDS},
    "subscriptions": lambda b, p: sum(1 for each in b.slow_consumers.watched.values() if each is p),
    "version": lambda b, p: p.version,
}

_CONNECTION: dict[str, Getter] = {
    "virtualhost": lambda b, c: c.virtualhost,
    "id": lambda b, c: c.id,
    "remote_address": lambda b, c: c.remote_address,
    "container_id": lambda b, c: c.container_id,
    "user": lambda b, c: c.user,
    "opened": _time(lambda c: c.opened),
    "producers": lambda b, c: len(c.producers),
    "consumers": lambda b, c: len(c.consumers),
    "open_transactions": lambda b, c: len(c.transactions),
    "oldest_transaction": lambda b, c: min((t.began for t in c.transactions.values()), default=None),
    "idle_timeout": lambda b, c: c.idle_timeout,
    "version": lambda b, c: 1,
}

_LINK: dict[str, Getter] = {
    "virtualhost": lambda b, link: link.connection.virtualhost,
    "id": lambda b, link: link.id,
    "queue": lambda b, link: str(link.queue.object_name),
    "connection": lambda b, link: str(link.connection.name),
    "link": lambda b, link: link.link,
    "client": lambda b, link: link.connection.client,
    "credit": lambda b, link: link.credit,
    "messages": lambda b, link: link.messages,
    "version": lambda b, link: 1,
}

_PRODUCER: dict[str, Getter] = {
    **_LINK,
    "state": lambda b, p: "BLOCKED" if p.blocked else "RUNNING",
    "reasons": lambda b, p: list(p.reasons),
    "blocked_since": _time(lambda p: p.blocked_since),
    "blocked_ms": lambda b, p: p.blocked_ms + p.blocked_for(b.turn.now),
    "blocked_count": lambda b, p: p.blocked_count,
    "release": lambda b, p: p.release_condition(),
    "waits_for": lambda b, p: waits_for(p, b.turn.now),
    "waiting_since": lambda b, p: p.without_since + b.turn.ahead if waits(p) and p.without_since is not None else None,
    "unsettled_messages": lambda b, p: p.held,
    "draining": lambda b, p: draining([p]) > 0,
    "bytes": lambda b, p: p.bytes,
}

_CONSUMER: dict[str, Getter] = {
    **_LINK,
    "browsing": lambda b, c: c.browsing,
    "unacknowledged_messages": lambda b, c: c.unacknowledged,
}

_USER: dict[str, Getter] = {
    "name": lambda b, u: u.name,
    "password": lambda b, u: None,  # nobody is shown it
    "has_password": lambda b, u: u.verifier is not None,
    "certificate_subject": lambda b, u: u.certificate_subject,
    "administrator": lambda b, u: u.rights.administrator,
    "grants": lambda b, u: u.rights.shown(),
    "connections": lambda b, u: b.accounts.connections(u.name),
    "version": lambda b, u: u.version,
}

#: Type name -> attribute name -> how to read it.
GETTERS: Mapping[str, Mapping[str, Getter]] = {
    "Broker": _BROKER,
    "VirtualHost": _VIRTUALHOST,
    "Queue": _QUEUE,
    "Policy": _POLICY,
    "Exchange": _EXCHANGE,
    "Subscription": _SUBSCRIPTION,
    "SlowConsumerPolicy": _SLOW_CONSUMER_POLICY,
    "Connection": _CONNECTION,
    "Producer": _PRODUCER,
    "Consumer": _CONSUMER,
    "User": _USER,
}

TYPE_OF: Mapping[type, str] = {
    Broker: "Broker",
    VirtualHost: "VirtualHost",
    Queue: "Queue",
    Policy: "Policy",
    Exchange: "Exchange",
    Subscription: "Subscription",
    SlowConsumerPolicy: "SlowConsumerPolicy",
    Connection: "Connection",
    Producer: "Producer",
    Consumer: "Consumer",
    User: "User",
}
