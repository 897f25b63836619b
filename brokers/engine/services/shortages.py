"""What the broker or a virtual host has run short of, and the producers that are blocked for it.

`usage.py` says when a resource is overfull, `metering.py` counts what is used. A shortage begins at once when what is
counted comes above the limit; whether it has ended is looked at once a second, so that a limit that is reached again
and again blocks and unblocks its producers no more often than that.
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

#: The attributes that limit each resource of the broker: the limit itself, and what its percentages are of.
LIMITS: Mapping[Resource, tuple[str, str]] = {
    Resource.MEMORY: ("memory_limit", "memory_total"),
    Resource.STORE: ("store_limit", "store_total"),
    Resource.TEMP: ("temp_limit", "temp_total"),
}
STORE_LIMITS = ("store_overfull_bytes", "store_underfull_bytes")

#: Percent of the memory that there is: above it nothing is kept that still comes (`Usage.exhausted`). Below it, what is
#: on its way when a limit is exceeded waits outside the queues.
MOST_MEMORY = 75

_NAMES = {Resource.MEMORY: "Memory", Resource.STORE: "Store", Resource.TEMP: "Temp"}


class Shortages:
    """`limits`: the broker's attributes that are set, see `LIMITS`. `defaults`: a percentage for each resource whose
    limit is not set; 0 is one that is set, to none. `available`: bytes there are of each resource, as last measured;
    `wholes`: what they are bytes of, in words."""

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
        """For a virtual host that has none yet."""

        def exceeded(usage: Usage) -> None:
            if usage is host.store_usage:
                self._update_store(host)
            else:
                self._update(usage)

        return Meter(self.usages, host.store_usage, exceeded)

    def forget(self, host: VirtualHost) -> None:
        """It is gone, and what it stored."""
        self.usages[Resource.STORE].used -= host.store_usage.used

    # -- limits -----------------------------------------------------------------------------------------------

    def set_limits(self, limits: Mapping[str, Value]) -> None:
        """The broker's; they act at once. Raises InvalidValue."""
        check_limits(limits)
        self.limits = {name: value for name, value in limits.items() if value is not None}
        self.measure()
        for queue in self.registry.queues():
            queue.gate.take_back_unaffordable()

    def set_store_limits(self, host: VirtualHost, limits: Mapping[str, int]) -> None:
        """A virtual host's `STORE_LIMITS`; they act at once. Raises InvalidValue."""
        levels = check_store_limits(limits)
        host.store_limits = dict(limits)
        host.store_usage.levels = levels
        self._update_store(host)
        for queue in host.queues.values():
            queue.gate.take_back_unaffordable()

    # -- looking ----------------------------------------------------------------------------------------------

    def measure(self, available: Mapping[Resource, int] | None = None) -> None:
        """Measure everything that is limited."""
        self.available.update(available or {})
        self.usages[Resource.MEMORY].most = self.available[Resource.MEMORY] * MOST_MEMORY // 100
        for queue in self.registry.queues():
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
            return NO_LEVELS  # it is not known yet what it is a part of
        return limit_levels(LIMITS[resource][0], limit, total=_number(total), available=self.available[resource])

    def _limit(self, resource: Resource) -> tuple[Value | None, Value | None]:
        """The limit that applies, and its total."""
        limit, total = (self.limits.get(name) for name in LIMITS[resource])
        return self.defaults.get(resource) if limit is None else limit, total

    def origin(self, resource: Resource) -> str:
        """Where the limit that applies comes from, in words."""
        limit, total = self._limit(resource)
        here = LIMITS[resource][0] in self.limits
        if not limit or limit == "0%":
            return "none, set here" if here else "none"
        words = "set here" if here else "default"
        if not isinstance(limit, str):
            return words
        whole = size_words(_number(total) or self.available[resource])
        what = LIMITS[resource][1] if total else self.wholes.get(resource, "what is available")
        return f"{words}: {limit} of {whole} ({what})"

    def in_force(self, resource: Resource) -> int:
        """Bytes above which the resource is short; 0: no limit."""
        return self._levels(resource).overfull

    def used(self, resource: Resource) -> int:
        """Bytes that the broker uses now."""
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
            f"vh(/{host.name})/ms(SQLite)",
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
        """The shortages that block producers of a queue of this virtual host now."""
        yield from (u for u in (host.store_usage, *self.usages.values()) if u.overfull)


def size_words(size: int) -> str:
    """Bytes for people, in units of 1,024."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:,.1f}".removesuffix(".0") + f" {units[0]}"


def check_limits(limits: Mapping[str, Value]) -> None:
    """Raises InvalidValue if the broker's limits contradict each other, naming both values."""
    errors: dict[str, str] = {}
    for limit, total in LIMITS.values():
        try:
            limit_levels(limit, limits.get(limit), total=_number(limits.get(total)), available=1)
        except InvalidPolicy as invalid:
            errors.update(invalid.errors)
    if errors:
        raise InvalidValue(errors)


def check_store_limits(limits: Mapping[str, int]) -> Levels:
    """Raises InvalidValue if a virtual host's limits contradict each other, naming both values."""
    try:
        return store_levels(*(limits.get(name) for name in STORE_LIMITS))
    except InvalidPolicy as invalid:
        raise InvalidValue(invalid.errors) from None


def _number(value: Value | None) -> int | None:
    return value if isinstance(value, int) else None
