"""Broker-J's answers as observations: pure functions of JSON, for every version whose answers are recorded in tests.

The query interface answers with a table. A column that a version does not have is null in it: version 7.1 has no
producers. Broker-J blocks sessions. It calls a session blocked also if that only consumes from an overfull queue, so
producers are what counts here; where there is no list of them, a session without consumers stands for its producer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.adapters.broker_j_limits import (
    BLOCKS,
    NONE,
    REJECTS,
    RESUME,
    RING,
    QueueLimits,
    overflow_of,
    percent_of,
    resume_context,
    resume_level,
    with_attributes,
)
from brokers.adapters.observation import Attributes
from brokers.admin import InvalidValue
from brokers.engine.management.policy_changes import PolicyChange
from brokers.model import ObjectName, object_name, queue_named

Json = Mapping[str, Any]
Row = Mapping[str, Any]

#: Columns of the quick read of queues, and those that the full one has besides; in Broker-J's names.
QUICK = (
    "name", "$parent.name", "$parent.$parent.name", "overflowPolicy", "maximumQueueDepthMessages",
    "maximumQueueDepthBytes", "queueFlowStopped", "queueDepthMessages", "queueDepthBytes", "unacknowledgedMessages",
    "consumerCount", "producerCount", "totalEnqueuedMessages", "totalDequeuedMessages",
)  # fmt: skip
FULL = (*QUICK, "durable", "context")
SESSION = ("id", "channelId", "$parent.id", "producerFlowBlocked", "producerCount", "consumerCount")
CONNECTION = ("id", "name", "$parent.name", "clientId", "principal", "remoteAddress", "createdTime",
              "addressSpace")  # fmt: skip
PRODUCER = ("id", "name", "sessionId", "destination", "destinationType", "messagesOut", "bytesOut")
HOST = ("id", "name", "$parent.name", "state", "context")

_COUNTS = {
    "depth_messages": "queueDepthMessages",
    "depth_bytes": "queueDepthBytes",
    "unacknowledged_messages": "unacknowledgedMessages",
    "consumers": "consumerCount",
    "producers": "producerCount",
    "enqueued_messages": "totalEnqueuedMessages",
    "dequeued_messages": "totalDequeuedMessages",
}

STORE_FULL = "unknown: the virtual host's store is overfull, or its session was not released"


def rows(answer: Json, columns: Sequence[str]) -> list[Row]:
    """Return the rows of the answer to a query for these columns. Headers are empty for columns of parents."""
    return [dict(zip(columns, row, strict=True)) for row in answer["results"]]


@dataclass(frozen=True, slots=True)
class Hosts:
    """Virtual hosts: by the name that Headgate has for them, the names of node and host.

    A host has its own name; if several nodes have hosts of the same name, that of the node and its own. `contexts`: of
    each, the variables of the host, then those of the broker. `by_id`: Broker-J's id -> the name."""

    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    contexts: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    by_id: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, listed: Iterable[Row], broker: Json) -> Hosts:
        found = [(row["id"], row["$parent.name"], row["name"], row.get("context") or {}) for row in listed]
        names = Counter(host for _, _, host, _ in found)
        by_name = {
            host if names[host] == 1 else f"{node}/{host}": each for each in found for _, node, host, _ in [each]
        }
        context = broker.get("context") or {}  # it has the environment of the process, too: passwords, perhaps
        outer = {key: context[key] for key in (RESUME,) if key in context}
        return cls(
            {name: (node, host) for name, (_, node, host, _) in by_name.items()},
            {name: (own, outer) for name, (_, _, _, own) in by_name.items()},
            {id_: name for name, (id_, _, _, _) in by_name.items()},
        )

    def named(self, node: str, host: str) -> str:
        """Return Headgate's name of a host."""
        return host if self.places.get(host, (node, host)) == (node, host) and host in self.places else f"{node}/{host}"

    def objects(self) -> dict[ObjectName, Attributes]:
        return {object_name("VirtualHost", name=name): {"name": name} for name in self.places}


def queue_name(row: Row, hosts: Hosts) -> ObjectName:
    host = hosts.named(row["$parent.$parent.name"], row["$parent.name"])
    return queue_named(host, row["name"])


def queues_of(listed: Iterable[Row], hosts: Hosts, known: Mapping[ObjectName, Json]) -> dict[ObjectName, Attributes]:
    """Return what a read of queues says. `known`: contexts of queues, for rows that have none."""
    found: dict[ObjectName, Attributes] = {}
    for row in listed:
        name = queue_name(row, hosts)
        found[name] = _queue(name, row, row.get("context", known.get(name, {})) or {}, hosts)
    return found


def _queue(name: ObjectName, row: Row, context: Json, hosts: Hosts) -> Attributes:
    limits = QueueLimits.of(row)
    values: dict[str, Any] = {
        **dict(name.keys),
        **{ours: row[theirs] for ours, theirs in _COUNTS.items() if row.get(theirs) is not None},
        "limits": limits.as_json(),
        "blocks": bool(row["queueFlowStopped"]),
        "context": dict(context),
        "flow_resume_messages": f"{_number(context[RESUME])}%" if RESUME in context else None,
    }
    if "durable" in row:
        values["durable"] = row["durable"]
    if limits.is_stop:
        return values  # the limits are the stop's: the others are as before
    values |= levels_of(limits, context, hosts.contexts.get(name["virtualhost"], ()))
    values["overfull"] = _overfull(row, limits)
    return values


