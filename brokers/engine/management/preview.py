"""What changes of policies would do: worked out beside the running broker, nothing applied.

The changes are laid over what is set now, all together; each queue that looks at one of them is settled anew, by the
rules that would put it in force (`enforcement.py`, `gate.set_limits`), and compared with what it is. What the change
would be refused for is refused here, in the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from brokers.admin import AlreadyExists, InvalidValue, NotAllowed, StaleVersion
from brokers.engine.exchange import Exchange
from brokers.engine.flow import scarcity, table
from brokers.engine.flow.overflow import WAYS
from brokers.engine.flow.table import Input, State
from brokers.engine.management.attributes import effective
from brokers.engine.queues.queue import Queue
from brokers.engine.services.enforcement import check_pattern
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.policy import (
    FIELDS,
    NOTHING,
    Fields,
    Layers,
    Policies,
    Policy,
    Setting,
    Value,
    fields,
    settings,
)
from brokers.engine.virtualhost import VirtualHost
from brokers.model import TYPES, ObjectName, check_attributes
from brokers.model.policy_operations import MOST_CHANGES, MOST_QUEUES

if TYPE_CHECKING:
    from brokers.engine.broker import Broker


@dataclass(slots=True)
class Overlay:
    """What would be set, where that differs from what is. `policies`: virtual host -> pattern -> its policy, if any."""

    broker: Fields | None = None
    hosts: dict[str, Fields] = field(default_factory=dict)
    exchanges: dict[Exchange, Fields] = field(default_factory=dict)
    policies: dict[str, dict[str, Policy | None]] = field(default_factory=dict)
    own: dict[Queue, Fields] = field(default_factory=dict)
    alone: bool = True  # it is one change: a refusal need not say whose


@dataclass(frozen=True, slots=True)
class Fate:
    """What would become of one queue."""

    queue: Queue
    limits: Limits
    changes: Mapping[str, tuple[Setting, Setting]]
    state: State
    blocked: int
    dropped: int

    @property
    def becomes_overfull(self) -> bool:
        return self.state.overfull and not self.queue.state.overfull

    @property
    def is_released(self) -> bool:
        return self.queue.state.overfull and not self.state.overfull

    @property
    def held(self) -> int:
        return max(0, self.blocked - self.queue.blocked_producers)

    @property
    def freed(self) -> int:
        return max(0, self.queue.blocked_producers - self.blocked)

    @property
    def weight(self) -> tuple[bool, int, int, int]:
        """The more happens to it, the higher."""
        touched = self.becomes_overfull or self.is_released or bool(self.held or self.freed or self.dropped)
        return touched, self.held + self.freed, self.queue.producer_count, self.queue.depth_messages


class Preview:
    """See the module."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def layers_at(self, thing: Any) -> tuple[Layers, Layers]:
        """What is set at an object and around it: (with its own settings, without them)."""
        enforcement, broker = self.broker.enforcement, self.broker
        if isinstance(thing, Queue):
            whole = enforcement.layers_of(thing)
            return whole, whole._replace(own=NOTHING)
        if isinstance(thing, VirtualHost):
            whole = Layers(virtualhost=fields(thing.defaults), broker=fields(broker.defaults))
            return whole, whole._replace(virtualhost=NOTHING)
        if isinstance(thing, Policy | Exchange):
            host = broker.virtualhosts[thing.virtualhost]
            around = Layers(virtualhost=fields(host.defaults), broker=fields(broker.defaults))
            if isinstance(thing, Policy):
                return around._replace(pattern=thing.layer), around
            return around._replace(exchanges=((thing.origin, fields(thing.own)),)), around
        return Layers(broker=fields(broker.defaults)), Layers()

    def explain(self, thing: Any) -> tuple[dict[str, Setting], dict[str, Setting]]:
        """Setting of each field at an object: (as it is, if the object set nothing itself)."""
        whole, without = self.layers_at(thing)
        return settings(whole), settings(without)

    def preview(self, changes: Iterable[Any], largest: int, find: Any, *, one_by_one: bool = False) -> dict[str, Any]:
        """The answer of the operation `preview-change`. `find`: object name -> object, raises NotFound. Raises what the
        changes would be refused for; of several changes that cannot be it names one."""
        listed = [each for change in changes for each in _single(change)]
        if len(listed) > MOST_CHANGES:
            raise InvalidValue({"changes": f"changes are {len(listed):,}: {MOST_CHANGES:,} at most can be previewed"})
        if not 0 <= largest <= MOST_QUEUES:
            raise InvalidValue({"largest": f"largest is {largest}: from 0 to {MOST_QUEUES}"})
        overlay, versions = Overlay(alone=len(listed) == 1), dict[str, int | None]()
        for change in listed:
            name, version = self._lay(overlay, change, find)
            versions[str(name)] = version
        self._check_places(overlay)
        fates, refusals = self._fates(overlay, one_by_one=one_by_one)
        changed = [fate for fate in fates if fate.changes]
        changed.sort(key=lambda fate: fate.queue.name)
        changed.sort(key=lambda fate: fate.weight, reverse=True)
        return {
            "queues": len(fates),
            "changed": len(changed),
            "overfull": sum(fate.becomes_overfull for fate in changed),
            "released": sum(fate.is_released for fate in changed),
            "held": sum(fate.held for fate in changed),
            "freed": sum(fate.freed for fate in changed),
            "dropped": sum(fate.dropped for fate in changed),
            "refused": len(refusals),
            "refusals": [{"object": name, "detail": detail} for name, detail in refusals[:largest]],
            "versions": versions,
            "largest": [_told(fate) for fate in changed[:largest]],
        }

    # -- the changes --------------------------------------------------------------------------------------------

    def _lay(self, overlay: Overlay, change: Any, find: Any) -> tuple[ObjectName, int | None]:
        name, action, given, version = _read(change)
        thing: Any
        if action == "create":
            thing = self._planned(overlay, name)
            if thing is not None:
                raise AlreadyExists(
                    f"there is a policy for pattern {name['pattern']} in virtual host {name['virtualhost']} already"
                )
            self.broker.virtualhost(name["virtualhost"])
            check_pattern(name["pattern"])
        else:
            thing = self._planned(overlay, name) if name.type == "Policy" else None
            thing = thing or find(name)
            if version is not None and thing.version != version:
                raise StaleVersion(
                    f"{name} is at version {thing.version}, and the preview is for version {version}: read it again",
                    thing.version,
                )
        good = _checked(name, given, alone=overlay.alone)
        match name.type:
            case "Policy":
                after = None
                if action != "delete":
                    own = _merged(thing.given if thing else {}, good)
                    priority = good.get("priority", thing.priority if thing else 0)
                    after = Policy(name["virtualhost"], name["pattern"], own, priority)
                overlay.policies.setdefault(name["virtualhost"], {})[name["pattern"]] = after
            case "Queue":
                overlay.own[thing] = _over(overlay.own.get(thing), thing.own, good)
            case "Exchange":
                overlay.exchanges[thing] = _over(overlay.exchanges.get(thing), thing.own, good)
            case "VirtualHost":
                overlay.hosts[thing.name] = _over(overlay.hosts.get(thing.name), thing.defaults, good)
            case _:
                overlay.broker = _over(overlay.broker, self.broker.defaults, good)
        return name, None if action == "create" else thing.version

    def _planned(self, overlay: Overlay, name: ObjectName) -> Policy | None:
        """The destination policy there would be after the changes so far."""
        virtualhost, pattern = name["virtualhost"], name["pattern"]
        planned = overlay.policies.get(virtualhost, {})
        if pattern in planned:
            return planned[pattern]
        host = self.broker.virtualhosts.get(virtualhost)
        return host.policies.by_pattern.get(pattern) if host else None

    # -- what would be set --------------------------------------------------------------------------------------

    def _around(self, overlay: Overlay, host: VirtualHost) -> Layers:
        broker = fields(self.broker.defaults) if overlay.broker is None else overlay.broker
        return Layers(virtualhost=overlay.hosts.get(host.name, fields(host.defaults)), broker=broker)

    def _check_places(self, overlay: Overlay) -> None:
        """What queues to come would inherit must not contradict itself either."""
        settle = self.broker.enforcement.settle
        if overlay.broker is not None:
            settle(Layers(broker=overlay.broker))
        for host in self.broker.virtualhosts.values():
            around = self._around(overlay, host)
            everything = overlay.broker is not None or host.name in overlay.hosts
            if everything:
                settle(around)
            planned = overlay.policies.get(host.name, {})
            for pattern, policy in {**(host.policies.by_pattern if everything else {}), **planned}.items():
                if policy is not None:
                    who = "" if pattern in planned else f"{policy.origin} of virtual host {host.name}"
                    settle(around._replace(pattern=policy.layer), who)
            for exchange in host.exchanges.values():
                if everything or exchange in overlay.exchanges:
                    own = overlay.exchanges.get(exchange, fields(exchange.own))
                    who = "" if exchange in overlay.exchanges else f"{exchange.origin} of virtual host {host.name}"
                    settle(around._replace(exchanges=((exchange.origin, own),)), who)

    def _concerned(self, overlay: Overlay) -> Iterator[Queue]:
        """Every queue that looks at what is changed, once."""
        if overlay.broker is not None:
            yield from self.broker.queues()
            return
        seen: dict[Queue, None] = {}
        for name in overlay.hosts:
            seen.update(dict.fromkeys(self.broker.virtualhosts[name].queues.values()))
        for name, planned in overlay.policies.items():
            host = self.broker.virtualhosts[name]
            for pattern in planned:
                seen.update(dict.fromkeys(host.queues[queue] for queue in host.policies.covered(pattern)))
        for exchange in overlay.exchanges:
            seen.update(dict.fromkeys(exchange.bindings))
        seen.update(dict.fromkeys(overlay.own))
        yield from seen

    def _fates(self, overlay: Overlay, *, one_by_one: bool) -> tuple[list[Fate], list[tuple[str, str]]]:
        """(what would become of each queue; object and sentence of those that refuse their own change)."""
        enforcement, hosts = self.broker.enforcement, self.broker.virtualhosts
        policies = {name: hosts[name].policies.with_changes(planned) for name, planned in overlay.policies.items()}
        fates, refusals = list[Fate](), list[tuple[str, str]]()
        for queue in self._concerned(overlay):
            host = hosts[queue.virtualhost]
            layers = self._layers(overlay, host, queue, policies.get(host.name))
            own = queue in overlay.own
            try:
                told, limits = enforcement.settle(
                    layers, "" if own and (overlay.alone or one_by_one) else f"queue {queue.virtualhost}/{queue.name}"
                )
            except InvalidValue as refused:
                if not (own and one_by_one):
                    raise
                refusals.append((str(queue.object_name), str(refused)))
                continue
            fates.append(_fate(queue, told, limits))
        return fates, refusals

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


