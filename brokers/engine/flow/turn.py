"""One turn of the engine: its time, and the effects, facts and records that it leaves to its driver.

The server sets `now` before it calls the engine. Afterwards it takes the effects on links, the facts for the journal
and the records to persist; `queues/agenda.py` has the queues that the turn touched. The engine performs no input or
output. Effects carry ports: the protocol layer's ends of links and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from brokers.engine.ports import ConnectionPort, ConsumerPort, LinkPort, ProducerPort, Store, TransactionPort
from brokers.engine.values.events import Fact, text
from brokers.engine.values.message import PLAIN, Header
from brokers.engine.values.message_format import MessageFormat, Unknown
from brokers.engine.values.outcomes import Outcome
from brokers.model import ObjectName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CreditChanged:
    """The producer's credit has changed, and its client must be sent the new value."""

    port: ProducerPort


@dataclass(frozen=True, slots=True)
class Drain:
    """Request that the client uses or returns its credit at once."""

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
    """Settle the oldest `count` unsettled deliveries of the producer with this outcome."""

    port: ProducerPort
    count: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Removed:
    """Confirm the oldest `count` settlements of the consumer: their messages are removed from the store."""

    port: ConsumerPort
    count: int


@dataclass(frozen=True, slots=True)
class Discharged(Generic[T]):
    """The transaction has ended. Its unsettled acknowledgements are settled after a commit, and void after a
    rollback."""

    port: TransactionPort[T]
    transaction: T


Effect = CreditChanged | Drain | Detach | Close | Settled | Removed | Discharged[Any]


@dataclass(frozen=True, slots=True)
class PersistRecord:
    """Write a record that survives a restart; `value` None: delete it."""

    kind: str
    key: str
    value: Mapping[str, Any] | None


#: (encoded message, reason, its queue, its failed deliveries, the consumer's error) -> the message for the dead-letter
#: queue, with these in its annotations and without its time to live.
DeadLetter = Callable[[bytes, str, str, int, str], bytes]


class Turn:
    """See the module. `now`: steady time in ms, which begins at the epoch time of the start. `ahead`: by how many ms
    the time of day is ahead of `now`, since the machine's clock was set. `before_facts`: called before the facts are
    taken, to add facts that sum up a turn. `once_safe`: set by a request whose change is not safe yet: has a function
    called once it is."""

    __slots__ = (
        "ahead",
        "as_dead_letter",
        "at_delivery_time",
        "before_facts",
        "effects",
        "facts",
        "format",
        "header",
        "now",
        "once_safe",
        "records",
        "temp",
    )

    def __init__(self, now: int) -> None:
        self.now = now
        self.ahead = 0
        self.temp: Callable[[], Store | None] = lambda: None  # the temp store, opened on first use
        #: Reads the header of an encoded message; set by the protocol layer.
        self.header: Callable[[bytes], Header] = lambda body: PLAIN
        #: Reads encoded messages for people; set by the protocol layer.
        self.format: MessageFormat = Unknown()
        #: See `DeadLetter`; set by the protocol layer.
        self.as_dead_letter: DeadLetter = lambda body, reason, queue, failed, error: body
        #: (encoded message, ms since the epoch) -> the message with this delivery time in place of its delay.
        self.at_delivery_time: Callable[[bytes, int], bytes] = lambda body, due: body
        self.effects: list[Effect] = []
        self.facts: list[Fact] = []
        self.before_facts: dict[Callable[[], None], None] = {}
        self.records: list[PersistRecord] = []
        self.once_safe: Callable[[Callable[[], None]], None] | None = None

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
        """Add a fact with the present time. `logged`: see `Fact`."""
        self.facts.append(Fact(self.time_of_day, kind, name, text(kind, subject, words), attributes, logged))

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def take_facts(self) -> list[Fact]:
        """Return the facts since the last call, in order."""
        before, self.before_facts = self.before_facts, {}
        for add in before:
            add()
        facts, self.facts = self.facts, []
        return facts

    def take_once_safe(self) -> Callable[[Callable[[], None]], None] | None:
        found, self.once_safe = self.once_safe, None
        return found

    def take_records(self) -> list[PersistRecord]:
        records, self.records = self.records, []
        return records
