"""`$samples`: once a second, samples of the queues that changed. Values are absolute: a later sample replaces a missed
one, so a link without credit gets the present values of the queues that it has missed once it gives credit.

A follower may request them as JSON (`json_bodies.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
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
    """See the module. No message waits for credit, only the queues do.

    A message takes some 15 ms, and thousands of queues may change at once: a turn makes one message for each link.
    `go_on`: called if there is more; has `publish_some` called in a later turn."""

    def __init__(self, broker: Broker, management: Management, go_on: Callable[[], None]) -> None:
        self.broker = broker
        self._queues = management.queues
        self._go_on = go_on
        self._due: dict[Queue, None] = {}  # have changed, and are in no message yet, the first first
        self._links: dict[NodeSource, bool] = {}  # whether it gets JSON
        #: Queues that have changed since the link had credit for their samples, the first missed first.
        self._missed: dict[NodeSource, dict[Queue, None]] = {}

    def open_source(self, link: NodeSource, filters: Any) -> None:
        self._links[link], self._missed[link] = json_bodies.is_requested(filters), {}
        link.on_credit = lambda: self._send_missed(link)
        link.on_end.append(lambda: self._forget(link))

    def _forget(self, link: NodeSource) -> None:
        self._links.pop(link, None)
        self._missed.pop(link, None)

    def open_target(self, link: NodeTarget) -> None:
        raise Refused("amqp:not-allowed", "$samples can only be received from")

    def publish(self, queues: list[Queue]) -> None:
        """Publish the present values of these queues."""
        if self._links:
            self._due.update(dict.fromkeys(queues))
            self.publish_some()

    def publish_some(self) -> None:
        """Publish a part of what is due, and then of what links have missed."""
        if not self._due:
            for link in list(self._links):
                self._send_missed(link)
            return
        part = list(islice(self._due, ROWS))
        for queue in part:
            del self._due[queue]
        # A queue that was deleted meanwhile changed, too, but no longer exists.
        part = self._existing(part)
        # By visibility: nearly all followers are administrators, and get the same messages.
        for seen, links in self._by_sight().items():
            self._publish_to(links, _visible(part, seen))
        if self._due or any(link.credit > 0 and self._missed[link] for link in self._links):
            self._go_on()

    def _publish_to(self, links: list[NodeSource], queues: list[Queue]) -> None:
        if not queues:
            return
        at, rows = self.broker.turn.time_of_day, self._rows(queues)
        messages: dict[bool, bytes] = {}
        for link in links:
            if self._missed[link] or link.credit <= 0:
                self._missed[link].update(dict.fromkeys(queues))
                continue
            as_json = self._links[link]
            if as_json not in messages:
                messages[as_json] = encoded(at, rows, as_json=as_json)
            link.push(messages[as_json])

    def _send_missed(self, link: NodeSource) -> None:
        missed = self._missed.get(link)
        if not missed or link.credit <= 0:
            return
        part = list(islice(missed, ROWS))
        for queue in part:
            del missed[queue]
        if queues := _visible(self._existing(part), self._sight(link)):
            at = self.broker.turn.time_of_day
            link.push(encoded(at, self._rows(queues), as_json=self._links[link]))
        if missed and link.credit > 0:
            self._go_on()

    def _existing(self, queues: list[Queue]) -> list[Queue]:
        hosts = self.broker.virtualhosts
        return [q for q in queues if (host := hosts.get(q.virtualhost)) and host.queues.get(q.name) is q]

    def _by_sight(self) -> dict[frozenset[str] | None, list[NodeSource]]:
        """Return the links by their visible virtual hosts; None: all."""
        found: dict[frozenset[str] | None, list[NodeSource]] = {}
        for link in self._links:
            found.setdefault(self._sight(link), []).append(link)
        return found

    def _sight(self, link: NodeSource) -> frozenset[str] | None:
        rights = self.broker.accounts.rights(link.context.user or "")
        if rights.administrator:
            return None
        return frozenset(host for host in self.broker.virtualhosts if rights.may(MANAGE, host))

    def _rows(self, queues: list[Queue]) -> list[list[Any]]:
        values = self._queues.rows(queues, SAMPLED)
        return [[str(queue.object_name), *row] for queue, row in zip(queues, values, strict=True)]


def _visible(queues: list[Queue], hosts: frozenset[str] | None) -> list[Queue]:
    return queues if hosts is None else [q for q in queues if q.virtualhost in hosts]


def encoded(at: int, rows: list[list[Any]], *, as_json: bool = False) -> bytes:
    """Return a message of samples. `at`: ms since the epoch; `rows`: object name as text, then the values of
    `SAMPLED`."""
    if as_json:
        return json_bodies.samples_message(at, SAMPLED, rows)
    return bytes(Message(body={"at": at, "names": list(SAMPLED), "rows": rows}, address="$samples").encode())
