"""A subscription: the messages of a topic that a client requests, and the queue that collects them.

An *ordinary* subscription belongs to one link and ends with it. A *shared* one has a name and belongs to all links that
use that name: each message goes to one of them. A *durable* one also has a name, and exists without consumers and
across restarts. Names belong to a client (its container-id) or, for shared subscriptions, optionally to all clients.

The queue is named `subscriptions.TOPIC.CLIENT|NAME`: the topic is first, so that the pattern `subscriptions.stocks.>`
matches all its subscriptions, and the last word is the owner. In that word reserved characters are escaped as `%` and
two digits. An ordinary subscription has `#` and a number as its name, a shared one that is not durable ends in
`|volatile`, and one of all clients has an empty client.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokers.model import ObjectName, object_name

if TYPE_CHECKING:
    from brokers.engine.queues.queue import Queue
    from brokers.engine.registry.connection import Connection

PREFIX = "subscriptions"

_ESCAPES = str.maketrans({c: f"%{ord(c):02X}" for c in "%.|#"})

#: Samples per subscription; beyond this number every other one is dropped.
MOMENTS = 3600


@dataclass(frozen=True, slots=True)
class SubscriptionSpec:
    """What a client subscribes to. `topic`: the address in its attach. `client`: "" for all clients. `name`: "" for an
    ordinary subscription. `selector`: only messages that match it; "": all. `no_local`: without messages of the client
    itself."""

    topic: str
    exchange: str
    key: str
    client: str
    name: str = ""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    no_local: bool = False

    @property
    def identity(self) -> str:
        """The key of a subscription with a name."""
        return identity(self.client, self.name, durable=self.durable)

    def words(self) -> str:
        """Return the subscription as text, for people and the log."""
        words = [f"Topic : {self.topic}", f"Client : {self.client or 'all'}"]
        if self.name:
            words.append(f"Name : {self.name}{' (shared)' if self.shared else ''}")
        if self.selector:
            words.append(f"Selector : {self.selector}")
        return ", ".join(words)


def identity(client: str, name: str, *, durable: bool) -> str:
    return f"{_word(client)}|{_word(name)}{'' if durable else '|volatile'}"


def queue_name(spec: SubscriptionSpec, number: int) -> str:
    """Return the name of a subscription's queue. `number`: a unique number, for an ordinary subscription."""
    whose = spec.identity if spec.name else f"{_word(spec.client)}|#{number}"
    return f"{PREFIX}.{spec.topic}.{whose}"


def _word(text: str) -> str:
    return text.translate(_ESCAPES)


class Arrivals:
    """The arrival times of messages, with the precision of the samples and at no cost per message: each sample records
    the number of the newest message. Ages are lower bounds."""

    __slots__ = ("_numbers", "_times")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._times: list[int] = []

    def sample(self, newest: int, now: int) -> None:
        if not self._numbers or newest > self._numbers[-1]:
            self._numbers.append(newest)
            self._times.append(now)
            if len(self._numbers) > MOMENTS:  # the last one stays: it covers all messages
                del self._numbers[::2], self._times[::2]

    def age(self, number: int | None, now: int) -> int:
        """Return the age in ms of the oldest message, which has this number; 0 if it is None."""
        if number is None:
            return 0
        past = bisect_left(self._numbers, number)
        del self._numbers[:past], self._times[:past]
        return max(0, now - self._times[0]) if self._times else 0


class Subscription:
    """`connection`: of an ordinary subscription, for `no_local`. `matches`: its selector, on encoded messages; None:
    all match. `slow_since`: since when a slow-consumer policy has found it slow. Times in ms since the epoch."""

    __slots__ = (
        "arrivals",
        "connection",
        "created",
        "matches",
        "object_name",
        "queue",
        "slow_since",
        "spec",
        "version",
    )

    def __init__(
        self, spec: SubscriptionSpec, queue: Queue, created: int, connection: Connection | None = None
    ) -> None:
        self.spec = spec
        self.queue = queue
        queue.lanes.delayed.visible_since = {}
        self.created = created
        self.connection = connection
        self.version = 1
        self.matches: Callable[[bytes], bool] | None = None
        self.arrivals = Arrivals()
        self.slow_since: int | None = None
        self.object_name: ObjectName = object_name("Subscription", virtualhost=queue.virtualhost, name=queue.name)

    def wants(self, body: bytes, publisher: Connection) -> bool:
        """Return whether a message of this client matches the selector and `no_local`."""
        spec = self.spec
        if spec.no_local and (publisher.container_id == spec.client if spec.name else publisher is self.connection):
            return False
        return self.matches is None or self.matches(body)

    def oldest(self) -> int | None:
        """Return the sequence number of the oldest unsettled message."""
        acquired = (c.oldest() for c in self.queue.dispatcher.destructive)
        return min((n for n in (self.queue.lanes.oldest(), *acquired) if n is not None), default=None)

    def message_age(self, now: int) -> int:
        """Return the age of its oldest message in ms, to about a second: since its arrival, its delivery time or the
        broker's start, whichever is latest."""
        oldest, visible = self.oldest(), self.queue.lanes.delayed.visible_since
        at = visible.get(oldest) if visible and oldest is not None else None
        return self.arrivals.age(oldest, now) if at is None else now - at
