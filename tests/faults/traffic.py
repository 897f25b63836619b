"""Producers and consumers that record the broker's confirmations, and what these promise about the next start.

A message is (producer, sequence number), durable. It is *accepted* once its producer has heard so; *taken* once a
consumer has sent its settlement; *settled* once that consumer has heard that it is confirmed.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from proton import Delivery, Event, Handler, Message, Terminus
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

Key = tuple[int, int]

IN_FLIGHT = 40


@dataclass
class Promises:
    """The confirmations of all clients, over all rounds."""

    sent: set[Key] = field(default_factory=set)
    accepted: set[Key] = field(default_factory=set)
    rejected: set[Key] = field(default_factory=set)
    taken: set[Key] = field(default_factory=set)
    settled: set[Key] = field(default_factory=set)
    last: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # producer -> last number sent

    def next(self, producer: int) -> Key:
        self.last[producer] += 1
        key = producer, self.last[producer]
        self.sent.add(key)
        return key

    def check(self, found: list[Key]) -> None:
        """`found`: what a queue holds after a start, in its order."""
        there = set(found)
        assert len(there) == len(found), "a message is there twice"
        assert not self.accepted - self.taken - there, "accepted and not settled, and gone"
        assert not there & self.settled, "settled, and there again"
        assert not there & self.rejected, "rejected, and there all the same"
        assert there <= self.sent
        in_order(found)


def in_order(found: list[Key]) -> None:
    last: dict[int, int] = defaultdict(int)
    for producer, number in found:
        assert number > last[producer], f"producer {producer}: {number} came after {last[producer]}"
        last[producer] = number


class Deadline(Handler):  # type: ignore[misc]
    """Calls `end` once `after` seconds have passed since `begun()` was true, so that the slowest machine has begun."""

    def __init__(self, after: float, begun: Callable[[], bool], end: Callable[[], None]) -> None:
        self.after, self.begun, self.end = after, begun, end
        self.runs = False

    def on_timer_task(self, event: Event) -> None:
        if self.runs:
            self.end()
            return
        self.runs = self.begun()
        event.container.schedule(self.after if self.runs else 0.01, self)


class Traffic(MessagingHandler):  # type: ignore[misc]
    """Load on a queue until `after` seconds have passed since `begun()` was true, then kill -9 the broker, or with no
    `pid` close in order.

    `size`: characters of padding in each message, or for each message one of several.
    """

    def __init__(
        self,
        promises: Promises,
        port: int,
        *,
        producers: int,
        consumers: int,
        after: float = 0.0,
        begun: Callable[[], bool] = lambda: True,
        pid: int = 0,
        size: int | Sequence[int] = 0,
        queue: str = "q",
    ) -> None:
        super().__init__(prefetch=20, auto_accept=False, auto_settle=False)
        self.promises, self.port, self.pid = promises, port, pid
        self.deadline = Deadline(after, begun, self.end)
        self.counts = producers, consumers
        self.queue = queue
        self.sizes = [size] if isinstance(size, int) else size
        self.producer_of: dict[Any, int] = {}
        self.keys: dict[Any, Key] = {}  # delivery -> message
        self.in_flight: dict[Any, int] = defaultdict(int)
        self.got: dict[Any, list[Key]] = defaultdict(list)  # by consumer
        self.connections: list[Any] = []

    def on_start(self, event: Event) -> None:
        self.start(event.container)
        event.container.schedule(0, self.deadline)

    def start(self, container: Container) -> None:
        producers, consumers = self.counts
        for number in range(producers):
            sender = container.create_sender(self._connect(container), self.queue, name=f"p{number}", handler=self)
            self.producer_of[sender] = number
        for number in range(consumers):
            container.create_receiver(self._connect(container), self.queue, name=f"c{number}", handler=self)

    def _connect(self, container: Container) -> Any:
        connection = container.connect(
            f"127.0.0.1:{self.port}", reconnect=False, allowed_mechs="ANONYMOUS", handler=self
        )
        self.connections.append(connection)
        return connection

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """What is not heard by now is not known."""
        for connection in self.connections:
            connection.close()

    def on_transport_error(self, event: Event) -> None:
        pass  # the broker has been killed

    def on_sendable(self, event: Event) -> None:
        self._send(event.sender)

    def _send(self, sender: Any) -> None:
        producer = self.producer_of[sender]
        while sender.credit > 0 and self.in_flight[sender] < IN_FLIGHT:
            key = self.promises.next(producer)
            padding = "x" * self.sizes[key[1] % len(self.sizes)]
            delivery = sender.send(Message(body=[*key, padding], durable=True))
            self.keys[delivery] = key
            self.in_flight[sender] += 1

    def on_accepted(self, event: Event) -> None:
        if event.link.is_sender:
            self.promises.accepted.add(self.keys[event.delivery])

    def on_rejected(self, event: Event) -> None:
        if event.link.is_sender:
            self.promises.rejected.add(self.keys[event.delivery])

    def on_message(self, event: Event) -> None:
        key = event.message.body[0], event.message.body[1]
        assert key not in self.promises.settled, f"{key} was settled, and came back"
        self.got[event.link].append(key)
        self.keys[event.delivery] = key
        self.promises.taken.add(key)
        event.delivery.update(Delivery.ACCEPTED)

    def on_settled(self, event: Event) -> None:
        key = self.keys.pop(event.delivery)
        event.delivery.settle()
        if event.link.is_sender:
            self.in_flight[event.link] -= 1
            self._send(event.link)
        else:
            self.promises.settled.add(key)

    def run(self) -> None:
        Container(self).run()
        self.check_order()

    def check_order(self) -> None:
        """Of what each consumer got."""
        for found in self.got.values():
            in_order(found)


class Browse(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        link.source.distribution_mode = Terminus.DIST_MODE_COPY


class Look(MessagingHandler):  # type: ignore[misc]
    """Copies of everything that a queue holds, in its order: until it has `depth` messages. `take`: not copies."""

    def __init__(self, port: int, depth: int, queue: str = "q", *, take: bool = False) -> None:
        super().__init__(prefetch=0, auto_accept=True)
        self.port, self.depth, self.queue, self.take = port, depth, queue, take
        self.found: list[Key] = []

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(f"127.0.0.1:{self.port}", reconnect=False, allowed_mechs="ANONYMOUS")
        options = None if self.take else Browse()
        event.container.create_receiver(self.connection, self.queue, options=options).flow(self.depth + 1)
        self.limit = event.container.schedule(20, self)

    def on_message(self, event: Event) -> None:
        self.found.append((event.message.body[0], event.message.body[1]))
        if len(self.found) == self.depth:
            self.limit.cancel()
            self.connection.close()

    def on_timer_task(self, event: Event) -> None:
        self.connection.close()
