"""`$samples`: once a second, samples of the queues that changed. Values are absolute: a later sample replaces a missed
one, so a link without credit gets the present values of the queues that it has missed once it gives credit.

A follower may request them as JSON (`json_bodies.py`).
"""

from __future__ import annotations

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
    """See the module. No message waits for credit, only the queues do."""

    def __init__(self, broker: Broker, management: Management) -> None:
        self.broker = broker
        self._queues = management.queues
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
        if not self._links:
            return
        # A queue that was deleted within this second changed, too, but no longer exists.
        queues = self._existing(queues)
        # By visibility: nearly all followers are administrators, and get the same messages.
        for seen, links in self._by_sight().items():
            theirs = _visible(queues, seen)
            behind = [link for link in links if self._missed[link]]
            for start in range(0, len(theirs), ROWS):
                part = theirs[start : start + ROWS]
                at, rows = self.broker.turn.time_of_day, self._rows(part)
                messages: dict[bool, bytes] = {}
                for link in links:
                    if link in behind or link.credit <= 0:
                        self._missed[link].update(dict.fromkeys(part))
                        continue
                    as_json = self._links[link]
                    if as_json not in messages:
                        messages[as_json] = encoded(at, rows, as_json=as_json)
                    link.push(messages[as_json])
            for link in behind:
                self._send_missed(link)

    def _send_missed(self, link: NodeSource) -> None:
        missed = self._missed.get(link)
        while missed and link.credit > 0:
            part = list(islice(missed, ROWS))
            for queue in part:
                del missed[queue]
            if queues := _visible(self._existing(part), self._sight(link)):
                at = self.broker.turn.time_of_day
                link.push(encoded(at, self._rows(queues), as_json=self._links[link]))

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
