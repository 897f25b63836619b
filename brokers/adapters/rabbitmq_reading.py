"""RabbitMQ's answers as observations: pure functions of JSON, for every version whose answers are recorded in tests.

`rabbitmq_limits.py` says which limits apply to a queue.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from brokers.adapters.observation import Attributes
from brokers.model import ObjectName, object_name, queue_named
from brokers.model.reasons import CONNECTION_FLOW, Shortage

#: Names of the policies that Headgate makes.
STOP_PREFIX, LIMIT_PREFIX = "headgate-stop~", "headgate-limit~"

#: Names of the queues that receive events for Headgate. They are not shown, and not stopped.
EVENTS_PREFIX = "headgate-events."

#: Name of the queue, and of its exchange, that take the messages of stopped queues whose node is restarted.
PARKED = "headgate-parked"
#: Longest text of a property of a client, characters.
_LONGEST_PROPERTY = 100

REJECTING = ("reject-publish", "reject-publish-dlx")

#: States of a queue, in RabbitMQ's words, in which it reports nothing and takes no messages.
NOT_RUNNING = frozenset({"down", "stopped", "crashed", "terminated", "minority"})

#: RabbitMQ's name of a limit -> Headgate's unit.
LIMITS = {"max-length": "messages", "max-length-bytes": "bytes"}

Json = Mapping[str, Any]

#: Attributes of the depth in messages.
_DEPTH = ("depth_messages", "ready_messages", "unacknowledged_messages")


def queue_name(said: Json) -> ObjectName:
    return queue_named(said["vhost"], said["name"])


def totals_of(queues: Iterable[Json], known: Mapping[ObjectName, Attributes]) -> dict[ObjectName, Attributes]:
    """Return what the quick list (`disable_stats`) says of queues: depth in messages, and the policy by name. `known`:
    what is known of their limits."""
    found: dict[ObjectName, Attributes] = {}
    for said in _shown(queues):
        name = queue_name(said)
        values = {**_names(said), **_depth(said)}
        if said.get("state") not in NOT_RUNNING:  # else its policy is not named
            values["policy"] = said.get("policy")
        limits = known.get(name)
        if limits is not None and "overflow" in limits:
            values["overfull"] = _overfull({**limits, **values}, limits["overflow"] == "producers")
        found[name] = values
    return found


def depths_in(found: Mapping[ObjectName, Attributes]) -> dict[ObjectName, Attributes]:
    """Return the depths in messages of the queues of which `totals_of` has them."""
    return {
        name: {key: values[key] for key in _DEPTH}
        for name, values in found.items()
        if values["depth_messages"] is not None
    }


def queues_of(
    queues: Iterable[Json],
    policies: Mapping[tuple[str, str], Json],
    depths: Mapping[ObjectName, Attributes] | None = None,
) -> dict[ObjectName, Attributes]:
    """Return what the full list says of queues. `policies`: (virtual host, name) -> as listed. `depths`: in messages,
    from the quick list: those of the full list are up to 5 s old, and would undo what is known."""
    fresher = depths or {}
    return {(name := queue_name(said)): _queue(said, policies, fresher.get(name, {})) for said in _shown(queues)}


def _shown(queues: Iterable[Json]) -> Iterator[Json]:
    return (said for said in queues if not said["name"].startswith(EVENTS_PREFIX))


def _queue(said: Json, policies: Mapping[tuple[str, str], Json], fresher: Attributes) -> Attributes:
    policy = policies.get((said["vhost"], str(said.get("policy"))))
    values: dict[str, Any] = {
        **_names(said),
        **_depth(said),
        **fresher,
        "durable": said.get("durable"),
        "depth_bytes": said.get("message_bytes"),
        "consumers": said.get("consumers"),
        "rate_in": _rate(said, "publish_details"),
        "rate_out": _rate(said, "deliver_get_details"),
        "enqueued_messages": (said.get("message_stats") or {}).get("publish"),
        "arguments": dict(said.get("arguments") or {}),
        "kind": said.get("type"),
    }
    if "effective_policy_definition" not in said:  # it has not reported, as one whose node is down
        return {**values, "overfull": None, **_own_limits(said, values["arguments"], policies)}
    values["policy"] = said.get("policy")
    if str(said.get("policy") or "").startswith(STOP_PREFIX):
        return values  # the limit is the stop's: others are as before
    effective = dict(said.get("effective_policy_definition") or {})
    own = policies.get((said["vhost"], LIMIT_PREFIX + said["name"]))
    return {**values, **limits_of(values, values["arguments"], effective, own or policy, said), "definition": effective}


def _own_limits(said: Json, arguments: Json, policies: Mapping[tuple[str, str], Json]) -> dict[str, Any]:
    """Return the own limits of a queue that has reported nothing, by their policy. What applies is as before."""
    own = policies.get((said["vhost"], LIMIT_PREFIX + said["name"]))
    definition: Json = own["definition"] if own else {}
    values: dict[str, Any] = {f"capacity_{unit}": definition.get(limit) for limit, unit in LIMITS.items()}
    if own:
        values["overflow"] = "producers" if overflow_of(arguments, definition) in REJECTING else "ring"
    return values


def limits_of(
    queue: Attributes, arguments: Json, effective: Json, policy: Json | None, applies: Json
) -> dict[str, Any]:
    """Return the limits of a queue and their origins. `queue`: its name and depths. `effective`: the definition that
    applies. `policy`: the one that applies, or the queue's own, as listed; None: not known. `applies`: `policy` and
    `operator_policy`, by name."""
    overflow = overflow_of(arguments, effective)
    rejecting = overflow in REJECTING
    is_own = policy is not None and policy["name"] == LIMIT_PREFIX + queue["name"]
    own: Json = policy["definition"] if is_own and policy is not None else {}
    source = "argument x-overflow" if "x-overflow" in arguments else _origin("overflow", effective, policy, applies)
    values: dict[str, Any] = {
        "overflow": "producers" if rejecting else "ring",
        "mechanism": "reject" if rejecting else None,
    }
    origins = {"overflow": source, "mechanism": source}
    for limit, unit in LIMITS.items():
        values[f"capacity_{unit}"] = own.get(limit)
        least = _least(arguments.get(f"x-{limit}"), effective.get(limit))
        for level in ("capacity", "stop", "resume"):
            values[f"effective_{level}_{unit}"] = least or 0
        by_argument = least is not None and least == arguments.get(f"x-{limit}")
        origins[f"capacity_{unit}"] = (
            f"argument x-{limit}" if by_argument else _origin(limit, effective, policy, applies)
        )
    values["overfull"] = _overfull({**queue, **values}, rejecting)
    return {**values, "origins": origins}


def _origin(key: str, effective: Json, policy: Json | None, applies: Json) -> str | None:
    """Return where a value of the definition that applies comes from; None: not known."""
    if key not in effective:
        return "built-in"
    if policy is not None and policy["definition"].get(key) == effective[key]:
        return "own" if policy["name"].startswith(LIMIT_PREFIX) else f"pattern {policy['pattern']}"
    operator = applies.get("operator_policy")
    return f"operator policy {operator}" if operator else None


def overflow_of(arguments: Json, effective: Json) -> str:
    """Return what a queue does at its limit: its own argument takes precedence over a policy."""
    return str(arguments.get("x-overflow") or effective.get("overflow") or "drop-head")


def _least(*values: Any) -> int | None:
    known = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return min(known, default=None)


def _names(said: Json) -> dict[str, Any]:
    return {"virtualhost": said["vhost"], "name": said["name"], "broker_state": said.get("state")}


def _depth(said: Json) -> dict[str, Any]:
    """Return the depths; those of a queue whose node is down are unknown."""
    depths = (said.get("messages"), said.get("messages_ready"), said.get("messages_unacknowledged"))
    return dict(zip(_DEPTH, depths, strict=True))


def _rate(said: Json, key: str) -> float | None:
    details = (said.get("message_stats") or {}).get(key)
    return details.get("rate") if details else None


def _overfull(queue: Attributes, rejecting: bool) -> bool | None:
    """Whether the queue refuses publishers now; None if its depth is unknown."""
    if not rejecting:
        return False
    ready, size = queue.get("ready_messages"), queue.get("depth_bytes")
    most, most_bytes = queue.get("effective_capacity_messages"), queue.get("effective_capacity_bytes")
    if ready is None:
        return None
    # 0 is no limit in Headgate's words; a stop's limit of 0 is not shown as a capacity.
    return bool((most and ready >= most) or (most_bytes and size is not None and size >= most_bytes))


def policies_of(policies: Iterable[Json]) -> dict[ObjectName, Attributes]:
    """Return the policies for patterns, without those that Headgate makes for single queues and for stops. Of several
    with the same pattern the one with the highest priority, which is the one that applies."""
    found: dict[ObjectName, Attributes] = {}
    for said in sorted(policies, key=lambda policy: policy.get("priority", 0)):
        if said.get("apply-to") == "exchanges" or said["name"].startswith((STOP_PREFIX, LIMIT_PREFIX)):
            continue
        definition: Json = said.get("definition") or {}
        overflow = definition.get("overflow")
        found[object_name("Policy", virtualhost=said["vhost"], pattern=said["pattern"])] = {
            "virtualhost": said["vhost"],
            "pattern": said["pattern"],
            "priority": said.get("priority", 0),
            "capacity_messages": definition.get("max-length"),
            "capacity_bytes": definition.get("max-length-bytes"),
            "overflow": None if overflow is None else "producers" if overflow in REJECTING else "ring",
            "definition": dict(definition),
            "policy_name": said["name"],
            "apply_to": said.get("apply-to") or "all",
        }
    return found


def by_name(policies: Iterable[Json]) -> dict[tuple[str, str], Json]:
    return {(said["vhost"], said["name"]): said for said in policies}


def publishing(channels: Iterable[Json]) -> set[str]:
    """Return the names of the connections that have published."""
    return {
        channel["connection_details"]["name"]
        for channel in channels
        if (channel.get("message_stats") or {}).get("publish") and channel.get("connection_details")
    }


def connections_of(
    connections: Iterable[Json], producers: Container[str], alarms: Sequence[str]
) -> dict[ObjectName, Attributes]:
    """Return connections, and a producer for each that has published: the names of these are `producers`.

    RabbitMQ blocks connections, not links. During an alarm it blocks every AMQP 0-9-1 connection that publishes, and
    lists that seconds later: until then the alarm says it.
    """
    found: dict[ObjectName, Attributes] = {}
    for said in connections:
        if "vhost" not in said or "name" not in said:
            continue  # it is just opening
        name = object_name("Connection", virtualhost=said["vhost"], id=said["name"])
        found[name] = _connection(said)
        if said["name"] in producers:
            producer = object_name("Producer", virtualhost=said["vhost"], id=said["name"])
            found[producer] = _producer(said, name, alarms)
    return found


def _connection(said: Json) -> Attributes:
    properties: Json = said.get("client_properties") or {}
    return {
        "virtualhost": said["vhost"],
        "id": said["name"],
        "remote_address": f"{said.get('peer_host')}:{said.get('peer_port')}",
        "container_id": said.get("user_provided_name") or properties.get("connection_name") or "",
        "user": said.get("user"),
        "product": _property(properties, "product"),
        "product_version": _property(properties, "product_version", "version"),
        "opened": said.get("connected_at"),
    }


def _property(properties: Json, *names: str) -> str:
    """Return the first of these properties that a client gave itself as a text, shortened; "": none."""
    found = (properties.get(name) for name in names)
    return next((text[:_LONGEST_PROPERTY] for text in found if isinstance(text, str) and text), "")


def _producer(said: Json, connection: ObjectName, alarms: Sequence[str]) -> Attributes:
    known = _connection(said)
    old_protocol = "0-9" in str(said.get("protocol", ""))
    state = said.get("state")
    by_alarm = bool(alarms) and old_protocol
    blocked: bool | None = True if by_alarm or state in ("blocked", "flow") else False if state is not None else None
    reasons = list(alarms) if by_alarm else [CONNECTION_FLOW] if blocked else []
    release = "The alarm must end." if by_alarm else "A queue or the disk must catch up." if blocked else ""
    return {
        "virtualhost": said["vhost"],
        "id": said["name"],
        "connection": str(connection),
        "link": "",
        "client": f"{known['user']}@{known['remote_address']}"
        + (f" ({known['container_id']})" if known["container_id"] else ""),
        "blocked": blocked,
        "reasons": reasons,
        "release": release,
    }


def uptime_of(nodes: Iterable[Json]) -> int | None:
    """Return how long the broker has been up, ms: of a cluster, its oldest node."""
    return max((node["uptime"] for node in nodes if isinstance(node.get("uptime"), int)), default=None)


def broker_of(overview: Json, nodes: Sequence[Json], alarms: Sequence[str], started: int | None) -> Attributes:
    """Return the broker: of a cluster, the sums of memory. `started`: ms since the epoch."""
    known: dict[str, Any] = {
        "product": overview.get("product_name") or "RabbitMQ",
        "product_version": overview.get("product_version") or overview.get("rabbitmq_version"),
        "started": started,
        "connections": (overview.get("object_totals") or {}).get("connections"),
        "shortages": list(alarms),
    }
    known["memory_limit_bytes"] = _sum(node.get("mem_limit") for node in nodes)
    known["memory_used_bytes"] = _sum(node.get("mem_used") for node in nodes)
    return known


def _sum(values: Iterable[Any]) -> int | None:
    known = [value for value in values if isinstance(value, int)]
    return sum(known) if known else None


def alarms_of(body: Json) -> list[str]:
    """Return the alarms in force, as shortages, from the answer of the health check (200 or 503)."""
    return sorted(
        str(Shortage(str(alarm.get("resource")), str(alarm.get("node")))) for alarm in body.get("alarms") or ()
    )