def levels_of(limits: QueueLimits, context: Json, around: Sequence[Json]) -> dict[str, Any]:
    """Return what these limits are in Headgate's words, and their origins. `context`: of the queue; `around`: those of
    its virtual host and the broker."""
    values: dict[str, Any] = {
        "overflow": overflow_of(limits.policy),
        "mechanism": {BLOCKS: "block", REJECTS: "reject"}.get(limits.policy),
    }
    origins = dict.fromkeys(("overflow", "mechanism"), "built-in" if limits.policy == NONE else "own")
    percent = percent_of(context, *around)
    for unit, maximum in (("messages", limits.messages), ("bytes", limits.bytes)):
        effective = max(0, maximum) if limits.policy in (BLOCKS, REJECTS, RING) else 0
        values[f"capacity_{unit}"] = maximum if maximum >= 0 else None
        values[f"effective_capacity_{unit}"] = values[f"effective_stop_{unit}"] = effective
        values[f"effective_resume_{unit}"] = resume_level(effective, percent) if limits.policy == BLOCKS else effective
        origins[f"capacity_{unit}"] = "own" if maximum >= 0 else "built-in"
        origins[f"flow_resume_{unit}"] = _resume_origin(context, *around)
    return {**values, "origins": origins}


def _resume_origin(*contexts: Json) -> str:
    """Return which context sets the resume level: of the queue, the virtual host, or the broker."""
    named = zip(("own", "virtualhost", "broker"), contexts, strict=False)
    return next((origin for origin, context in named if RESUME in context), "built-in")


def limits_after(
    changes: Sequence[PolicyChange], objects: Mapping[ObjectName, Attributes], hosts: Hosts
) -> dict[ObjectName, Attributes]:
    """Return queues with their limits after changes. Raises InvalidValue for a stopped queue and for a resume level
    that Broker-J does not have."""
    found: dict[ObjectName, Attributes] = {}
    for change in changes:
        queue = objects[change.name]
        if change.name.type != "Queue":
            continue  # no policy field of the broker or a virtual host can be set
        now = QueueLimits.of(queue["limits"])
        if now.is_stop and queue.get("stops"):
            raise InvalidValue({"": "its producers are stopped: start them before its limits are changed"})
        context = queue["context"]
        if "flow_resume_messages" in change.attributes:
            context = resume_context(context, change.attributes["flow_resume_messages"])
        wanted = with_attributes(now, change.attributes)
        levels = levels_of(wanted, context, hosts.contexts.get(change.name["virtualhost"], ()))
        found[change.name] = {**levels, "overfull": _overfull_after(queue, wanted, levels)}
    return found


def _overfull_after(queue: Attributes, limits: QueueLimits, levels: Json) -> bool | None:
    """Return whether the queue would block or refuse producers: above its maximum, or still above its resume level."""
    if limits.policy not in (BLOCKS, REJECTS):
        return False
    depths = [(queue.get(f"depth_{unit}"), unit) for unit in ("messages", "bytes") if levels[f"capacity_{unit}"]]
    if any(depth is None for depth, _ in depths):
        return None
    above = any(depth > levels[f"effective_stop_{unit}"] for depth, unit in depths)
    waits = bool(queue.get("overfull")) and limits.policy == BLOCKS
    return above or (waits and any(depth > levels[f"effective_resume_{unit}"] for depth, unit in depths))


def _number(text: Any) -> str:
    """Return a percentage without a fraction that is 0."""
    try:
        return f"{float(text):g}"
    except (TypeError, ValueError):
        return str(text)


def _overfull(row: Row, limits: QueueLimits) -> bool:
    """Whether the queue blocks or refuses producers now."""
    if limits.policy != REJECTS:
        return bool(row["queueFlowStopped"])
    return any(
        0 <= maximum <= (row[depth] or 0)
        for maximum, depth in ((limits.messages, "queueDepthMessages"), (limits.bytes, "queueDepthBytes"))
    )


def empty(name: ObjectName, limits: QueueLimits) -> Attributes:
    """Return what is known of a queue that is no longer in the quick read's answer: empty, and not blocking."""
    values: dict[str, Any] = {
        **dict(name.keys),
        "depth_messages": 0,
        "depth_bytes": 0,
        "unacknowledged_messages": 0,
        "blocks": False,
    }
    return values if limits.is_stop else {**values, "overfull": False}


# -- clients --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A session: its connection's number and its channel, as in log lines, and the producers in it."""

    connection: int
    channel: int
    producers: tuple[ObjectName, ...]


