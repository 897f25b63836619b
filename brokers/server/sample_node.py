"""`$samples`: once a second, samples of the queues that changed. Values are absolute: a lost sample does no harm.

A follower may request them as JSON (`json_bodies.py`).
"""

from __future__ import annotations

from typing import Any

from proton import Message

from brokers import json_bodies
from brokers.admin import SAMPLED
from brokers.amqp.node_links import NodeSource, NodeTarget
from brokers.amqp.refusals import Refused
from brokers.engine.broker import Broker
from brokers.engine.management.requests import Management
from brokers.engine.queues.queue import Queue
from brokers.engine.values.rights import MANAGE

#: Queues in one message.
ROWS = 500


class SampleNode:
    """See the module. A link without credit misses a second's samples."""

    def __init__(self, broker: Broker, management: Management) -> None:
        self.broker = broker
        self._queues = management.queues
        self._links: dict[NodeSource, bool] = {}  # whether it gets JSON

    def open_source(self, link: NodeSource, filters: Any) -> None:
        self._links[link] = json_bodies.is_requested(filters)
        link.on_end.append(lambda: self._links.pop(link, None))

    def open_target(self, link: NodeTarget) -> None:
        raise Refused("amqp:not-allowed", "$samples can only be received from")

    def publish(self, queues: list[Queue]) -> None:
        if not self._links:
            return
        hosts = self.broker.virtualhosts
        # A queue that was deleted within this second changed, too, but no longer exists.
        queues = [q for q in queues if (host := hosts.get(q.virtualhost)) and host.queues.get(q.name) is q]
        # By visibility: nearly all followers are administrators, and get the same messages.
        for seen, links in self._by_sight().items():
            theirs = queues if seen is None else [q for q in queues if q.virtualhost in seen]
            for start in range(0, len(theirs), ROWS):
                at, rows = self.broker.turn.time_of_day, self._rows(theirs[start : start + ROWS])
                messages: dict[bool, bytes] = {}
                for link in links:
                    if link.credit > 0:
                        as_json = self._links[link]
                        if as_json not in messages:
                            messages[as_json] = encoded(at, rows, as_json=as_json)
                        link.push(messages[as_json])

    def _by_sight(self) -> dict[frozenset[str] | None, list[NodeSource]]:
        """Return the links by their visible virtual hosts; None: all."""
        found: dict[frozenset[str] | None, list[NodeSource]] = {}
        for link in self._links:
            rights = self.broker.accounts.rights(link.context.user or "")
            hosts = frozenset(host for host in self.broker.virtualhosts if rights.may(MANAGE, host))
            found.setdefault(None if rights.administrator else hosts, []).append(link)
        return found

    def _rows(self, queues: list[Queue]) -> list[list[Any]]:
        values = self._queues.rows(queues, SAMPLED)
        return [[str(queue.object_name), *row] for queue, row in zip(queues, values, strict=True)]


def encoded(at: int, rows: list[list[Any]], *, as_json: bool = False) -> bytes:
    """Return a message of samples. `at`: ms since the epoch; `rows`: object name as text, then the values of
    `SAMPLED`."""
    if as_json:
        return json_bodies.samples_message(at, SAMPLED, rows)
    return bytes(Message(body={"at": at, "names": list(SAMPLED), "rows": rows}, address="$samples").encode())
