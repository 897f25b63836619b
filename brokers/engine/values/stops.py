"""Operators' stops: their scopes, reasons and ends, and which queues they cover.

A scope is the broker, a virtual host, an exchange (the queues bound to it) or a queue; for the first two a pattern may
restrict it. Each may be restricted to clients (`clients.py`): then only their producers are stopped, and the queues
stay open to others. Starting a scope lifts its own stop and every stop that lies wholly inside it: *start all
producers* on the broker lifts all stops.

A stop may have an end: a time, a depth, or both, whichever comes first. The end is stored with the stop, and survives a
restart.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from brokers.engine.values.clients import EVERY_CLIENT, Client
from brokers.engine.values.stage import Stage
from brokers.model import ObjectName, object_name
from brokers.model.patterns import matches, pattern_contains


@dataclass(frozen=True, slots=True)
class Scope:
    """`virtualhost` "" = all; `queue` "" = every queue that matches `pattern` ("" matches all) and is bound to
    `exchange` ("" = not restricted); `client`: whose producers."""

    virtualhost: str = ""
    queue: str = ""
    pattern: str = ""
    exchange: str = ""
    client: Client = EVERY_CLIENT

    def __str__(self) -> str:
        """Return the scope for people. Unique, since reasons and stored records are identified by it."""
        return f"client {self.client} of {self._queues}" if self.client else self._queues

    @property
    def _queues(self) -> str:
        """Return the scope without its clients, for people."""
        host = _word(self.virtualhost)
        if self.queue:
            return f"queue {host}/{self.queue}"
        if self.exchange:
            return f"exchange {host}/{self.exchange}"
        base = f"virtualhost {host}" if self.virtualhost else "broker"
        return f"{base} {self.pattern}" if self.pattern else base

    @property
    def object(self) -> ObjectName:
        """The managed object of the scope; `pattern` may restrict it."""
        if self.queue:
            return object_name("Queue", virtualhost=self.virtualhost, name=self.queue)
        if self.exchange:
            return object_name("Exchange", virtualhost=self.virtualhost, name=self.exchange)
        return object_name("VirtualHost", name=self.virtualhost) if self.virtualhost else object_name("Broker")

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The scope without its clients. One of a queue or an exchange contains only scopes of the same place."""
        return self.virtualhost, self.queue, self.pattern, self.exchange

    def covers(self, virtualhost: str, queue: str, bound: Collection[str] = ()) -> bool:
        """Return whether the scope covers a queue. `bound`: the exchanges that the queue is bound to."""
        if self.virtualhost and self.virtualhost != virtualhost:
            return False
        if self.exchange and self.exchange not in bound:
            return False
        return self.queue == queue if self.queue else matches(self.pattern, queue)

    def contains(self, other: Scope) -> bool:
        """Return whether this scope covers every producer, present or future, that `other` covers."""
        if not self.client.contains(other.client):
            return False
        if self.place == other.place:
            return True
        if self.virtualhost and self.virtualhost != other.virtualhost:
            return False
        if self.queue or self.exchange:
            return False
        if other.queue:
            return matches(self.pattern, other.queue)
        return pattern_contains(self.pattern, other.pattern)


def _word(name: str) -> str:
    """Return a virtual host's name, in quotes if it would be ambiguous without."""
    return json.dumps(name, ensure_ascii=False) if set(name) & set(' /"') else name


@dataclass(frozen=True, slots=True)
class End:
    """When a stop ends automatically. `until`: ms since the epoch, None: no time. `below`: percent of the capacity at
    or below which all covered queues must be (of a stop of clients: see `Stop.awaited`), 0: no depth. Queues without a
    capacity are ignored."""

    until: int | None = None
    below: int = 0

    def __bool__(self) -> bool:
        return self.until is not None or self.below > 0

    def words(self, now: int) -> str:
        """Return the end for people, relative to `now`; empty without an end."""
        parts = [f"in {max(0, self.until - now) // 1000:,} s"] if self.until is not None else []
        if self.below:
            parts.append(f"at a depth of {self.below}% or less")
        return " or ".join(parts)


