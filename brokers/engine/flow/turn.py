"""One turn of the engine: the time it happens at, and what it leaves for its driver to do.

The server sets `now` before it hands input to the engine, and afterwards takes what has piled up: queues that were
touched, effects on links, facts to journal, records to keep. The engine never does any of these itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from brokers.engine.values.events import Fact, text
from brokers.engine.values.message import PLAIN, Header, Message
from brokers.model import ObjectName

if TYPE_CHECKING:
    from brokers.engine.connection import Connection
    from brokers.engine.flow.producer import Producer
    from brokers.engine.flow.receipt import Outcome
    from brokers.engine.ports import Store
    from brokers.engine.queues.consumer import Consumer
    from brokers.engine.queues.contents import Contents
    from brokers.engine.queues.deep_queue import DeepQueue
    from brokers.engine.queues.durable_queue import DurableQueue
    from brokers.engine.queues.queue import Queue
    from brokers.engine.services.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CreditChanged:
    """The producer's credit is another than its link was told."""

    producer: Producer


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the producer to use or give back its credit at once."""

    producer: Producer


@dataclass(frozen=True, slots=True)
class Detach:
    """End a link. `condition` is an AMQP error condition."""

    link: Producer | Consumer
    condition: str
    description: str


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection."""

    connection: Connection
    condition: str
    description: str


@dataclass(slots=True)
class Settled:
    """The oldest `count` of the producer's held deliveries have their outcome."""

    producer: Producer
    count: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Removed:
    """The oldest `count` settlements that the consumer waits to have confirmed are safe."""

    consumer: Consumer
    count: int


@dataclass(frozen=True, slots=True)
class Discharged:
    """The transaction is over. Acknowledgements in it that were not settled are settled now, or their consumers'
    again."""

    transaction: Transaction


Effect = CreditChanged | Drain | Detach | Close | Settled | Removed | Discharged


@dataclass(frozen=True, slots=True)
class Keep:
    """A record that must survive a restart; `value` None: forget it."""

    kind: str
    key: str
    value: Mapping[str, Any] | None


#: (encoded message, why it was given up, the queue it was in, its failed deliveries, the consumer's words) -> what the
#: dead-letter queue gets: the message with these in its annotations, and without its time to live.
DeadLetter = Callable[[bytes, str, str, int, str], bytes]

GiveUp = Callable[["Queue", "Consumer", Message, str, str], int | None]


class Turn:
    """See the module. `now`: steady time, ms since the epoch as of the start. `ahead`: how much the time of day is
    ahead of it, ms, since the machine's clock has been set."""

    __slots__ = (
        "ahead",
        "as_dead_letter",
        "at_delivery_time",
        "changed",
        "delayed",
        "dropped",
        "effects",
        "expiring",
        "facts",
        "give_up",
        "header",
        "keep",
        "later",
        "now",
        "spooling",
        "temp",
        "touched",
        "unsafe",
        "watched",
    )

    def __init__(self, now: int) -> None:
        self.now = now
        self.ahead = 0
        self.touched: set[Queue] = set()  # have something to dispatch or to grant
        self.changed: set[Queue] = set()  # since the last sample
        self.watched: set[Queue] = set()  # have credit to take back: swept by time
        self.unsafe: set[DurableQueue] = set()  # wait for their store
        self.spooling: set[DeepQueue] = set()  # wait for the temp store
        self.temp: Callable[[], Store | None] = lambda: None  # the temp store, opened when it is first asked for
        self.later: set[Queue] = set()  # have more to dispatch, in a turn of its own
        self.dropped: dict[Contents, int] = {}  # rings that are full, and how many messages each has dropped
        self.expiring: set[Contents] = set()  # have messages that expire
        self.delayed: set[Contents] = set()  # have messages that are not due
        #: What an encoded message asks for; the protocol layer knows.
        self.header: Callable[[bytes], Header] = lambda body: PLAIN
        #: What a dead-letter queue gets: see `DeadLetter`; the protocol layer writes it.
        self.as_dead_letter: DeadLetter = lambda body, reason, queue, failed, said: body
        #: (encoded message, ms since the epoch) -> the message that says this time in place of its delay.
        self.at_delivery_time: Callable[[bytes, int], bytes] = lambda body, due: body
        #: What becomes of a message that a consumer gives up: see `dead_letters.DeadLetters.give_up`.
        self.give_up: GiveUp = lambda queue, consumer, message, reason, said: queue.remove(consumer, message)
        self.effects: list[Effect] = []
        self.facts: list[Fact] = []
        self.keep: list[Keep] = []

    @property
    def time_of_day(self) -> int:
        """ms since the epoch."""
        return self.now + self.ahead

    def state(
        self,
        kind: str,
        name: ObjectName,
        subject: str,
        words: str,
        attributes: Mapping[str, Any],
        *,
        logged: bool = True,
    ) -> None:
        """State a fact of now. `logged`: see `Fact`."""
        self.facts.append(Fact(self.time_of_day, kind, name, text(kind, subject, words), attributes, logged))

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def take_facts(self) -> list[Fact]:
        """The facts since the last time, in order; with them, what is stated once a turn."""
        dropped, self.dropped = self.dropped, {}
        for queue, count in dropped.items():
            queue.state_dropped(count)
        facts, self.facts = self.facts, []
        return facts

    def take_keep(self) -> list[Keep]:
        keep, self.keep = self.keep, []
        return keep
