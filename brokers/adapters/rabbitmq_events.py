"""Events of RabbitMQ's event exchange (plugin rabbitmq_event_exchange) as reports. Pure.

An event is a message without a body: what happened is its routing key, and the facts are its headers. There are none
for a queue at its limit or for blocked connections. Those of connections, channels and consumers are left alone: a
broker has thousands a second of them where clients connect for each message, and polls show the connections that last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from brokers.adapters import rabbitmq_reading as reading
from brokers.adapters.observation import Reported
from brokers.adapters.rabbitmq_reading import EVENTS_PREFIX, LIMIT_PREFIX, STOP_PREFIX
from brokers.model import ObjectName, object_name
from brokers.model.reasons import Shortage

Json = Mapping[str, Any]

EXCHANGE = "amq.rabbitmq.event"
#: The exchange's virtual host, unless RabbitMQ is configured otherwise.
VIRTUALHOST = "/"

#: What is received.
KEYS = ("alarm.set", "alarm.cleared", "policy.set", "policy.cleared", "queue.created", "queue.deleted")
#: The kinds of events that follow from it.
KINDS = frozenset({"limit-exceeded", "limit-cleared", "policy-changed", "queue-created", "queue-deleted"})

BROKER = object_name("Broker")
#: Who RabbitMQ says has done what it does without a user.
_ITSELF = "rmq-internal"


@dataclass(frozen=True, slots=True)
class Known:
    """What events are changes of. `policies`: as RabbitMQ lists them. `alarms`: sorted, as `alarms_of` returns them."""

    policies: tuple[Json, ...] = ()
    alarms: tuple[str, ...] = ()


def reports_of(key: str, headers: Json, known: Known) -> tuple[list[Reported], Known]:
    """Return the reports of an event, and what is known after it. `key`: its routing key. Raises KeyError, TypeError or
    ValueError for headers of another form."""
    at = int(headers["timestamp_in_ms"])
    match key:
        case "alarm.set" | "alarm.cleared":
            return _alarm(key, at, headers, known)
        case "policy.set" | "policy.cleared":
            return _policy(key, at, headers, known)
        case "queue.created" | "queue.deleted":
            return _queue(key, at, headers), known
    return [], known


def _alarm(key: str, at: int, headers: Json, known: Known) -> tuple[list[Reported], Known]:
    what = str(Shortage(str(headers["source"]), str(headers["node"])))
    others = {alarm for alarm in known.alarms if alarm != what}
    alarms = tuple(sorted(others | {what} if key == "alarm.set" else others))
    kind = "limit-exceeded" if key == "alarm.set" else "limit-cleared"
    report = Reported(at, kind, BROKER, "", {"resource": what}, {"shortages": list(alarms)})
    return [report], Known(known.policies, alarms)


def _policy(key: str, at: int, headers: Json, known: Known) -> tuple[list[Reported], Known]:
    place = (headers["vhost"], headers["name"])
    before = [policy for policy in known.policies if (policy["vhost"], policy["name"]) == place]
    after = [policy for policy in known.policies if (policy["vhost"], policy["name"]) != place]
    changed = list(before)
    if key == "policy.set":
        said = {name: headers.get(name) for name in ("vhost", "name", "pattern", "definition", "priority", "apply-to")}
        after.append(said)
        changed.append(said)
    now = Known(tuple(after), known.alarms)
    if str(headers["name"]).startswith((STOP_PREFIX, LIMIT_PREFIX)):
        return [], now  # of one queue: its limits are read with it
    shown = reading.policies_of(after)
    actor = _actor(headers)
    return [
        Reported(at, "policy-changed", name, "", actor, shown.get(name))
        for name in _names(reading.policies_of(changed))
    ], now


def _names(policies: Iterable[ObjectName]) -> list[ObjectName]:
    return sorted(policies, key=str)


def _queue(key: str, at: int, headers: Json) -> list[Reported]:
    host, queue = str(headers["vhost"]), str(headers["name"])
    name = object_name("Queue", virtualhost=host, name=queue)
    if queue.startswith(EVENTS_PREFIX):
        return []
    if key == "queue.deleted":
        return [Reported(at, "queue-deleted", name, "", _actor(headers), None)]
    if headers.get("exclusive") or headers.get("auto_delete"):
        return []  # of one client, and often for one message: polls show those that last
    observed = {"virtualhost": host, "name": queue, "durable": bool(headers.get("durable"))}
    return [Reported(at, "queue-created", name, "", _actor(headers), observed)]


def _actor(headers: Json) -> dict[str, str]:
    actor = str(headers.get("user_who_performed_action") or "")
    return {"actor": actor} if actor and actor != _ITSELF else {}