NO_END = End()


@dataclass(frozen=True, slots=True)
class Halt:
    """A staged start that halted: `actor` began it at `since` (ms since the epoch) for `reason`. `queue`, the text of
    an object name, was at `percent` of its capacity, above the `limit` of the stage."""

    actor: str
    reason: str
    since: int
    queue: str
    percent: int
    limit: int

    def words(self) -> str:
        """Say why the producers are stopped again."""
        name = ObjectName.parse(self.queue)
        by = f" of {self.actor}" if self.actor else ""
        return f"the staged start{by} halted: queue {name['name']} is at {self.percent}%, above {self.limit}%"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Stop:
    """An active stop. `since` in ms since the epoch; `actor`: who requested it, empty for a staged start that `halted`.
    `stage`: the stop is being lifted in stages. `awaited`: of a stop of clients in several queues that ends at a depth:
    (virtual host, name) of the queues whose depth counts, sorted."""

    scope: Scope
    reason: str
    actor: str
    since: int
    end: End = NO_END
    stage: Stage | None = None
    halted: Halt | None = None
    awaited: tuple[tuple[str, str], ...] = ()

    def by_time_of_day(self, ahead: int) -> Stop:
        """Return the stop with times of day, which are `ahead` ms ahead of the engine's times."""
        if not ahead:
            return self
        return replace(
            self,
            since=self.since + ahead,
            end=self.end if self.end.until is None else replace(self.end, until=self.end.until + ahead),
            stage=self.stage and replace(self.stage, since=self.stage.since + ahead),
            halted=self.halted and replace(self.halted, since=self.halted.since + ahead),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the stop as an element of the `stops` attributes of managed objects."""
        return {
            "scope": str(self.scope),
            "object": str(self.scope.object),
            "pattern": self.scope.pattern,
            **(self.scope.client.as_json() if self.scope.client else {}),
            "reason": self.reason,
            "actor": self.actor,
            "since": self.since,
            "until": self.end.until,
            "below": self.end.below,
            "stage": self.stage.as_json() if self.stage else None,
            "halted": self.halted.as_json() if self.halted else None,
        }

    def record(self) -> dict[str, Any]:
        return {
            "virtualhost": self.scope.virtualhost,
            "queue": self.scope.queue,
            "pattern": self.scope.pattern,
            "exchange": self.scope.exchange,
            **({"client": self.scope.client.as_json()} if self.scope.client else {}),
            "reason": self.reason,
            "actor": self.actor,
            "since": self.since,
            "until": self.end.until,
            "below": self.end.below,
            "stage": self.stage.as_json() if self.stage else None,
            "halted": self.halted.as_json() if self.halted else None,
            **({"awaited": [list(each) for each in self.awaited]} if self.awaited else {}),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Stop:
        client = Client(**record["client"]) if record.get("client") else EVERY_CLIENT
        scope = Scope(record["virtualhost"], record["queue"], record["pattern"], record.get("exchange", ""), client)
        end = End(record.get("until"), record.get("below", 0))
        staged, halted = record.get("stage"), record.get("halted")
        return cls(
            scope,
            record["reason"],
            record["actor"],
            record["since"],
            end,
            Stage(**staged) if staged else None,
            Halt(**halted) if halted else None,
            tuple((virtualhost, name) for virtualhost, name in record.get("awaited", ())),
        )


@dataclass(frozen=True, slots=True)
class StopOutcome:
    """The result of a stop or start: the number of covered `queues` and their `producers` (of a scope with clients: the
    producers of these, and the queues that they publish to), of which `stopped` have no credit any more and `draining`
    may still have messages in flight. `changed`: False if nothing changed. `scopes`: the changed ones of several."""

    queues: int
    producers: int
    stopped: int
    draining: int
    changed: bool
    scopes: tuple[Scope, ...] = ()