@dataclass(frozen=True, slots=True)
class Clients:
    """Connections and producers, without what changes from second to second. `sessions`: by id; `channels`: the same by
    the numbers of connection and channel. `ports`: of connections."""

    objects: Mapping[ObjectName, Attributes] = field(default_factory=dict)
    sessions: Mapping[str, Session] = field(default_factory=dict)
    channels: Mapping[tuple[int, int], Session] = field(default_factory=dict)
    ports: Mapping[ObjectName, str] = field(default_factory=dict)

    def session(self, connection: int, channel: int) -> Session | None:
        return self.channels.get((connection, channel))


def clients_of(
    connections: Iterable[Row], sessions: Iterable[Row], producers: Sequence[Row] | None, hosts: Hosts
) -> Clients:
    """Return the clients. `producers`: None if this version has no list of them. The address space of a connection is
    its virtual host, by its id."""
    objects: dict[ObjectName, Attributes] = {}
    ports: dict[ObjectName, str] = {}
    by_id: dict[str, ObjectName] = {}
    for row in connections:
        host = hosts.by_id.get(str(row.get("addressSpace")))
        if host is None:
            continue  # it is just opening
        name = by_id[row["id"]] = object_name("Connection", virtualhost=host, id=row["name"])
        objects[name], ports[name] = _connection(name, row), row["$parent.name"]
    by_session: dict[str, list[Row]] = {}
    for row in producers or ():
        by_session.setdefault(row["sessionId"], []).append(row)
    found: dict[str, Session] = {}
    channels: dict[tuple[int, int], Session] = {}
    for row in sessions:
        connection = by_id.get(row["$parent.id"])
        number = connection and re.match(r"\[(\d+)\]", connection["id"])
        if connection is None or not number:
            continue
        if producers is not None:
            links = [(each["id"], each) for each in by_session.get(row["id"], ())]
        else:
            links = [(row["id"], {})] if not row["consumerCount"] else []
        made = dict(_producer(connection, objects[connection], *each) for each in links)
        objects |= made
        session = found[row["id"]] = Session(int(number[1]), row["channelId"], tuple(made))
        channels.setdefault((session.connection, session.channel), session)
    return Clients(objects, found, channels, ports)


def _connection(name: ObjectName, row: Row) -> Attributes:
    return {
        **dict(name.keys),
        "remote_address": str(row.get("remoteAddress") or "").removeprefix("/"),
        "container_id": row.get("clientId") or "",
        "user": row.get("principal"),
        "opened": row.get("createdTime"),
    }


def _producer(connection: ObjectName, client: Attributes, id_: str, row: Row) -> tuple[ObjectName, Attributes]:
    host = connection["virtualhost"]
    name = object_name("Producer", virtualhost=host, id=id_)
    queue = object_name("Queue", virtualhost=host, name=row["destination"]) if row.get("destination") else None
    container = client["container_id"]
    return name, {
        **dict(name.keys),
        "queue": str(queue) if queue and row["destinationType"] == "QUEUE" else None,
        "connection": str(connection),
        "link": row.get("name", ""),
        "client": f"{client['user']}@{client['remote_address']}" + (f" ({container})" if container else ""),
        "messages": row.get("messagesOut"),
        "bytes": row.get("bytesOut"),
    }


def blocked_producers(
    clients: Clients, blocked: Iterable[str], overfull: Iterable[ObjectName]
) -> dict[ObjectName, Attributes]:
    """Return of every producer whether it is blocked. `blocked`: ids of blocked sessions. `overfull`: queues that block
    producers. Of a blocked session, the producers at such queues are blocked; all of them if none is."""
    queues = {str(name) for name in overfull}
    found: dict[ObjectName, Attributes] = {p: unblocked() for s in clients.sessions.values() for p in s.producers}
    for id_ in blocked:
        session = clients.sessions.get(id_)
        producers = session.producers if session else ()
        at_overfull = [p for p in producers if clients.objects[p]["queue"] in queues]
        for producer in at_overfull or producers:
            found[producer] = blocked_by(clients.objects[producer]["queue"] if at_overfull else None)
    return found


def unblocked() -> Attributes:
    return {"blocked": False, "reasons": [], "release": ""}


def blocked_by(queue: str | None) -> Attributes:
    """Return the attributes of a blocked producer. `queue`: None if it is not known which one blocks it."""
    if queue is None:
        return {"blocked": True, "reasons": [STORE_FULL], "release": "A queue or the store must become underfull."}
    name = ObjectName.parse(queue)["name"]
    return {
        "blocked": True,
        "reasons": [f"queue-overfull:{name}"],
        "release": f"Queue {name} must become underfull, or its limit be raised.",
    }


def counts_of(clients: Clients, states: Mapping[ObjectName, Attributes]) -> Counter[str]:
    """Return the number of blocked producers by the name of their queue."""
    return Counter(
        str(clients.objects[name]["queue"])
        for name, state in states.items()
        if state["blocked"] and clients.objects[name]["queue"]
    )


def broker_of(said: Json, connections: int) -> Attributes:
    statistics: Json = said.get("statistics") or {}
    return {
        "product": "Apache Qpid Broker-J",
        "product_version": said.get("productVersion"),
        "started": said.get("lastOpenedTime"),
        "connections": connections,
        "memory_limit_bytes": said.get("maximumHeapMemorySize"),
        "memory_used_bytes": statistics.get("usedHeapMemorySize"),
    }