def _single(change: Any) -> Iterator[Any]:
    """One change for each object."""
    objects = change.get("objects") if isinstance(change, Mapping) else None
    if objects is None:
        yield change
        return
    if not isinstance(objects, Mapping) or "object" in change or "version" in change:
        raise InvalidValue(
            {"objects": f"objects is {objects!r}: a map of names to versions, without object or version"}
        )
    rest = {key: value for key, value in change.items() if key != "objects"}
    for name, version in objects.items():
        yield {**rest, "object": name, "version": version}


def _read(change: Any) -> tuple[ObjectName, str, dict[str, Any], int | None]:
    if not isinstance(change, Mapping):
        raise InvalidValue({"changes": f"changes has {change!r}: each must be a map with an object"})
    unknown = [key for key in change if key not in ("object", "action", "attributes", "version")]
    if unknown:
        raise InvalidValue({"changes": f"a change has no {', '.join(map(str, unknown))}"})
    try:
        name = ObjectName.parse(str(change.get("object") or ""))
    except ValueError as error:
        raise InvalidValue({"object": str(error)}) from None
    action, given, version = change.get("action") or "update", change.get("attributes") or {}, change.get("version")
    if name.type not in ("Broker", "VirtualHost", "Exchange", "Policy", "Queue"):
        raise NotAllowed(f"a {name.type.lower()} has no flow-control policy")
    if action not in ("update", "create", "delete") or (action != "update" and name.type != "Policy"):
        raise InvalidValue(
            {"action": f"action is {action!r} for {name}: update, or for a Policy create or delete, can be previewed"}
        )
    if not isinstance(given, Mapping):
        raise InvalidValue({"attributes": f"attributes is {given!r}: it must be a map"})
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise InvalidValue({"version": f"version is {version!r}: it must be a whole number"})
    return name, str(action), dict(given), version


