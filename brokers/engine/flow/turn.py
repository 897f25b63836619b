"""One turn of the engine: the time it happens at, and what it leaves for its driver to do.

The server sets `now` before it hands input to the engine, and afterwards takes what has piled up: effects on links,
facts to journal, records to keep; `queues/agenda.py` has the queues that were touched. The engine never does any of
these itself. Effects carry ports: the ends of links and connections in the protocol layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from brokers.engine.ports import ConnectionPort, ConsumerPort, LinkPort, ProducerPort, Store, TransactionPort
from brokers.engine.values.events import Fact, text
from brokers.engine.values.message import PLAIN, Header
from brokers.engine.values.outcomes import Outcome
from brokers.model import ObjectName


@dataclass(frozen=True, slots=True)
class CreditChanged:
    """The producer's credit is another than its client knows."""

    port: ProducerPort


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the producer to use or give back its credit at once."""

    port: ProducerPort


@dataclass(frozen=True, slots=True)
class Detach:
    """End a link. `condition` is an AMQP error condition."""

    port: LinkPort
    condition: str
    description: str


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection."""

    port: ConnectionPort
    condition: str
    description: str


@dataclass(slots=True)
class Settled:
    """The oldest `count` of the producer's unsettled deliveries have their outcome."""

    port: ProducerPort
    count: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Removed:
    """The oldest `count` settlements that the consumer waits to have confirmed are safe."""

    port: ConsumerPort
    count: int


@dataclass(frozen=True, slots=True)
class Discharged:
    """The transaction is over. Acknowledgements in it that were not settled are settled now, or their consumers'
    again."""

    port: TransactionPort
    transaction: Any


Effect = CreditChanged | Drain | Detach | Close | Settled | Removed | Discharged


@dataclass(frozen=True, slots=True)
class PersistRecord:
    """A record that must survive a restart; `value` None: forget it."""

    kind: str
    key: str
    value: Mapping[str, Any] | None


#: (encoded message, why it was given up, the queue it was in, its failed deliveries, the consumer's words) -> what the
#: dead-letter queue gets: the message with these in its annotations, and without its time to live.
DeadLetter = Callable[[bytes, str, str, int, str], bytes]


class Turn:
    """See the module. `now`: steady time, ms since the epoch as of the start. `ahead`: how much the time of day is
    ahead of it, ms, since the machine's clock has been set."""

    __slots__ = (
        "ahead",
        "as_dead_letter",
        "at_delivery_time",
        "before_facts",
        "effects",
        "facts",
        "header",
        "now",
        "records",
        "temp",
    )

    def __init__(self, now: int) -> None:
        self.now = now
        self.ahead = 0
        self.temp: Callable[[], Store | None] = lambda: None  # the temp store, opened when it is first used
        #: What an encoded message asks for; the protocol layer knows.
        self.header: Callable[[bytes], Header] = lambda body: PLAIN
        #: What a dead-letter queue gets: see `DeadLetter`; the protocol layer writes it.
        self.as_dead_letter: DeadLetter = lambda body, reason, queue, failed, said: body
        #: (encoded message, ms since the epoch) -> the message that says this time in place of its delay.
        self.at_delivery_time: Callable[[bytes, int], bytes] = lambda body, due: body
        self.effects: list[Effect] = []
        self.facts: list[Fact] = []
        self.before_facts: dict[Callable[[], None], None] = {}  # state what is stated once a turn
        self.records: list[PersistRecord] = []

    @property
    def time_of_day(self) -> int:
        """ms since the epoch."""
        return self.now + self.ahead

    def add_fact(
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
        before, self.before_facts = self.before_facts, {}
        for state in before:
            state()
        facts, self.facts = self.facts, []
        return facts

    def take_records(self) -> list[PersistRecord]:
        records, self.records = self.records, []
        return records
