"""Exchanges, bindings and the resolution of addresses.

A queue inherits the policies of the exchanges it is bound to, so each change is validated for the affected queues
before it is applied. `registry/exchange.py` finds the queues of a routing key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.engine.flow.turn import PersistRecord, Turn
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import ROUTERS, Exchange, key_fault
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.temporary_names import check_not_temporary
from brokers.engine.values.names import MAX_NAME, check_name
from brokers.engine.values.policy import Value
from brokers.engine.values.stops import Stop

#: The exchange of each virtual host that routes topics which are not exchanges themselves; created on first use.
TOPICS = "topics"

#: Where a producer's messages go: a queue, or an exchange with the routing key of the address; None: the key is the
#: subject of each message.
Target: TypeAlias = Queue | tuple[Exchange, str | None]


class Routing:
    """See the module."""

    def __init__(self, registry: Registry, turn: Turn, enforcement: Enforcement, stopping: Stopping) -> None:
        self.registry = registry
        self.turn = turn
        self.enforcement = enforcement
        self.stopping = stopping

    def create_exchange(
        self,
        host: VirtualHost,
        name: str,
        kind: str,
        own: Mapping[str, Value] | None = None,
        *,
        actor: str = "",
        transient: bool = False,
    ) -> Exchange:
        """Create an exchange. Raises InvalidValue for its name, type or policy, AlreadyExists."""
        check_name("exchange", name)
        if "/" in name:
            raise InvalidValue({"name": f"{name!r} cannot be the name of an exchange: a routing key follows the /"})
        if kind not in ROUTERS:
            raise InvalidValue({"exchange_type": f"exchange_type is {kind!r}: it must be one of {', '.join(ROUTERS)}"})
        if name in host.exchanges:
            raise AlreadyExists(f"there is an exchange {name} in virtual host {host.name} already")
        exchange = Exchange(host.name, name, kind)
        self.enforcement.check_exchange(host, exchange, own or {})
        exchange.own = dict(own or {})
        exchange.transient = transient
        host.exchanges[name] = exchange
        facts = {"exchange_type": kind, "policy": dict(exchange.own), "actor": actor}
        self._add_fact("exchange-created", exchange, f"Create : Type: {kind} Name: {name}", facts)
        self._persist(exchange)
        return exchange

    def set_policy(self, exchange: Exchange, own: Mapping[str, Value]) -> None:
        """Set the policy fields of an exchange, for all bound queues or none. Raises InvalidValue."""
        self.enforcement.set_exchange_policy(exchange, own)
        exchange.version += 1
        self._persist(exchange)

    def delete_exchange(self, exchange: Exchange, *, actor: str = "") -> None:
        """Delete an exchange and its bindings. Raises InvalidValue if what a bound queue inherits without it is
        contradictory."""
        self.registry.owners.pop(exchange, None)
        host = self.registry.virtualhosts[exchange.virtualhost]
        enforcement, because = self.enforcement, f"without {exchange.origin}"
        rest = {q: tuple(e for e in host.bound[q] if e is not exchange) for q in exchange.bindings}
        found = [s for q, exchanges in rest.items() for s in enforcement.effective_bound(q, exchanges, because)]
        for queue, keys in list(exchange.bindings.items()):
            for key in list(keys):
                self._unbind(exchange, queue, key, actor)
        for stop in self._stops(exchange):
            self.stopping.drop_stop(stop.scope, f"exchange {exchange.name} was deleted")
        del host.exchanges[exchange.name]
        enforcement.apply(found)
        self._add_fact("exchange-deleted", exchange, "Deleted", {"actor": actor})
        self.turn.records.append(PersistRecord("exchange", str(exchange.object_name), None))

    # -- bindings ---------------------------------------------------------------------------------------------

    def bind(self, exchange: Exchange, queue: Queue, key: str = "", *, actor: str = "") -> bool:
        """Bind a queue. Return False if the binding exists. Raises InvalidValue for an invalid key, or if what the
        queue would inherit contradicts its own fields."""
        if fault := key_fault(exchange.kind, key):
            raise InvalidValue({"key": fault})
        if len(key) > MAX_NAME or not key.isprintable():
            raise InvalidValue({"key": f"key {key!r}: at most {MAX_NAME} printable characters"})
        if key in exchange.bindings.get(queue, ()):
            return False
        host = self.registry.virtualhosts[exchange.virtualhost]
        bound = host.bound.get(queue, ())
        if exchange not in bound:
            bound = (*bound, exchange)
            found = self.enforcement.effective_bound(queue, bound, f"with {exchange.origin}")
            host.bound[queue] = bound
            self.enforcement.apply(found)
            for stop in self._stops(exchange):
                queue.gate.stop(stop)
        exchange.bind(queue, key)
        self._add_binding_fact("binding-created", exchange, queue, key, actor)
        if not queue.transient:
            record = {"virtualhost": host.name, "exchange": exchange.name, "queue": queue.name, "key": key}
            self.turn.records.append(PersistRecord("binding", _binding(exchange, queue, key), record))
        return True

    def unbind(self, exchange: Exchange, queue: Queue, key: str = "", *, actor: str = "") -> bool:
        """Remove a binding. Return False if it does not exist. Raises InvalidValue if what the queue inherits without
        the exchange is contradictory."""
        keys = exchange.bindings.get(queue, {})
        if key not in keys:
            return False
        host, enforcement = self.registry.virtualhosts[exchange.virtualhost], self.enforcement
        if len(keys) == 1:
            rest = tuple(e for e in host.bound[queue] if e is not exchange)
            found = enforcement.effective_bound(queue, rest, f"without {exchange.origin}")
            self._unbind(exchange, queue, key, actor)
            enforcement.apply(found)
        else:
            self._unbind(exchange, queue, key, actor)
        return True

    def unbind_everywhere(self, queue: Queue) -> None:
        """Remove all bindings of a queue that is being deleted."""
        for exchange in self.registry.virtualhosts[queue.virtualhost].bound.get(queue, ()):
            for key in list(exchange.bindings[queue]):
                self._unbind(exchange, queue, key, "")

    def _unbind(self, exchange: Exchange, queue: Queue, key: str, actor: str) -> None:
        exchange.unbind(queue, key)
        if queue not in exchange.bindings:
            bound = self.registry.virtualhosts[exchange.virtualhost].bound
            rest = tuple(e for e in bound.pop(queue) if e is not exchange)
            if rest:
                bound[queue] = rest
            for stop in self._stops(exchange):
                queue.gate.start(stop.scope)
        self._add_binding_fact("binding-deleted", exchange, queue, key, actor)
        if not queue.transient:
            self.turn.records.append(PersistRecord("binding", _binding(exchange, queue, key), None))

    def _stops(self, exchange: Exchange) -> list[Stop]:
        """Return the operators' stops of the exchange, those of some clients included."""
        here = (exchange.virtualhost, exchange.name)
        return [s for s in self.registry.stops.values() if (s.scope.virtualhost, s.scope.exchange) == here]

    # -- addresses --------------------------------------------------------------------------------------------

    def find(self, host: VirtualHost, address: str) -> Target | None:
        """Resolve an address: the queue with this name, the exchange with this name, or `exchange/routing-key`."""
        if (queue := host.queues.get(address)) is not None:
            return queue
        return _exchange_of(host, address)

    def topic(self, host: VirtualHost, name: str) -> tuple[Exchange, str | None]:
        """Resolve a topic's name: an exchange, with or without a routing key, as in an address; else the exchange
        `topics` with the name as the key. Raises NotFound if there is none and clients may not create it,
        InvalidValue."""
        if not name:
            raise InvalidValue({"name": "the topic has no name"})
        found = _exchange_of(host, name)
        if found is not None:
            return found
        check_not_temporary(name)
        topics = host.exchanges.get(TOPICS)
        if topics is None:
            if not host.create_on_attach:
                raise NotFound(
                    f"there is no topic {name} in virtual host {host.name}: there is no exchange {TOPICS}, and clients"
                    " may not create it"
                )
            topics = self.create_exchange(host, TOPICS, "topic")
        elif topics.kind != "topic":
            raise InvalidValue({"name": f"exchange {TOPICS} is a {topics.kind} exchange: it cannot route topic {name}"})
        return topics, name

    # -- records and facts ------------------------------------------------------------------------------------

    def _persist(self, exchange: Exchange) -> None:
        if exchange.transient:
            return
        record = {
            "virtualhost": exchange.virtualhost,
            "name": exchange.name,
            "exchange_type": exchange.kind,
            "own": exchange.own,
            "version": exchange.version,
        }
        self.turn.records.append(PersistRecord("exchange", str(exchange.object_name), record))

    def restore_exchange(self, record: Mapping[str, Any]) -> None:
        exchange = Exchange(record["virtualhost"], record["name"], record["exchange_type"])
        exchange.own, exchange.version = dict(record["own"]), record["version"]
        self.registry.virtualhost(exchange.virtualhost).exchanges[exchange.name] = exchange

    def restore_binding(self, record: Mapping[str, Any]) -> None:
        """Restore a binding from a record; the caller updates the limits of the queue. Ignored if the queue or exchange
        no longer exists."""
        host = self.registry.virtualhost(record["virtualhost"])
        exchange, queue = host.exchanges.get(record["exchange"]), host.queues.get(record["queue"])
        if exchange is None or queue is None:
            return
        exchange.bind(queue, record["key"])
        bound = host.bound
        if exchange not in bound.get(queue, ()):
            bound[queue] = (*bound.get(queue, ()), exchange)

    def _add_fact(self, kind: str, exchange: Exchange, words: str, attributes: Mapping[str, Any]) -> None:
        self.turn.add_fact(kind, exchange.object_name, _subject(exchange), words, attributes)

    def _add_binding_fact(self, kind: str, exchange: Exchange, queue: Queue, key: str, actor: str) -> None:
        words = "Create" if kind == "binding-created" else "Deleted"
        subject = f"{_subject(exchange)}/qu({queue.name})/rk({key})"
        attributes = {"queue": str(queue.object_name), "key": key, "actor": actor}
        self.turn.add_fact(kind, exchange.object_name, subject, words, attributes)


def _exchange_of(host: VirtualHost, address: str) -> tuple[Exchange, str | None] | None:
    """Resolve `exchange` or `exchange/routing-key`; None if there is no such exchange."""
    if (exchange := host.exchanges.get(address)) is not None:
        return exchange, None
    name, slash, key = address.partition("/")
    if slash and (exchange := host.exchanges.get(name)) is not None:
        return exchange, key
    return None


def _subject(exchange: Exchange) -> str:
    return f"vh(/{exchange.virtualhost})/ex({exchange.kind}/{exchange.name})"


def _binding(exchange: Exchange, queue: Queue, key: str) -> str:
    """Return the unique key of a binding's record."""
    return json.dumps([exchange.virtualhost, exchange.name, queue.name, key], ensure_ascii=False)
