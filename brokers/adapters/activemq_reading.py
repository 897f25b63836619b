"""What ActiveMQ Classic answers, as observations. Pure.

The limit of a queue is about its messages in memory, not about all that it has: with the default cursor, persistent
messages beyond some 70 % of the limit are in the store alone, and producers are not blocked. So the depth in bytes is
that of the messages in memory, which is what the limit is compared with.

A limit of 0 is none for ActiveMQ. A limit of `STOP` bytes is what Headgate's stops set: it is never shown as a
capacity, what applied before is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokers.adapters.jolokia import properties_of
from brokers.adapters.observation import Attributes
from brokers.admin import InvalidValue
from brokers.engine.management.policy_changes import PolicyChange
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName, object_name, queue_named
from brokers.model.reasons import Shortage

Json = Mapping[str, Any]

#: ActiveMQ has one name space of queues; this is its name in Headgate.
HOST = "default"

#: The limit that stops producers, bytes: any message in memory, or in the store, exceeds it.
STOP = 1

#: The limit that is written for "no limit", bytes. Not 0, which a mistake could write, too.
NO_LIMIT = 2**63 - 1

#: Limits from here on are none, bytes.
_PRACTICALLY_NONE = 2**62

BROKER_ATTRIBUTES = (
    "BrokerVersion", "UptimeMillis", "CurrentConnectionsCount", "Persistent", "Slave",
    "MemoryLimit", "MemoryPercentUsage", "StoreLimit", "StorePercentUsage", "TempLimit", "TempPercentUsage",
)  # fmt: skip
QUEUE_ATTRIBUTES = (
    "Name", "QueueSize", "InFlightCount", "EnqueueCount", "DequeueCount", "ExpiredCount", "ConsumerCount",
    "ProducerCount", "MemoryLimit", "MemoryUsagePortion", "MemoryUsageByteCount", "MemoryPercentUsage",
    "ProducerFlowControl",
)  # fmt: skip
PRODUCER_ATTRIBUTES = ("ProducerId", "ClientId", "UserName", "DestinationName", "ProducerBlocked", "SentCount")
CONNECTION_ATTRIBUTES = ("ClientId", "RemoteAddress", "UserName", "ConnectedTimestamp")
RESOURCES = ("memory", "store", "temp")


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit as ActiveMQ has it. `size`: bytes, 0 for none. `portion`: of the broker's limit that it follows; 0 if the
    size was set for itself."""

    size: int
    portion: float = 0.0

    @property
    def is_stop(self) -> bool:
        return self.size == STOP

    @property
    def shown(self) -> int:
        """The size in Headgate's words: 0 is none."""
        return 0 if self.size >= _PRACTICALLY_NONE else max(0, self.size)

    @property
    def own(self) -> int | None:
        """The size as set for the queue itself; None: it follows the broker's."""
        return None if self.portion else self.shown


def limit_of(said: Json, resource: str = "Memory") -> Limit | None:
    """Return the limit of a queue or the broker; None if it was not read."""
    size = said.get(f"{resource}Limit")
    return None if size is None else Limit(int(size), float(said.get("MemoryUsagePortion") or 0.0))


def queue_name(name: str) -> ObjectName:
    return queue_named(HOST, name)


def beans_of(queues: Mapping[str, Json]) -> dict[str, str]:
    """Return the MBean of each queue: its name as a client uses it -> the MBean's, where characters are replaced."""
    return {said["Name"]: mbean for mbean, said in queues.items() if "Name" in said}


def queues_of(queues: Iterable[Json], before_stops: Mapping[str, Limit]) -> dict[ObjectName, Attributes]:
    """Return queues. `before_stops`: the limits of stopped queues before that, by name, if known."""
    found: dict[ObjectName, Attributes] = {}
    for said in queues:
        if "Name" in said:
            found[queue_name(said["Name"])] = _queue(said, before_stops.get(said["Name"]))
    return found


