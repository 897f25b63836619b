"""The impact preview of policy changes, computed without applying anything.

The changes form an overlay on the present settings. For each queue that inherits from one of them, the effective values
are resolved with the overlay, by the same rules as for real changes (`services/enforcement.py`, `gate.set_limits`), and
compared with the present ones. Changes that would be refused are refused here with the same errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.admin import AlreadyExists, InvalidValue, StaleVersion
from brokers.engine.broker import Broker
from brokers.engine.management.impact import QueueImpact, describe_impact, impact
from brokers.engine.management.policy_changes import PolicyChange, one_per_object, read_change
from brokers.engine.management.resources.policies import merged_policy
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.exchange import Exchange
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.enforcement import check_pattern
from brokers.engine.values.policy import NOTHING, Fields, Layers, Policies, Policy, Value, fields
from brokers.model.policy_operations import MOST_CHANGES, MOST_QUEUES


@dataclass(slots=True)
class Overlay:
    """The settings after the changes, where they differ. `policies`: virtual host -> pattern -> its policy, None if
    deleted."""

    broker: Fields | None = None
    hosts: dict[str, Fields] = field(default_factory=dict)
    exchanges: dict[Exchange, Fields] = field(default_factory=dict)
    policies: dict[str, dict[str, Policy | None]] = field(default_factory=dict)
    own: dict[Queue, Fields] = field(default_factory=dict)
    only_one: bool = True  # there is one change: an error need not name its object


class Preview:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def preview(self, changes: Iterable[Any], largest: int, *, one_by_one: bool = False) -> dict[str, Any]:
        """Return the answer of the operation `preview-change`, with the `largest` impacts in full. `one_by_one`: queues
        whose own change is refused are listed instead of raised. Raises the error of the first refused change."""
        single = [each for change in changes for each in one_per_object(change)]
        if len(single) > MOST_CHANGES:
            raise InvalidValue({"changes": f"changes are {len(single):,}: {MOST_CHANGES:,} at most can be previewed"})
        if not 0 <= largest <= MOST_QUEUES:
            raise InvalidValue({"largest": f"largest is {largest}: from 0 to {MOST_QUEUES}"})
        overlay, versions = Overlay(only_one=len(single) == 1), dict[str, int | None]()
        for each in single:
            change = read_change(each)
            versions[str(change.name)] = self._plan(overlay, change)
        self._check_inheritance(overlay)
        impacts, refusals = self._impacts(overlay, one_by_one=one_by_one)
        changed = [each for each in impacts if each.changes]
        changed.sort(key=lambda each: each.queue.name)
        changed.sort(key=lambda each: each.weight, reverse=True)
        return {
            "queues": len(impacts),
            "changed": len(changed),
            "overfull": sum(each.becomes_overfull for each in changed),
            "released": sum(each.is_unblocked for each in changed),
            "held": sum(each.newly_blocked for each in changed),
            "freed": sum(each.unblocked for each in changed),
            "dropped": sum(each.dropped for each in changed),
            "refused": len(refusals),
            "refusals": [{"object": name, "detail": detail} for name, detail in refusals[:largest]],
            "versions": versions,
            "largest": [describe_impact(each) for each in changed[:largest]],
        }

    # -- the changes --------------------------------------------------------------------------------------------

    def _plan(self, overlay: Overlay, change: PolicyChange) -> int | None:
        """Add a change to the overlay. Return the present version of its object; None: it would be created."""
        name = change.name
        if name.type == "Policy":
            return self._plan_policy(overlay, change)
        if name.type == "Queue":
            queue = self.broker.queue(name["virtualhost"], name["name"])
            given = _checked(overlay, change, queue.version)
            overlay.own[queue] = _merged(overlay.own.get(queue), queue.own, given)
            return queue.version
        if name.type == "Exchange":
            exchange = self.broker.registry.exchange(name["virtualhost"], name["name"])
            given = _checked(overlay, change, exchange.version)
            overlay.exchanges[exchange] = _merged(overlay.exchanges.get(exchange), exchange.own, given)
            return exchange.version
        if name.type == "VirtualHost":
            host = self.broker.virtualhost(name["name"])
            given = _checked(overlay, change, host.version)
            overlay.hosts[host.name] = _merged(overlay.hosts.get(host.name), host.defaults, given)
            return host.version
        given = _checked(overlay, change, self.broker.registry.version)
        overlay.broker = _merged(overlay.broker, self.broker.registry.defaults, given)
        return self.broker.registry.version

    def _plan_policy(self, overlay: Overlay, change: PolicyChange) -> int | None:
        virtualhost, pattern = change.name["virtualhost"], change.name["pattern"]
        before = self._planned(overlay, virtualhost, pattern)
        if change.action == "create":
            if before is not None:
                raise AlreadyExists(f"there is a policy for pattern {pattern} in virtual host {virtualhost} already")
            self.broker.virtualhost(virtualhost)
            check_pattern(pattern)
            given = change.checked_attributes(only_one=overlay.only_one)
        else:
            before = before or self.broker.enforcement.policy(virtualhost, pattern)
            given = _checked(overlay, change, before.version)
        after = None
        if change.action != "delete":
            policy, priority = (before.given, before.priority) if before else ({}, 0)
            own = merged_policy(policy, given)
            after = Policy(virtualhost, pattern, own, given.get("priority", priority))
        overlay.policies.setdefault(virtualhost, {})[pattern] = after
        return None if change.action == "create" or before is None else before.version

    def _planned(self, overlay: Overlay, virtualhost: str, pattern: str) -> Policy | None:
        """Return the destination policy after the changes so far."""
        planned = overlay.policies.get(virtualhost, {})
        if pattern in planned:
            return planned[pattern]
        host = self.broker.virtualhosts.get(virtualhost)
        return host.policies.by_pattern.get(pattern) if host else None

    # -- effective values with the overlay ----------------------------------------------------------------------

    def _around(self, overlay: Overlay, host: VirtualHost) -> Layers:
        broker = fields(self.broker.registry.defaults) if overlay.broker is None else overlay.broker
        return Layers(virtualhost=overlay.hosts.get(host.name, fields(host.defaults)), broker=broker)

    def _check_inheritance(self, overlay: Overlay) -> None:
        """Refuse settings that are contradictory for future queues. Raises InvalidValue."""
        effective = self.broker.enforcement.effective
        if overlay.broker is not None:
            effective(Layers(broker=overlay.broker))
        for host in self.broker.virtualhosts.values():
            around = self._around(overlay, host)
            everything = overlay.broker is not None or host.name in overlay.hosts
            if everything:
                effective(around)
            planned = overlay.policies.get(host.name, {})
            for pattern, policy in {**(host.policies.by_pattern if everything else {}), **planned}.items():
                if policy is not None:
                    who = "" if pattern in planned else f"{policy.origin} of virtual host {host.name}"
                    effective(around._replace(pattern=policy.layer), who)
            for exchange in host.exchanges.values():
                if everything or exchange in overlay.exchanges:
                    own = overlay.exchanges.get(exchange, fields(exchange.own))
                    who = "" if exchange in overlay.exchanges else f"{exchange.origin} of virtual host {host.name}"
                    effective(around._replace(exchanges=((exchange.origin, own),)), who)

    def _affected(self, overlay: Overlay) -> Iterator[Queue]:
        """Yield each queue that inherits from a changed object, once."""
        if overlay.broker is not None:
            yield from self.broker.queues()
            return
        found: dict[Queue, None] = {}
        for name in overlay.hosts:
            found.update(dict.fromkeys(self.broker.virtualhosts[name].queues.values()))
        for name, planned in overlay.policies.items():
            host = self.broker.virtualhosts[name]
            for pattern in planned:
                found.update(dict.fromkeys(host.queues[queue] for queue in host.policies.covered(pattern)))
        for exchange in overlay.exchanges:
            found.update(dict.fromkeys(exchange.bindings))
        found.update(dict.fromkeys(overlay.own))
        yield from found

    def _impacts(self, overlay: Overlay, *, one_by_one: bool) -> tuple[list[QueueImpact], list[tuple[str, str]]]:
        """Return (the impacts on all affected queues; (object, error) of queues whose own change is refused)."""
        enforcement, hosts = self.broker.enforcement, self.broker.virtualhosts
        policies = {name: hosts[name].policies.with_changes(planned) for name, planned in overlay.policies.items()}
        impacts, refusals = list[QueueImpact](), list[tuple[str, str]]()
        for queue in self._affected(overlay):
            host = hosts[queue.virtualhost]
            layers = self._layers(overlay, host, queue, policies.get(host.name))
            own = queue in overlay.own
            named = "" if own and (overlay.only_one or one_by_one) else f"queue {queue.virtualhost}/{queue.name}"
            try:
                found, limits = enforcement.effective(layers, named)
            except InvalidValue as refused:
                if not (own and one_by_one):
                    raise
                refusals.append((str(queue.object_name), str(refused)))
                continue
            impacts.append(impact(queue, found, limits))
        return impacts, refusals

    def _layers(self, overlay: Overlay, host: VirtualHost, queue: Queue, policies: Policies | None) -> Layers:
        around = self._around(overlay, host)
        best = host.policies.of(queue.name) if policies is None else policies.best(queue.name)
        return Layers(
            overlay.own.get(queue, fields(queue.own)),
            ("", NOTHING) if best is None else best.layer,
            tuple((e.origin, overlay.exchanges.get(e, fields(e.own))) for e in host.bound.get(queue, ())),
            around.virtualhost,
            around.broker,
        )


def _checked(overlay: Overlay, change: PolicyChange, version: int) -> dict[str, Any]:
    """Return the attributes of a change. Raises StaleVersion if it is for another version of the object."""
    if change.version is not None and version != change.version:
        raise StaleVersion(
            f"{change.name} is at version {version}, and the preview is for version {change.version}: read it again",
            version,
        )
    return change.checked_attributes(only_one=overlay.only_one)


def _merged(planned: Fields | None, now: Mapping[str, Value], given: Mapping[str, Any]) -> Fields:
    return fields(merged_policy(now if planned is None else dict(planned), given))
