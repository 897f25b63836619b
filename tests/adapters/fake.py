"""A broker in memory and its adapter, for tests of the core: with limits and stops, failures and restarts on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.adapters.adapter import Creator, Faults, Finding, Objects, StopTarget
from brokers.adapters.attempts import Attempts
from brokers.adapters.capabilities import Capability, Capable, types_of
from brokers.adapters.observation import Attributes, Observation, Reported
from brokers.adapters.scopes import covered_by
from brokers.admin import BrokerUnreachable, NotAllowed, NotFound
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ManagedType, ObjectName, object_name

BROKER = object_name("Broker")
STOPPED = 0  # the limit that stops a queue, as Broker-J has it


def queue_name(name: str, virtualhost: str = "default") -> ObjectName:
    return object_name("Queue", virtualhost=virtualhost, name=name)


@dataclass(frozen=True, slots=True)
class Has:
    """What the broker in memory has. `effect`: of its stops. `scopes`: types whose producers can be stopped. `changes`:
    its limits can be changed. `levels`: it says at which depth, and since when, a queue is overfull. `creates`: queues
    can be created and deleted. `paged`: they are read in pages."""

    effect: str = "hold"
    scopes: tuple[str, ...] = ("Broker", "VirtualHost", "Queue")
    changes: bool = True
    levels: bool = True
    creates: bool = True
    paged: bool = False


def types(has: Has) -> dict[str, ManagedType]:
    """Return the types of the broker in memory."""
    stops = {
        "stop-producers": Capable(lacks=("rate",), producer_effect=has.effect, remark="Publishers are refused."),
        "start-producers": Capable(lacks=("rate", "step_ms", "halt")),
    }
    queue = ("state", "depth_messages", "producers", "blocked_producers", "stops", "stopped_since", "rate_in",
             "enqueued_messages", "capacity_messages")  # fmt: skip
    levels = ("effective_capacity_messages", "effective_stop_messages", "effective_resume_messages", "overfull_since",
              "overfull_ms")  # fmt: skip
    return types_of(
        {
            "Broker": Capability(
                ("started", "queues", "stops", "shortages", "last_event"),
                operations={**(stops if "Broker" in has.scopes else {}), "preview-change": Capable()},
            ),
            "VirtualHost": Capability(("queues", "stops"), operations=stops if "VirtualHost" in has.scopes else {}),
            "Queue": Capability(
                (*queue, *(levels if has.levels else ())),
                writable=("capacity_messages",) if has.changes else (),
                operations={**(stops if "Queue" in has.scopes else {}), "explain": Capable()},
                creatable=has.creates,
                deletable=has.creates,
            ),
        }
    )


@dataclass
class Memory:
    """The broker: limits and depths of its queues. A limit of 0 stops a queue, and outlasts a restart if `durable`."""

    limits: dict[ObjectName, int] = field(default_factory=dict)
    depths: dict[ObjectName, int] = field(default_factory=dict)
    durable: bool = True
    up: bool = True
    #: Queues whose limit the user may not change, and those of which the broker gives no answer.
    denied: set[ObjectName] = field(default_factory=set)
    silent: set[ObjectName] = field(default_factory=set)
    started: int = 1
    #: How many of the next changes are made before one fails without an answer; None: none fails.
    fails_after: int | None = None
    configured: dict[ObjectName, int] = field(default_factory=dict)  # what a restart restores, if not durable

    def add(self, name: str, limit: int = 100, depth: int = 0) -> ObjectName:
        queue = queue_name(name)
        self.limits[queue] = self.configured[queue] = limit
        self.depths[queue] = depth
        return queue

    def restart(self) -> None:
        self.started += 60_000
        if not self.durable:
            self.limits = dict(self.configured)

    def set_limit(self, queue: ObjectName, limit: int) -> None:
        self.check()
        if queue in self.denied:
            raise NotAllowed(f"the user may not change {queue['name']}")
        if queue in self.silent:
            raise BrokerUnreachable(f"no answer on {queue['name']}")
        if self.fails_after is not None:
            if self.fails_after <= 0:
                raise BrokerUnreachable("the connection was lost")
            self.fails_after -= 1
        if queue in self.limits:
            self.limits[queue] = limit

    def check(self) -> None:
        if not self.up:
            raise BrokerUnreachable("the broker does not answer")


class MemoryAdapter:
    """The adapter. `reports`: the kinds of events that come from `events`."""

    def __init__(self, memory: Memory, now: Any, *, has: Has = Has(), reports: Iterable[str] = ()) -> None:
        self.identity = ""
        self.most_stopped: int | None = None
        self.memory = memory
        self.now = now
        self.types = types(has)
        self.reports = frozenset(reports)
        self.paged = has.paged
        self.events: asyncio.Queue[Reported] = asyncio.Queue()
        self.reads: list[str] = []
        self.hidden: set[ObjectName] = set()  # missed by the next round

    async def connect(self) -> Sequence[Finding]:
        self.memory.check()
        return [Finding("connected")]

    def attributes(self, queue: ObjectName) -> dict[str, Any]:
        limit, depth = self.memory.limits[queue], self.memory.depths[queue]
        effective = {f"effective_{level}_messages": limit for level in ("capacity", "stop", "resume")}
        return {
            "virtualhost": queue["virtualhost"],
            "name": queue["name"],
            "depth_messages": depth,
            "overfull": depth > limit,
            "capacity_messages": limit,
            "origins": {"capacity_messages": "own"},
            **effective,
        }

    async def read_changing(self) -> Observation:
        self.reads.append("changing")
        self.memory.check()
        return Observation(self.now(), {q: {"depth_messages": self.memory.depths[q]} for q in self.memory.limits})

    async def read_all(self) -> AsyncIterator[Observation]:
        self.reads.append("all")
        self.memory.check()
        hidden, self.hidden = self.hidden, set()
        yield Observation(self.now(), {BROKER: {"started": self.memory.started, "shortages": []}})
        yield Observation(self.now(), {object_name("VirtualHost", name="default"): {"name": "default"}})
        for queue in [q for q in self.memory.limits if q not in hidden]:
            yield Observation(self.now(), {queue: self.attributes(queue)})

    async def reported(self) -> AsyncIterator[Reported]:
        while self.reports:
            yield await self.events.get()

    async def read(self, name: ObjectName) -> Observation:
        self.memory.check()
        if name not in self.memory.limits:
            raise NotFound(f"there is no {name}")
        return Observation(self.now(), {name: self.attributes(name)})

    async def update(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        self.memory.set_limit(name, attributes["capacity_messages"])

    @property
    def creator(self) -> Creator | None:
        return self if self.types["Queue"].creatable else None

    async def create(self, name: ObjectName, attributes: Attributes, objects: Objects) -> None:
        self.memory.add(name["name"], attributes.get("capacity_messages") or 100)

    async def delete(self, name: ObjectName, objects: Objects) -> None:
        del self.memory.limits[name]

    async def call(
        self, name: ObjectName, operation: str, arguments: Mapping[str, Any], objects: Objects
    ) -> Mapping[str, Any]:
        raise NotFound(operation)

    def limits_after(self, changes: Sequence[PolicyChange], objects: Objects) -> Mapping[ObjectName, Attributes]:
        return {change.name: self._limits_after(change, objects[change.name]) for change in changes}

    def _limits_after(self, change: PolicyChange, queue: Attributes) -> Attributes:
        limit = change.attributes.get("capacity_messages", queue["capacity_messages"])
        levels = {f"effective_{level}_messages": limit for level in ("capacity", "stop", "resume")}
        return {"capacity_messages": limit, "overfull": queue["depth_messages"] > limit, **levels}

    def stop_targets(self, scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        return {scope: self._targets(names, objects) for scope, names in covered_by(scopes, objects).items()}

    def _targets(self, names: Iterable[ObjectName], objects: Objects) -> Sequence[StopTarget]:
        return [StopTarget(str(n), frozenset([n]), {"limit": objects[n]["capacity_messages"]}) for n in names]

    async def stop(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts(all_or_none=not in_round)
        for target in targets:
            with attempts.of(target):
                self.memory.set_limit(next(iter(target.queues)), STOPPED)
        return attempts.faults

    async def start(self, targets: Sequence[StopTarget], *, in_round: bool = False) -> Faults:
        attempts = Attempts()
        for target in targets:
            queue = next(iter(target.queues))
            with attempts.of(target):
                if self.memory.limits.get(queue) == STOPPED:
                    self.memory.set_limit(queue, target.restore["limit"])
                else:
                    self.memory.check()
        return attempts.faults

    def is_stopped(self, target: StopTarget, objects: Objects) -> bool:
        found = objects.get(next(iter(target.queues)))
        return found is None or found["capacity_messages"] == STOPPED

    def restore_now(self, target: StopTarget, objects: Objects) -> Mapping[str, Any] | None:
        found = objects.get(next(iter(target.queues)))
        limit = None if found is None else found["capacity_messages"]
        return None if limit in (None, STOPPED) else {"limit": limit}

    def clock_set(self, step: int) -> None:
        pass

    async def close(self) -> None:
        pass
