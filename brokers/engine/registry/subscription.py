"""A subscription: what a client wants of a topic, and the queue of its own that gathers it. Pure values.

An *ordinary* subscription belongs to one link and ends with it. A *shared* one has a name and belongs to all links that
give that name: each message goes to one of them. A *durable* one has a name, too, and stays without a consumer, also
through a restart. Names belong to a client (its container-id) or, for a shared one, to all clients.

The queue is called `subscriptions.TOPIC.CLIENT|NAME`: the topic comes first, so that `subscriptions.stocks.>` is a
pattern for all that is subscribed there, and the last word is its owner. In that word what would not read back is
written as `%` and two digits. An ordinary one has `#` and a number for a name, a shared one that is not durable the
ending `|volatile`, and one of all clients no client.
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

#: Moments that are remembered for each subscription; of more, every other one is forgotten.
MOMENTS = 3600


@dataclass(frozen=True, slots=True)
class SubscriptionSpec:
    """What a client asks for. `topic`: the address that it gave. `client`: "" for all clients. `name`: "" for an
    ordinary subscription. `selector`: only messages that match it; "": all. `no_local`: none of its own."""

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
        """By which the subscription is found again; only for one that has a name."""
        return identity(self.client, self.name, durable=self.durable)

    def words(self) -> str:
        """For people and for the log."""
        words = [f"Topic : {self.topic}", f"Client : {self.client or 'all'}"]
        if self.name:
            words.append(f"Name : {self.name}{' (shared)' if self.shared else ''}")
        if self.selector:
            words.append(f"Selector : {self.selector}")
        return ", ".join(words)


def identity(client: str, name: str, *, durable: bool) -> str:
    return f"{_word(client)}|{_word(name)}{'' if durable else '|volatile'}"


def queue_name(spec: SubscriptionSpec, number: int) -> str:
    """`number`: of an ordinary subscription, which no other has."""
    whose = spec.identity if spec.name else f"{_word(spec.client)}|#{number}"
    return f"{PREFIX}.{spec.topic}.{whose}"


def _word(text: str) -> str:
    return text.translate(_ESCAPES)


class Arrivals:
    """When messages came, known to the second and at no cost for any of them: at each look the number of the newest is
    remembered. A message is said to be no older than is certain."""

    __slots__ = ("_numbers", "_times")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._times: list[int] = []

    def sample(self, newest: int, now: int) -> None:
        if not self._numbers or newest > self._numbers[-1]:
            self._numbers.append(newest)
            self._times.append(now)
            if len(self._numbers) > MOMENTS:  # the last one stays: all that came are at or before it
                del self._numbers[::2], self._times[::2]

    def age(self, number: int | None, now: int) -> int:
        """ms since the message with this number came, of which all before it are gone; None: there is none."""
        if number is None:
            return 0
        past = bisect_left(self._numbers, number)
        del self._numbers[:past], self._times[:past]
        return max(0, now - self._times[0]) if self._times else 0


class Subscription:
    """`connection`: whose own messages an ordinary one leaves out, with `no_local`. `matches`: what its selector says
    of an encoded message. Times in ms since the epoch; `slow_since`: a slow-consumer policy found it slow."""

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
        queue.lanes.delayed.shown = {}
        self.created = created
        self.connection = connection
        self.version = 1
        self.matches: Callable[[bytes], bool] | None = None
        self.arrivals = Arrivals()
        self.slow_since: int | None = None
        self.object_name: ObjectName = object_name("Subscription", virtualhost=queue.virtualhost, name=queue.name)

    def wants(self, body: bytes, publisher: Connection) -> bool:
        """Whether a message of this client is for it, by what it asked for beside the topic."""
        spec = self.spec
        if spec.no_local and (publisher.container_id == spec.client if spec.name else publisher is self.connection):
            return False
        return self.matches is None or self.matches(body)

    def oldest(self) -> int | None:
        """The sequence number of the oldest message that is neither settled nor gone."""
        acquired = (c.oldest() for c in self.queue.dispatcher.destructive)
        return min((n for n in (self.queue.lanes.oldest(), *acquired) if n is not None), default=None)

    def message_age(self, now: int) -> int:
        """ms since its oldest message came, to about a second, or since its delivery time; of messages from before a
        restart, since then."""
        oldest, shown = self.oldest(), self.queue.lanes.delayed.shown
        at = shown.get(oldest) if shown and oldest is not None else None
        return self.arrivals.age(oldest, now) if at is None else now - at
