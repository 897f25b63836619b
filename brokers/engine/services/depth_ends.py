"""The depth at which a stop ends: which queues must have reached it, and whether they have.

Of a stop of whole queues, all that it covers count. A stop of clients has no influence on queues that these do not use,
so there only those count at which it has blocked a producer since it has this end. They are stored with the stop
(`Stop.awaited`): a client that is disconnected, or attaches to an empty queue only, does not end its stop early, and
neither does a restart. A queue that is deleted counts no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from brokers.admin import InvalidValue
from brokers.engine.flow.explanation import percent_used
from brokers.engine.flow.table import stop_reason
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.values.stops import End, Scope, Stop

#: Virtual host and name.
Key = tuple[str, str]


def is_per_client(scope: Scope) -> bool:
    """Return whether only some of the queues that the scope covers count."""
    return bool(scope.client) and not scope.queue


def check(scope: Scope, end: End, queues: Collection[Queue]) -> None:
    """Raise InvalidValue for a depth that none of the `queues` that count could reach, or that would end the stop at
    once."""
    if not end.below:
        return
    if end.below >= 100:
        raise InvalidValue({"below": f"below is {end.below}: it is a percentage of the capacity, from 1 to 99"})
    if not queues and is_per_client(scope):
        raise InvalidValue(
            {
                "below": f"below is {end.below}%, but {scope.client} has no producer there whose queue could reach it:"
                " name a queue, or give a time"
            }
        )
    used = [percent for queue in queues if (percent := percent_used(queue.gate)) is not None]
    if not used:
        raise InvalidValue({"below": f"below is {end.below}%, but no queue of the scope has a capacity"})
    if max(used) <= end.below:
        raise InvalidValue(
            {"below": f"below is {end.below}%, and the fullest queue is at {max(used):.0f}%: it would end at once"}
        )


def counting(registry: Registry, stop: Stop) -> set[Queue]:
    """Return the existing queues that count, of a stop of clients also those that these have attached to since."""
    known = {queue for key in stop.awaited if (queue := _queue(registry, key)) is not None}
    return {queue for queue in known | _blocked_at(registry, stop.scope) if queue.gate.has_stop(stop.scope)}


def keys(queues: Iterable[Queue]) -> tuple[Key, ...]:
    """Return the queues as in `Stop.awaited`."""
    return tuple(sorted((queue.virtualhost, queue.name) for queue in queues))


def is_reached(below: int, queues: Iterable[Queue]) -> bool:
    """Return whether the queues that count are at or below this percentage of their capacity."""
    used = [percent for queue in queues if (percent := percent_used(queue.gate)) is not None]
    return bool(used) and max(used) <= below


def _blocked_at(registry: Registry, scope: Scope) -> set[Queue]:
    """Return the queues at which a stop of clients blocks a producer. By connection, of which there are fewer."""
    client, reason = scope.client, stop_reason(str(scope))
    found: set[Queue] = set()
    for connection in registry.connections.values():
        if client.covers(connection.user, connection.container_id, client.link):
            for producer in connection.producers:
                queue = _queue(registry, (connection.virtualhost, producer.queue.name))
                if reason in producer.causes and queue is not None:
                    found.add(queue)
    return found


def _queue(registry: Registry, key: Key) -> Queue | None:
    host = registry.virtualhosts.get(key[0])
    return host.queues.get(key[1]) if host is not None else None