def _queue(said: Json, before_stop: Limit | None) -> Attributes:
    limit, throttles = limit_of(said), said.get("ProducerFlowControl")
    stopped = limit is not None and limit.is_stop
    applies = before_stop if stopped else limit
    used = said.get("MemoryUsageByteCount")
    values: dict[str, Any] = {
        "virtualhost": HOST,
        "name": said["Name"],
        "depth_messages": said.get("QueueSize"),
        "depth_bytes": used,
        "unacknowledged_messages": said.get("InFlightCount"),
        "consumers": said.get("ConsumerCount"),
        "producers": said.get("ProducerCount"),
        "enqueued_messages": said.get("EnqueueCount"),
        "dequeued_messages": said.get("DequeueCount"),
        "expired_messages": said.get("ExpiredCount"),
        "mechanism": "hold" if throttles else None,
        "throttles": throttles,
        "stopped_by_limit": stopped,
        "overfull": _overfull(said, applies, stopped=stopped),
    }
    if applies is not None:
        values |= {"limit_before_stop": (applies.size, applies.portion), **_levels(applies, throttles)}
    for level in ("capacity", "stop", "resume"):
        values[f"effective_{level}_messages"] = 0
    return values


def _levels(limit: Limit, throttles: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"capacity_bytes": limit.own, "effective_capacity_bytes": limit.shown}
    for level in ("stop", "resume"):
        found[f"effective_{level}_bytes"] = limit.shown if throttles else 0
    return {**found, "origins": {"capacity_bytes": "broker" if limit.own is None else "own"}}


def limits_after(
    changes: Sequence[PolicyChange], objects: Mapping[ObjectName, Attributes], broker: Attributes
) -> dict[ObjectName, Attributes]:
    """Return queues with their limits after changes. A limit that is no longer set is that of the broker's memory,
    which ActiveMQ divides among queues that share it. Raises InvalidValue for a queue that is stopped by its limit."""
    found: dict[ObjectName, Attributes] = {}
    for change in changes:
        queue = objects[change.name]
        if change.name.type != "Queue":
            continue  # no policy field of the broker can be set
        if queue.get("stopped_by_limit"):
            raise InvalidValue({"": "its producers are stopped: start them before its limit is changed"})
        if "capacity_bytes" not in change.attributes:
            found[change.name] = {}
            continue
        size = change.attributes["capacity_bytes"]
        follows = size is None
        limit = Limit(int((broker.get("memory_limit_bytes") if follows else size) or 0), 1.0 if follows else 0.0)
        used = queue.get("depth_bytes")
        throttled = limit.shown > 0 and bool(queue.get("throttles"))
        overfull = None if used is None else throttled and used >= limit.shown
        found[change.name] = {**_levels(limit, queue.get("throttles")), "overfull": overfull}
    return found


def _overfull(said: Json, applies: Limit | None, *, stopped: bool) -> bool | None:
    """Whether the queue blocks producers because of its own limit: the next message that arrives. None: unknown."""
    used, percent = said.get("MemoryUsageByteCount"), said.get("MemoryPercentUsage")
    if said.get("ProducerFlowControl") is False:
        return False
    if applies is None:
        return None
    if applies.shown == 0:
        return False
    if stopped or percent is None:
        return None if used is None else bool(used >= applies.size)
    return bool(percent >= 100)


# -- clients ------------------------------------------------------------------------------------------------------


def connection_name(client: str) -> ObjectName:
    return object_name("Connection", virtualhost=HOST, id=client)


def connections_of(connections: Iterable[Json]) -> dict[ObjectName, Attributes]:
    return {
        connection_name(said["ClientId"]): {
            "virtualhost": HOST,
            "id": said["ClientId"],
            "remote_address": str(said.get("RemoteAddress") or "").partition("://")[2],
            "container_id": said["ClientId"],
            "user": said.get("UserName") or "anonymous",
            "opened": said.get("ConnectedTimestamp"),
        }
        for said in connections
        if said.get("ClientId")
    }


