"""Requests on managed objects: read, query, create, update, delete, call. Values in, values out. How objects are found
and shown is `managed_objects.py`; here is what changes them.

This is what the management node speaks AMQP about and what the in-memory admin interface calls directly: the errors
are those of `brokers.admin`. Which types, attributes and operations there are stands in `brokers/model/`; what an
operation does is one function here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from brokers.admin import InvalidValue, ManagedObject, NotAllowed, NotFound, Page, StaleVersion
from brokers.engine.broker import Broker, queue_fact
from brokers.engine.connection import Connection
from brokers.engine.exchange import Exchange
from brokers.engine.flow.pacing import stage
from brokers.engine.management.attributes import GETTERS, effective
from brokers.engine.management.preview import Preview
from brokers.engine.management.queries import ManagedObjects, declared_type
from brokers.engine.queues.queue import Queue
from brokers.engine.services.shortages import LIMITS, STORE_LIMITS, check_limits, check_store_limits
from brokers.engine.slow_consumer import FIELDS as SLOW_FIELDS
from brokers.engine.slow_consumer import SlowConsumerPolicy
from brokers.engine.subscription import Subscription
from brokers.engine.values.events import policy_words
from brokers.engine.values.policy import FIELDS, Layers, Policy, explain, fields
from brokers.engine.values.stops import End, Scope, StopOutcome
from brokers.engine.virtualhost import DEFAULT, VirtualHost
from brokers.model import TYPES, ObjectName, check_arguments, check_attributes

_STOPPABLE = ("Broker", "VirtualHost", "Exchange", "Queue")
_WITH_POLICY = ("Broker", "VirtualHost", "Exchange", "Policy", "Queue")
_NAMED = 20  # queues that a preview names, unless asked for more


class Management:
    """See the module. `actor`, where a method takes it, is the user of the connection that asks."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.preview = Preview(broker)
        self.objects = ManagedObjects(broker)
        self._operations: Mapping[tuple[str, str], Callable[[Any, Mapping[str, Any]], dict[str, Any]]] = {
            **{(t, "stop-producers"): self._stop for t in _STOPPABLE},
            **{(t, "start-producers"): self._start for t in _STOPPABLE},
            **{(t, "explain"): self._explain for t in _WITH_POLICY},
            ("Broker", "preview-change"): self._preview_change,
            ("Queue", "check"): self._check,
            ("Queue", "purge"): self._purge,
            ("Exchange", "bind"): self._bind,
            ("Exchange", "unbind"): self._unbind,
            ("Connection", "close"): self._close,
            ("User", "renew-password"): broker.accounts.renew_password,
        }
        self._creators: Mapping[str, Callable[[Mapping[str, Any], dict[str, Any], str], Any]] = {
            "VirtualHost": self._create_virtualhost,
            "Queue": lambda v, policy, _: broker.create_queue(
                broker.virtualhost(v["virtualhost"]), v["name"], policy, durable=v.get("durable", False)
            ),
            "Policy": self._create_policy,
            "Exchange": lambda v, policy, actor: broker.routing.create_exchange(
                broker.virtualhost(v["virtualhost"]), v["name"], v["exchange_type"], policy, actor=actor
            ),
            "User": lambda v, _, actor: broker.accounts.create(v, actor),
            "SlowConsumerPolicy": self._create_slow_consumer_policy,
        }
        self._updaters: Mapping[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any], str], object]] = {
            "Broker": self._update_broker,
            "VirtualHost": self._update_virtualhost,
            "Queue": self._update_queue,
            "Policy": self._update_policy,
            "Exchange": self._update_exchange,
            "User": broker.accounts.update,
            "SlowConsumerPolicy": lambda policy, _, after, actor: broker.slow_consumers.update(
                policy, after, actor=actor
            ),
        }
        self._deleters: Mapping[str, Callable[[Any, str], None]] = {
            "VirtualHost": self._delete_virtualhost,
            "Queue": lambda queue, _: broker.delete_queue(queue),
            "Policy": lambda policy, actor: broker.enforcement.delete_policy(policy, actor=actor),
            "Exchange": lambda exchange, actor: broker.routing.delete_exchange(exchange, actor=actor),
            "User": broker.accounts.delete,
            "Subscription": self._delete_subscription,
            "SlowConsumerPolicy": lambda policy, actor: broker.slow_consumers.delete(policy, actor=actor),
        }

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, name: ObjectName) -> ManagedObject:
        return self.objects.read(name)

    def query(self, type_name: str, **asked: Any) -> Page:
        """See `ManagedObjects.query`."""
        return self.objects.query(type_name, **asked)

    # -- changing ---------------------------------------------------------------------------------------------

    def create(self, name: ObjectName, attributes: Mapping[str, Any], actor: str = "") -> ManagedObject:
        declared = declared_type(name.type)
        if not declared.creatable:
            raise NotAllowed(f"a {name.type.lower()} cannot be created")
        given = {**dict(name.keys), **attributes}
        good, wrong = check_attributes(declared, given, creating=True)
        if wrong:
            raise InvalidValue(dict(wrong))
        if any(good[k] != v for k, v in name.keys):
            raise InvalidValue({k: f"{k} is {good[k]!r} but the name says {v!r}" for k, v in name.keys if good[k] != v})
        policy = {f: good[f] for f in FIELDS if good.get(f) is not None}
        shown = self.objects.shown(name.type, self._creators[name.type](good, policy, actor))
        if name.type == "User":
            return replace(shown, attributes={**shown.attributes, **self.broker.accounts.told_once()})
        return shown

    def _create_virtualhost(self, values: Mapping[str, Any], policy: dict[str, Any], actor: str) -> VirtualHost:
        broker = self.broker
        broker.enforcement.settle(Layers(virtualhost=fields(policy), broker=fields(broker.defaults)))
        created = broker.create_virtualhost(values["name"])
        self._set_virtualhost(created, values)
        broker.records.keep_virtualhost(created)
        return created

    def _create_policy(self, values: Mapping[str, Any], policy: dict[str, Any], actor: str) -> Policy:
        if not values["virtualhost"]:
            raise InvalidValue({"virtualhost": "virtualhost is empty: a policy belongs to a virtual host"})
        host = self.broker.virtualhost(values["virtualhost"])
        priority = values.get("priority", 0)
        return self.broker.enforcement.create_policy(host, values["pattern"], policy, priority=priority, actor=actor)

    def _create_slow_consumer_policy(
        self, values: Mapping[str, Any], policy: dict[str, Any], actor: str
    ) -> SlowConsumerPolicy:
        host = self.broker.virtualhost(values["virtualhost"])
        given = {name: values[name] for name in SLOW_FIELDS if values.get(name) is not None}
        return self.broker.slow_consumers.create(host, values["name"], given, actor=actor)

    def update(self, name: ObjectName, attributes: Mapping[str, Any], version: int, actor: str = "") -> ManagedObject:
        thing = self.objects.find(name)
        declared = declared_type(name.type)
        if not declared.writable:
            raise NotAllowed(f"nothing of a {name.type.lower()} can be changed")
        _check_version(name, thing, version)
        good, wrong = check_attributes(declared, attributes, creating=False)
        if wrong:
            raise InvalidValue(dict(wrong))
        before = {a: GETTERS[name.type][a](self.broker, thing) for a in good}
        changed = {a: v for a, v in good.items() if before[a] != v}
        if changed:
            self._updaters[name.type](thing, {a: before[a] for a in changed}, changed, actor)
        return self.read(name)

    def _update_broker(self, broker: Broker, before: Mapping[str, Any], after: Mapping[str, Any], actor: str) -> None:
        limits = _given(broker.shortages.limits, after, (name for names in LIMITS.values() for name in names))
        check_limits(limits)
        broker.set_broker_defaults(_merged(broker.defaults, after))
        broker.shortages.set_limits(limits)
        broker.version += 1
        broker.records.keep_broker()
        self._policy_fact(broker.object_name, "broker", before, after, actor)

    def _update_virtualhost(
        self, host: VirtualHost, before: Mapping[str, Any], after: Mapping[str, Any], actor: str
    ) -> None:
        self._set_virtualhost(host, after)
        host.version += 1
        self.broker.records.keep_virtualhost(host)
        self._policy_fact(host.object_name, f"vh(/{host.name})", before, after, actor)

    def _set_virtualhost(self, host: VirtualHost, values: Mapping[str, Any]) -> None:
        limits = _given(host.store_limits, values, STORE_LIMITS)
        check_store_limits(limits)
        self.broker.set_virtualhost_defaults(host, _merged(host.defaults, values))
        self.broker.shortages.set_store_limits(host, limits)
        host.create_on_attach = values.get("create_on_attach", host.create_on_attach)
        host.anonymous = values.get("anonymous", host.anonymous)
        host.durable_queues = values.get("durable_queues", host.durable_queues)
        host.transaction_idle_limit_ms = values.get("transaction_idle_limit_ms", host.transaction_idle_limit_ms)

    def _update_queue(self, queue: Queue, before: Mapping[str, Any], after: Mapping[str, Any], actor: str) -> None:
        self.broker.set_own_policy(queue, _merged(queue.own, after))
        facts = {"before": dict(before), "after": dict(after), "actor": actor}
        queue_fact(queue, "policy-changed", policy_words(before, after), facts)

    def _update_policy(self, policy: Policy, before: Mapping[str, Any], after: Mapping[str, Any], actor: str) -> None:
        priority = after.get("priority", policy.priority)
        self.broker.enforcement.update_policy(policy, _merged(policy.given, after), priority=priority, actor=actor)

    def _update_exchange(
        self, exchange: Exchange, before: Mapping[str, Any], after: Mapping[str, Any], actor: str
    ) -> None:
        self.broker.routing.set_policy(exchange, _merged(exchange.own, after))
        subject = f"vh(/{exchange.virtualhost})/ex({exchange.kind}/{exchange.name})"
        self._policy_fact(exchange.object_name, subject, before, after, actor)

    def _policy_fact(
        self, name: ObjectName, subject: str, before: Mapping[str, Any], after: Mapping[str, Any], actor: str
    ) -> None:
        attributes = {"before": dict(before), "after": dict(after), "actor": actor}
        self.broker.turn.state("policy-changed", name, subject, policy_words(before, after), attributes)

    def delete(self, name: ObjectName, version: int | None = None, actor: str = "") -> None:
        thing = self.objects.find(name)
        if not declared_type(name.type).deletable:
            raise NotAllowed(f"a {name.type.lower()} cannot be deleted")
        if version is not None:
            _check_version(name, thing, version)
        self._deleters[name.type](thing, actor)

    def _delete_virtualhost(self, host: VirtualHost, actor: str) -> None:
        if host.name == DEFAULT:
            raise NotAllowed(f"virtual host {DEFAULT} is where clients land that name no other: it cannot be deleted")
        self.broker.delete_virtualhost(host)

    def _delete_subscription(self, subscription: Subscription, actor: str) -> None:
        by = f" by {actor}" if actor else ""
        self.broker.delete_queue(subscription.queue, f"subscription {subscription.queue.name} was deleted{by}")

    # -- operations -------------------------------------------------------------------------------------------

    def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], actor: str = ""
    ) -> Mapping[str, Any]:
        declared = declared_type(name.type).operation(operation)
        if declared is None:
            raise NotFound(f"{name.type} has no operation {operation}")
        thing = self.objects.find(name)
        good, wrong = check_arguments(declared, {a: v for a, v in arguments.items() if v is not None})
        if wrong:
            raise InvalidValue(dict(wrong))
        good["actor"] = good.get("actor") or actor
        return self._operations[name.type, operation](thing, good)

    def _stop(self, thing: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        scopes, missing = self._scopes(thing, given)
        for_ms = given.get("for_ms", 0)
        end = End(self.broker.turn.now + for_ms if for_ms else None, given.get("below", 0))
        outcome = self.broker.stopping.stop_all(scopes, given.get("reason", ""), given["actor"], end)
        return _outcome(outcome, missing)

    def _start(self, thing: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        scopes, missing = self._scopes(thing, given)
        only = given.get("only", False)
        now = self.broker.turn.now
        staged = stage(given.get("rate", 0), given.get("step_ms", 0), given.get("halt", 0), now)
        outcome = self.broker.stopping.start_all(
            scopes, given.get("reason", ""), given["actor"], only=only, stage=staged
        )
        return _outcome(outcome, missing)

    def _scopes(self, thing: Any, given: Mapping[str, Any]) -> tuple[list[Scope], int]:
        """What is meant, and how many of the queues that are named are not there. Raises InvalidValue."""
        if "queues" not in given:
            return [_scope(thing, given)], 0
        if given.get("pattern"):
            raise InvalidValue({"queues": "queues and pattern are both given: name the queues, or give a pattern"})
        scopes = []
        texts = {str(text): None for text in given["queues"]}
        for text in texts:
            try:
                name = ObjectName.parse(text)
            except ValueError as error:
                raise InvalidValue({"queues": str(error)}) from None
            if name.type != "Queue":
                raise InvalidValue({"queues": f"queues has {text}: each must be the name of a queue"})
            host = self.broker.virtualhosts.get(name["virtualhost"])
            if host is not None and name["name"] in host.queues:
                scopes.append(Scope(host.name, queue=name["name"]))
        return scopes, len(texts) - len(scopes)

    def _explain(self, thing: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        found, inherited = self.preview.explain(thing)
        return {"fields": explain(found), "inherited": explain(inherited)}

    def _preview_change(self, broker: Broker, given: Mapping[str, Any]) -> dict[str, Any]:
        one_by_one = given.get("one_by_one", False)
        return self.preview.preview(
            given["changes"], given.get("largest", _NAMED), self.objects.find, one_by_one=one_by_one
        )

    def _check(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        good, wrong = check_attributes(TYPES["Queue"], given["attributes"], creating=False)
        if wrong:
            raise InvalidValue(dict(wrong))
        enforcement = self.broker.enforcement
        _, limits = enforcement.settle(enforcement.layers_of(queue)._replace(own=fields(_merged(queue.own, good))))
        return {"effective": effective(limits)}

    def _purge(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        count = queue.purge()
        facts = {"messages": count, "actor": given["actor"], "reason": given.get("reason", "")}
        queue_fact(queue, "queue-purged", f"Purged : {count:,} messages, By : {given['actor']}", facts)
        return {"messages": count}

    def _bind(self, exchange: Exchange, given: Mapping[str, Any]) -> dict[str, Any]:
        queue = self.broker.queue(exchange.virtualhost, given["queue"])
        return {"changed": self.broker.routing.bind(exchange, queue, given.get("key", ""), actor=given["actor"])}

    def _unbind(self, exchange: Exchange, given: Mapping[str, Any]) -> dict[str, Any]:
        queue = self.broker.queue(exchange.virtualhost, given["queue"])
        return {"changed": self.broker.routing.unbind(exchange, queue, given.get("key", ""), actor=given["actor"])}

    def _close(self, connection: Connection, given: Mapping[str, Any]) -> dict[str, Any]:
        reason = given.get("reason", "")
        self.broker.end_connection(
            connection, f"closed by {given['actor'] or 'an operator'}{f': {reason}' if reason else ''}"
        )
        return {}


def _check_version(name: ObjectName, thing: Any, version: int) -> None:
    if thing.version != version:
        raise StaleVersion(
            f"{name} is at version {thing.version}, and the change was made from version {version}: read it again",
            thing.version,
        )


def _given(before: Mapping[str, Any], changes: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """What is set of these attributes after a change."""
    after = {name: changes.get(name, before.get(name)) for name in names}
    return {name: value for name, value in after.items() if value is not None}


def _merged(policy: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**policy, **{f: v for f, v in changes.items() if f in FIELDS}}
    return {f: v for f, v in merged.items() if v is not None}


def _scope(thing: Any, given: Mapping[str, Any]) -> Scope:
    if isinstance(thing, Queue):
        return Scope(thing.virtualhost, queue=thing.name)
    if isinstance(thing, Exchange):
        return Scope(thing.virtualhost, exchange=thing.name)
    if isinstance(thing, VirtualHost):
        return Scope(thing.name, pattern=given.get("pattern", ""))
    return Scope(pattern=given.get("pattern", ""))


def _outcome(outcome: StopOutcome, missing: int) -> dict[str, Any]:
    return {
        "queues": outcome.queues,
        "producers": outcome.producers,
        "stopped": outcome.stopped,
        "draining": outcome.draining,
        "changed": outcome.changed,
        "changed_queues": [str(scope.object) for scope in outcome.scopes if scope.queue],
        "missing": missing,
    }