def _checked(name: ObjectName, given: Mapping[str, Any], *, alone: bool) -> dict[str, Any]:
    """The attributes in their canonical form. `alone`: it is the only change, and needs no name in a refusal."""
    good, wrong = check_attributes(TYPES[name.type], given, creating=False)
    known = (*FIELDS, "priority") if name.type == "Policy" else FIELDS
    wrong += [(n, f"{n} is no policy field: its effect is not previewed") for n in good if n not in known]
    if wrong:
        raise InvalidValue({n: text if alone else f"{name}: {text}" for n, text in wrong})
    return good


def _merged(before: Mapping[str, Value], given: Mapping[str, Any]) -> dict[str, Value]:
    merged = {**before, **{f: v for f, v in given.items() if f in FIELDS}}
    return {f: v for f, v in merged.items() if v is not None}


def _over(planned: Fields | None, now: Mapping[str, Value], given: Mapping[str, Any]) -> Fields:
    return fields(_merged(now if planned is None else dict(planned), given))


# -- one queue -------------------------------------------------------------------------------------------------


def _fate(queue: Queue, told: Mapping[str, Setting], limits: Limits) -> Fate:
    before = queue.settings
    changes = {f: (before[f], told[f]) for f in FIELDS if before[f].value != told[f].value}
    overfull, dropped = queue.state.overfull, 0
    if limits != queue.limits:
        overfull, dropped = _after(queue, limits)
    if queue.state.stopped or (overfull and WAYS[limits.full].blocks):
        blocked = queue.producer_count
    else:
        blocked = scarcity.blocked_producers(queue, limits)
    return Fate(queue, limits, changes, _state(queue, overfull=overfull), blocked, dropped)


