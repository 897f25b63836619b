"""The enforcement of policies: a change is validated for every affected queue, then applied to all of them at once.

`policy.py` resolves effective values and affected queues; this service applies them to the running queues. Queues with
equal layers share one result, and a queue whose limits do not change is not touched, so the cost is proportional to the
number of changed queues. A refusal names the queue, the changed object and both values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.engine.flow.turn import PersistRecord
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.values.events import policy_words
from brokers.engine.values.limits import InvalidPolicy, Limits, resolve
from brokers.engine.values.policy import (
    FIELDS,
    NOTHING,
    Fields,
    Layers,
    Policy,
    Setting,
    Value,
    fields,
    pattern_fault,
    settings,
)

MAX_PATTERN = 255

Effective = tuple[Mapping[str, Setting], Limits]


@lru_cache(maxsize=4096)
def effective(layers: Layers) -> Effective:
    """Return the settings and limits of a queue with these layers. Raises InvalidPolicy."""
    found = settings(layers)
    return found, resolve(found)


class Enforcement:
    """See the module."""

    def __init__(self, registry: Registry, agenda: Agenda[Queue]) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn

    # -- effective values --------------------------------------------------------------------------------------

    def layers(self, host: VirtualHost, name: str, own: Mapping[str, Value], queue: Queue | None = None) -> Layers:
        """Return the layers of a queue with this name, existing or not, and these fields of its own."""
        best = host.policies.of(name) if queue is not None else host.policies.best(name)
        bound = host.bound.get(queue, ()) if queue is not None else ()
        return Layers(
            fields(own),
            _layer(best),
            tuple((exchange.origin, fields(exchange.own)) for exchange in bound),
            fields(host.defaults),
            fields(self.registry.defaults),
        )

    def layers_of(self, queue: Queue) -> Layers:
        return self.layers(self.registry.virtualhosts[queue.virtualhost], queue.name, queue.own, queue)

    def effective(self, layers: Layers, subject: str = "") -> Effective:
        """Return the settings and limits for these layers. Raises InvalidValue. `subject`: the object whose policy is
        refused; empty: the one that the request names."""
        try:
            return effective(layers)
        except InvalidPolicy as invalid:
            prefix = f"{subject}: " if subject else ""
            raise InvalidValue({name: f"{prefix}{text}" for name, text in invalid.errors.items()}) from None

    def effective_all(
        self, affected: Iterable[tuple[Queue, Layers]], because: str = ""
    ) -> list[tuple[Queue, Effective]]:
        """Return settings and limits of several queues. Raises InvalidValue for the first queue with a
        contradiction."""
        suffix = f" {because}" if because else ""
        return [(q, self.effective(layers, f"queue {q.virtualhost}/{q.name}{suffix}")) for q, layers in affected]

    def apply(self, found: Iterable[tuple[Queue, Effective]]) -> None:
        changed = self.agenda.changed
        for queue, (effective, limits) in found:
            if limits != queue.gate.limits:
                queue.gate.set_limits(limits, effective)
                self.registry.host_of(queue).limits_changed()
                changed.add(queue)
            else:
                queue.gate.settings = effective

    # -- the queue's own policy, and defaults -----------------------------------------------------------------

    def set_own(self, queue: Queue, own: Mapping[str, Value]) -> None:
        layers = self.layers_of(queue)._replace(own=fields(own))
        found = self.effective(layers)
        queue.own = dict(own)
        self.apply([(queue, found)])

    def set_virtualhost_defaults(self, host: VirtualHost, defaults: Mapping[str, Value]) -> None:
        """Set the defaults of a virtual host. Refused if they contradict one of its queues, policies or exchanges."""
        after = fields(defaults)
        self._check_places(host, after, fields(self.registry.defaults))
        found = self.effective_all((q, self.layers_of(q)._replace(virtualhost=after)) for q in host.queues.values())
        host.defaults = dict(defaults)
        self.apply(found)

    def set_broker_defaults(self, defaults: Mapping[str, Value]) -> None:
        """Set the broker's defaults. Refused if they contradict a virtual host, queue, policy or exchange."""
        after = fields(defaults)
        self.effective(Layers(broker=after))
        for host in self.registry.virtualhosts.values():
            self._check_places(host, fields(host.defaults), after)
        found = self.effective_all((q, self.layers_of(q)._replace(broker=after)) for q in self.registry.queues())
        self.registry.defaults = dict(defaults)
        self.apply(found)

    def _check_places(self, host: VirtualHost, virtualhost: Fields, broker: Fields) -> None:
        """Refuse defaults that are contradictory for future queues. Raises InvalidValue."""
        inherited = Layers(virtualhost=virtualhost, broker=broker)
        self.effective(inherited)
        for policy in host.policies.by_pattern.values():
            who = f"{policy.origin} of virtual host {host.name}"
            self.effective(inherited._replace(pattern=policy.layer), who)
        for exchange in host.exchanges.values():
            own = (exchange.origin, fields(exchange.own))
            self.effective(inherited._replace(exchanges=(own,)), f"{exchange.origin} of virtual host {host.name}")

    def _inherited(self, host: VirtualHost) -> Layers:
        return Layers(virtualhost=fields(host.defaults), broker=fields(self.registry.defaults))

    # -- exchanges --------------------------------------------------------------------------------------------

    def check_exchange(self, host: VirtualHost, exchange: Exchange, own: Mapping[str, Value]) -> None:
        self.effective(self._inherited(host)._replace(exchanges=((exchange.origin, fields(own)),)))

    def set_exchange_policy(self, exchange: Exchange, own: Mapping[str, Value]) -> None:
        """Set the policy of an exchange. Refused if it contradicts one of the bound queues."""
        host = self.registry.virtualhosts[exchange.virtualhost]
        self.check_exchange(host, exchange, own)
        after = {exchange: fields(own)}
        found = self.effective_all(
            ((queue, self._bound(queue, host.bound[queue], after)) for queue in exchange.bindings),
            f"with {exchange.origin}",
        )
        exchange.own = dict(own)
        self.apply(found)

    def effective_bound(
        self, queue: Queue, exchanges: tuple[Exchange, ...], because: str
    ) -> list[tuple[Queue, Effective]]:
        """Return settings and limits of a queue as if it were bound to these exchanges."""
        return self.effective_all([(queue, self._bound(queue, exchanges, {}))], because)

    def _bound(self, queue: Queue, exchanges: Iterable[Exchange], after: Mapping[Exchange, Fields]) -> Layers:
        own = tuple((e.origin, after[e] if e in after else fields(e.own)) for e in exchanges)
        return self.layers_of(queue)._replace(exchanges=own)

    # -- destination policies ---------------------------------------------------------------------------------

    def policy(self, virtualhost: str, pattern: str) -> Policy:
        try:
            return self.registry.virtualhost(virtualhost).policies.by_pattern[pattern]
        except KeyError:
            raise NotFound(f"there is no policy for pattern {pattern} in virtual host {virtualhost}") from None

    def create_policy(
        self, host: VirtualHost, pattern: str, given: Mapping[str, Value], *, priority: int = 0, actor: str = ""
    ) -> Policy:
        """Create a destination policy. Raises InvalidValue, AlreadyExists."""
        check_pattern(pattern)
        if pattern in host.policies.by_pattern:
            raise AlreadyExists(f"there is a policy for pattern {pattern} in virtual host {host.name} already")
        policy = Policy(host.name, pattern, dict(given), priority)
        self._replace(host, None, policy, actor)
        return policy

    def update_policy(self, policy: Policy, given: Mapping[str, Value], *, priority: int, actor: str = "") -> Policy:
        """Replace a destination policy and return the new one. Raises InvalidValue."""
        host = self.registry.virtualhosts[policy.virtualhost]
        after = Policy(host.name, policy.pattern, dict(given), priority, policy.version + 1)
        self._replace(host, policy, after, actor)
        return after

    def delete_policy(self, policy: Policy, *, actor: str = "") -> None:
        """Delete a destination policy. Raises InvalidValue if what its queues inherit without it is contradictory."""
        self._replace(self.registry.virtualhosts[policy.virtualhost], policy, None, actor)

    def _replace(self, host: VirtualHost, before: Policy | None, after: Policy | None, actor: str) -> None:
        policy = after or before
        assert policy is not None
        if after is not None:
            self.effective(self._inherited(host)._replace(pattern=after.layer))
        changes = host.policies.changes(policy.pattern, after)
        because = f"{'with' if after else 'without'} {policy.origin}"
        affected = ((host.queues[name], best) for name, best in changes.items())
        found = self.effective_all(
            ((q, self.layers_of(q)._replace(pattern=_layer(best))) for q, best in affected), because
        )
        host.policies.put(policy.pattern, after, changes)
        self.apply(found)
        self._add_fact(before, after, len(changes), actor)
        record = None if after is None else _record(after)
        self.turn.records.append(PersistRecord("policy", str(policy.object_name), record))

    def _add_fact(self, before: Policy | None, after: Policy | None, queues: int, actor: str) -> None:
        policy = after or before
        assert policy is not None
        old: dict[str, Value | None] = {**_attributes(before)}
        new: dict[str, Value | None] = {**_attributes(after)}
        changed = [name for name in ("priority", *FIELDS) if old.get(name) != new.get(name)]
        old, new = {name: old.get(name) for name in changed}, {name: new.get(name) for name in changed}
        change = "created" if before is None else "deleted" if after is None else "changed"
        self.turn.add_fact(
            "policy-changed",
            policy.object_name,
            f"vh(/{policy.virtualhost})/policy({policy.pattern})",
            policy_words(old, new, change),
            {"before": old, "after": new, "change": change, "queues": queues, "actor": actor},
        )

    def restore_policy(self, record: Mapping[str, Any]) -> None:
        """Restore a policy from a record, before the queues of its virtual host."""
        policy = Policy(
            record["virtualhost"], record["pattern"], dict(record["fields"]), record["priority"], record["version"]
        )
        self.registry.virtualhost(policy.virtualhost).policies.put(policy.pattern, policy, {})


def _layer(best: Policy | None) -> tuple[str, Fields]:
    return ("", NOTHING) if best is None else best.layer


def _attributes(policy: Policy | None) -> dict[str, Value]:
    return {} if policy is None else {"priority": policy.priority, **policy.given}


def _record(policy: Policy) -> dict[str, Any]:
    return {
        "virtualhost": policy.virtualhost,
        "pattern": policy.pattern,
        "priority": policy.priority,
        "fields": policy.given,
        "version": policy.version,
    }


def check_pattern(pattern: str) -> None:
    """Raise InvalidValue unless a destination policy can have this pattern."""
    fault = pattern_fault(pattern)
    if not pattern:
        fault = "pattern is empty: > stands for every queue"
    elif len(pattern) > MAX_PATTERN or pattern != pattern.strip() or not pattern.isprintable():
        fault = f"pattern {pattern!r}: 1 to {MAX_PATTERN} printable characters, no blank at the ends"
    if fault:
        raise InvalidValue({"pattern": fault})
