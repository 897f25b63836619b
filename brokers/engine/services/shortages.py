"""Shortages of the broker's and virtual hosts' resources, which block producers.

`usage.py` says when a resource is overfull, `metering.py` counts usage. A shortage begins at once when the counted
usage exceeds the limit; its end is checked once a second, so that usage around a limit blocks and unblocks producers no
more often than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from brokers.admin import InvalidValue
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.usage import (
    NO_LEVELS,
    STORE_OVERFULL_WORDS,
    STORE_UNDERFULL_WORDS,
    Change,
    Levels,
    Resource,
    Usage,
    Value,
    limit_levels,
    store_levels,
)
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import VirtualHost
from brokers.engine.services.stores import OpenStores
from brokers.engine.values.limits import InvalidPolicy
from brokers.model import object_name

#: The attributes that limit each resource of the broker: the limit, and the total that its percentages refer to.
LIMITS: Mapping[Resource, tuple[str, str]] = {
    Resource.MEMORY: ("memory_limit", "memory_total"),
    Resource.STORE: ("store_limit", "store_total"),
    Resource.TEMP: ("temp_limit", "temp_total"),
}
STORE_LIMITS = ("store_overfull_bytes", "store_underfull_bytes")

#: Percent of the available memory above which new messages are rejected (`Usage.exhausted`). Below it, messages in
#: flight when a limit is exceeded are parked.
MOST_MEMORY = 75

_NAMES = {Resource.MEMORY: "Memory", Resource.STORE: "Store", Resource.TEMP: "Temp"}


class Shortages:
    """`limits`: the attributes in `LIMITS` that are set; 0: no limit. `defaults`: a percentage for each resource whose
    limit is not set. `available`: bytes of each resource, as last measured; `wholes`: a description of each."""

    def __init__(self, registry: Registry, agenda: Agenda[Queue], stores: OpenStores) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn
        self.stores = stores
        self.usages = {resource: Usage(resource) for resource in LIMITS}
        self.limits: dict[str, Value] = {}
        self.defaults: dict[Resource, str] = {}
        self.wholes: dict[Resource, str] = {}
        self.available: dict[Resource, int] = dict.fromkeys(LIMITS, 0)

    def meter(self, host: VirtualHost) -> Meter:
        """Return a meter for a new virtual host."""

        def exceeded(usage: Usage) -> None:
            if usage is host.store_usage:
                self._update_store(host)
            else:
                self._update(usage)

        return Meter(self.usages, host.store_usage, exceeded)

    def forget(self, host: VirtualHost) -> None:
        """Discount the store of a deleted virtual host."""
        self.usages[Resource.STORE].used -= host.store_usage.used

    # -- limits -----------------------------------------------------------------------------------------------

    def set_limits(self, limits: Mapping[str, Value]) -> None:
        """Set the broker's limits, with immediate effect. Raises InvalidValue."""
        check_limits(limits)
        self.limits = {name: value for name, value in limits.items() if value is not None}
        self.measure()
        for queue in self.registry.queues():
            queue.gate.take_back_unaffordable()

    def set_store_limits(self, host: VirtualHost, limits: Mapping[str, int]) -> None:
        """Set a virtual host's `STORE_LIMITS`, with immediate effect. Raises InvalidValue."""
        levels = check_store_limits(limits)
        host.store_limits = dict(limits)
        host.store_usage.levels = levels
        self._update_store(host)
        for queue in host.queues.values():
            queue.gate.take_back_unaffordable()

    # -- measuring --------------------------------------------------------------------------------------------

    def measure(self, available: Mapping[Resource, int] | None = None, changed: Iterable[Queue] | None = None) -> None:
        """Measure all limited resources, and begin or end shortages. `available`: bytes of each resource. `changed`:
        the queues whose usage may have changed since they were measured last; None: any."""
        self.available.update(available or {})
        self.usages[Resource.MEMORY].most = self.available[Resource.MEMORY] * MOST_MEMORY // 100
        for queue in list(self.registry.queues() if changed is None else changed):  # a shortage changes queues
            queue.gate.weigh()
        for host in self.registry.virtualhosts.values():
            self._update_store(host)
        temp = self.stores.temp
        if temp is not None:
            self.usages[Resource.TEMP].used = temp.used_bytes + temp.pending_bytes
        for resource, usage in self.usages.items():
            usage.levels = self._levels(resource)
            self._update(usage)
            if usage.overfull and usage.waiting and usage.admits:
                for queue in self.registry.queues():
                    queue.touch()

    def _update(self, usage: Usage) -> None:
        change = usage.update(usage.used)
        if change is None:
            return
        name = _NAMES[usage.resource]
        over = "Exceeded" if change is Change.OVERFULL_BEGAN else "No Longer Exceeded"
        words = f"{name} Limit {over} : Used : {usage.used:,}, Limit : {usage.levels.overfull:,}"
        kind = "limit-exceeded" if change is Change.OVERFULL_BEGAN else "limit-cleared"
        facts = {"resource": usage.reason, "used_bytes": usage.used, "limit_bytes": usage.levels.overfull}
        self.turn.add_fact(kind, object_name("Broker"), "broker", words, facts)
        self._apply(usage, change, self.registry.queues())

    def _levels(self, resource: Resource) -> Levels:
        limit, total = self._limit(resource)
        if isinstance(limit, str) and not (total or self.available[resource]):
            return NO_LEVELS  # a percentage of an amount that is not known yet
        return limit_levels(LIMITS[resource][0], limit, total=_number(total), available=self.available[resource])

    def _limit(self, resource: Resource) -> tuple[Value | None, Value | None]:
        """Return the effective limit and its total."""
        limit, total = (self.limits.get(name) for name in LIMITS[resource])
        return self.defaults.get(resource) if limit is None else limit, total

    def origin(self, resource: Resource) -> str:
        """Return the origin of the effective limit, in words."""
        limit, total = self._limit(resource)
        own = LIMITS[resource][0] in self.limits
        if not limit or limit == "0%":
            return "none, set here" if own else "none"
        words = "set here" if own else "default"
        if not isinstance(limit, str):
            return words
        whole = size_words(_number(total) or self.available[resource])
        what = LIMITS[resource][1] if total else self.wholes.get(resource, "what is available")
        return f"{words}: {limit} of {whole} ({what})"

    def effective_limit(self, resource: Resource) -> int:
        """Return the effective limit of a resource in bytes; 0: none."""
        return self._levels(resource).overfull

    def used(self, resource: Resource) -> int:
        """Return the bytes that the broker uses now."""
        return self.usages[resource].used

    def _update_store(self, host: VirtualHost) -> None:
        if host.store is None:
            return
        usage = host.store_usage
        before, used = usage.used, host.store.used_bytes + host.store.pending_bytes
        self.usages[Resource.STORE].used += used - before
        change = usage.update(used, full=host.store.full)
        if change is None:
            return
        began = change is Change.OVERFULL_BEGAN
        self.turn.add_fact(
            "store-overfull" if began else "store-underfull",
            host.object_name,
            f"vh(/{host.name})/ms(Journal)",
            STORE_OVERFULL_WORDS if began else STORE_UNDERFULL_WORDS,
            {"used_bytes": usage.used, "disk_full": usage.full, **host.store_limits},
        )
        self._apply(usage, change, host.queues.values())

    def _apply(self, usage: Usage, change: Change, queues: Iterable[Queue]) -> None:
        for queue in queues:
            if change is Change.OVERFULL_BEGAN:
                queue.gate.begin_shortage(usage)
            else:
                queue.gate.end_shortage(usage)
            self.agenda.changed.add(queue)

    def of(self, host: VirtualHost) -> Iterator[Usage]:
        """Yield the present shortages that affect the queues of this virtual host."""
        yield from (u for u in (host.store_usage, *self.usages.values()) if u.overfull)


def size_words(size: int) -> str:
    """Format a number of bytes for people, in units of 1,024."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:,.1f}".removesuffix(".0") + f" {units[0]}"


def check_limits(limits: Mapping[str, Value]) -> None:
    """Raise InvalidValue, naming both values, if the broker's limits contradict each other."""
    errors: dict[str, str] = {}
    for limit, total in LIMITS.values():
        try:
            limit_levels(limit, limits.get(limit), total=_number(limits.get(total)), available=1)
        except InvalidPolicy as invalid:
            errors.update(invalid.errors)
    if errors:
        raise InvalidValue(errors)


def check_store_limits(limits: Mapping[str, int]) -> Levels:
    """Return the levels of a virtual host's limits. Raises InvalidValue, naming both values, if they contradict each
    other."""
    try:
        return store_levels(*(limits.get(name) for name in STORE_LIMITS))
    except InvalidPolicy as invalid:
        raise InvalidValue(invalid.errors) from None


def _number(value: Value | None) -> int | None:
    return value if isinstance(value, int) else None
