"""The nodes of one broker behind an adapter: `$management/NAME`, `$events/NAME` and `$samples/NAME`.

They speak as those of Headgate's own broker do. While the broker does not answer, requests are refused and the links of
the streams end, with the reason: a console shows it as unreachable and attaches again later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokers import json_bodies
from brokers.adapters.adapted_broker import AdaptedBroker
from brokers.adapters.feeds import SampleFeed
from brokers.adapters.observed import Observed
from brokers.amqp.node_links import Node, NodeSource, NodeTarget
from brokers.amqp.refusals import Refused
from brokers.engine.values.rights import Rights
from brokers.server.event_node import EventNode
from brokers.server.management_node import AdminAnswers, ManagementNode
from brokers.server.sample_node import ROWS, encoded

UNREACHABLE = "headgate:broker-unreachable"

InTurn = Callable[[Callable[[], None]], None]


class AdaptedNodes:
    """`in_turn`: runs a function in a turn of the server. `rights`: of its users."""

    def __init__(
        self, name: str, broker: AdaptedBroker, observed: Observed, in_turn: InTurn, rights: Callable[[str], Rights]
    ) -> None:
        self._observed = observed
        self._in_turn = in_turn
        self._events = EventNode(observed.records, rights)
        self._samples = _Samples(observed)
        self._streams = [_Stream(self._events, observed), _Stream(self._samples, observed)]
        management = ManagementNode(AdminAnswers(broker, lambda: observed.types), in_turn)
        self.by_address: dict[str, Node] = {
            f"$management/{name}": management,
            f"$events/{name}": self._streams[0],
            f"$samples/{name}": self._streams[1],
        }
        observed.feeds.on_news = self._on_news

    @property
    def is_behind(self) -> bool:
        """Whether a follower of events catches up, so that `go_on` has something to do."""
        return self._events.is_behind

    def go_on(self) -> None:
        self._events.go_on()

    def close(self) -> None:
        """End all links: the broker was removed, or another process serves it."""
        self._observed.feeds.on_news = lambda: None
        self._in_turn(lambda: self._end("this process no longer serves the broker"))

    def _on_news(self) -> None:
        self._in_turn(self._pass_on)

    def _pass_on(self) -> None:
        """Send what is new, and then, if the broker has become unreachable, end the streams."""
        self._events.publish(())
        self._samples.publish()
        if (why := self._observed.feeds.unreachable) is not None:
            self._end(why)

    def _end(self, why: str) -> None:
        for stream in self._streams:
            stream.end(why)


class _Stream:
    """A node whose links end while the broker does not answer."""

    def __init__(self, node: Node, observed: Observed) -> None:
        self._node = node
        self._observed = observed
        self._links: set[NodeSource] = set()

    def open_source(self, link: NodeSource, filters: Any) -> None:
        if (why := self._observed.feeds.unreachable) is not None:
            raise Refused(UNREACHABLE, why)
        self._node.open_source(link, filters)
        self._links.add(link)
        link.on_end.append(lambda: self._links.discard(link))

    def open_target(self, link: NodeTarget) -> None:
        self._node.open_target(link)

    def end(self, why: str) -> None:
        for link in list(self._links):
            link.end(UNREACHABLE, why)


class _Samples:
    """Samples to links, each at its own pace: one without credit gets each queue's latest later."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._feeds: dict[NodeSource, SampleFeed] = {}
        self._as_json: set[NodeSource] = set()

    def open_source(self, link: NodeSource, filters: Any) -> None:
        self._feeds[link] = SampleFeed(self._observed.feeds)
        if json_bodies.is_requested(filters):
            self._as_json.add(link)
        link.on_credit = lambda: self._pump(link)
        link.on_end.append(lambda: self._forget(link))

    def open_target(self, link: NodeTarget) -> None:
        raise Refused("amqp:not-allowed", "$samples can only be received from")

    def publish(self) -> None:
        for link in list(self._feeds):
            self._pump(link)

    def _forget(self, link: NodeSource) -> None:
        self._feeds.pop(link, None)
        self._as_json.discard(link)

    def _pump(self, link: NodeSource) -> None:
        as_json = link in self._as_json
        while link.credit > 0 and (samples := self._feeds[link].take(ROWS)) is not None:
            rows = [[str(name), *row.values()] for name, row in samples.queues]
            link.push(encoded(samples.at, rows, as_json=as_json))