def _after(queue: Queue, limits: Limits) -> tuple[bool, int]:
    """(whether it would be overfull, messages that it would drop) as soon as these limits hold."""
    if limits.ring:
        return False, _excess(queue, limits)
    seen = table.measure(limits, queue.depth_bytes, queue.depth_messages)
    return queue.state.overfull if seen is None else seen is Input.ABOVE_STOP, 0


def _state(queue: Queue, *, overfull: bool) -> State:
    if queue.state.stopped:
        return State.OVERFULL_STOPPED if overfull else State.STOPPED
    return State.OVERFULL if overfull else State.NORMAL


def _excess(queue: Queue, limits: Limits) -> int:
    """About how many messages are above the limits of a ring; what consumers hold is not dropped."""
    messages = queue.depth_messages - queue.uncommitted_messages
    above = max(0, messages - limits.stop_messages)
    over = queue.depth_bytes - queue.uncommitted_bytes - limits.stop_bytes
    if over > 0:
        above = max(above, math.ceil(over / _size(queue)))
    return min(above, max(0, messages - queue.unacknowledged))


def _size(queue: Queue) -> float:
    """Bytes of a usual message of the queue."""
    mean = queue.depth_bytes / queue.depth_messages if queue.depth_messages else 0
    return mean or queue.ledger.recent or queue.ledger.largest or 1


def _told(fate: Fate) -> dict[str, Any]:
    queue = fate.queue
    return {
        "object": str(queue.object_name),
        "virtualhost": queue.virtualhost,
        "name": queue.name,
        "producers": queue.producer_count,
        "depth_messages": queue.depth_messages,
        "depth_bytes": queue.depth_bytes,
        "dropped": fate.dropped,
        "changes": {
            name: {
                "before": before.value,
                "before_origin": before.origin,
                "after": after.value,
                "after_origin": after.origin,
            }
            for name, (before, after) in fate.changes.items()
        },
        "before": _shown(queue, queue.limits, queue.state, queue.blocked_producers),
        "after": _shown(queue, fate.limits, fate.state, fate.blocked),
    }


def _shown(queue: Queue, limits: Limits, state: State, blocked: int) -> dict[str, Any]:
    messages = None if limits.ring or limits.stop_messages == UNLIMITED else limits.stop_messages - queue.depth_messages
    octets = None if limits.ring or limits.stop_bytes == UNLIMITED else limits.stop_bytes - queue.depth_bytes
    return {
        "state": state.value,
        **effective(limits),
        "blocked_producers": blocked,
        "headroom_messages": messages if messages is None else max(0, messages),
        "headroom_bytes": octets if octets is None else max(0, octets),
        "full_in_ms": None if state.overfull else _full_in(queue, messages, octets),
    }


def _full_in(queue: Queue, messages: int | None, octets: int | None) -> int | None:
    """Ms until one of the two is used up at the rates of the last second; None: not while they last."""
    growth = queue.rate_in - queue.rate_out
    if growth <= 0:
        return None
    left = [messages] if messages is not None else []
    if octets is not None:
        left.append(int(octets / _size(queue)))
    return int(min(left) / growth * 1000) if left else None