def producers_of(
    producers: Mapping[str, Json],
    queues: Mapping[ObjectName, Attributes],
    broker: Attributes,
    addresses: Mapping[str, str],
) -> dict[ObjectName, Attributes]:
    """Return the producers of queues. `addresses`: of the connected clients, by client id."""
    found: dict[ObjectName, Attributes] = {}
    for mbean, said in producers.items():
        id_ = said.get("ProducerId") or properties_of(mbean).get("producerId")
        if id_ is None or "ProducerBlocked" not in said:
            continue
        dynamic = properties_of(mbean).get("endpoint") == "dynamicProducer"
        queue = None if dynamic or not said.get("DestinationName") else queue_name(said["DestinationName"])
        client = said.get("ClientId")
        blocked = said["ProducerBlocked"]
        reasons, release = _reasons(queue, queues, broker) if blocked else ([], "")
        name = object_name("Producer", virtualhost=HOST, id=id_)
        found[name] = {
            "virtualhost": HOST,
            "id": id_,
            "queue": str(queue) if queue is not None else None,
            "connection": str(connection_name(client)) if client else None,
            "link": id_,
            "client": f"{said.get('UserName') or 'anonymous'}@{addresses.get(client or '', '')} ({client})",
            "messages": said.get("SentCount"),
            "blocked": blocked,
            "reasons": reasons,
            "release": release,
        }
    return found


def _reasons(
    queue: ObjectName | None, queues: Mapping[ObjectName, Attributes], broker: Attributes
) -> tuple[list[str], str]:
    """Return why a producer is blocked, and what would unblock it. Without a known queue, what all producers meet."""
    known = queues.get(queue, {}) if queue is not None else {}
    found: list[tuple[str, str]] = []
    if broker.get("stopped_by_limit"):
        found.append((f"operator-stop:{Scope()}", "The broker must be started."))
    if queue is not None and known.get("stopped_by_limit"):
        scope = Scope(HOST, queue["name"])
        found.append((f"operator-stop:{scope}", "Its queue must be started; until then messages pass as it drains."))
    if queue is not None and known.get("overfull") and not known.get("stopped_by_limit"):
        found.append((f"queue-overfull:{queue['name']}", "Its queue's messages in memory must fall below the limit."))
    found += [
        (short, f"The broker's {short.partition('-')[0]} must fall below its limit.")
        for short in broker.get("shortages") or ()
    ]
    return [reason for reason, _ in found], found[0][1] if found else ""


def count_blocked(
    queues: Mapping[ObjectName, Attributes], producers: Mapping[ObjectName, Attributes]
) -> dict[ObjectName, Attributes]:
    """Return the queues with their blocked producers."""
    blocked: dict[str, int] = {}
    for producer in producers.values():
        if producer["blocked"] and producer["queue"] is not None:
            blocked[producer["queue"]] = blocked.get(producer["queue"], 0) + 1
    return {name: {**queue, "blocked_producers": blocked.get(str(name), 0)} for name, queue in queues.items()}


# -- the broker ---------------------------------------------------------------------------------------------------


def broker_of(said: Json, stored: Collection[int], before_stop: Limit | None, started: int | None) -> Attributes:
    """Return the broker. `stored`: sizes of its stores, bytes. `before_stop`: its store limit before a stop, if it is
    stopped and that is known. `started`: ms since the epoch."""
    limits = {resource: limit_of(said, resource.capitalize()) for resource in RESOURCES}
    store = limits["store"]
    stopped = store is not None and store.is_stop
    if stopped:
        limits["store"] = before_stop
    values: dict[str, Any] = {
        "product": "Apache ActiveMQ",
        "product_version": said.get("BrokerVersion"),
        "started": started,
        "connections": said.get("CurrentConnectionsCount"),
        "persistent": said.get("Persistent"),
        "stopped_by_limit": stopped,
        "shortages": [
            str(Shortage(resource))
            for resource in RESOURCES
            if _is_short(said, resource) and not (resource == "store" and stopped)
        ],
    }
    for resource, limit in limits.items():
        if limit is not None:
            values |= {f"{resource}_limit": limit.shown, f"{resource}_limit_bytes": limit.shown}
            percent = said.get(f"{resource.capitalize()}PercentUsage")
            if percent is not None and limit.shown and not (resource == "store" and stopped):
                values[f"{resource}_used_bytes"] = limit.shown * int(percent) // 100
    if stored:
        values["store_used_bytes"] = sum(stored)
    if limits["store"] is not None:
        values["limit_before_stop"] = (limits["store"].size, 0.0)
    return values


def _is_short(said: Json, resource: str) -> bool:
    percent = said.get(f"{resource.capitalize()}PercentUsage")
    return isinstance(percent, int) and percent >= 100
