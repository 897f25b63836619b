"""A broker engine with simulated AMQP clients on links with delayed frames.

The clients obey AMQP 1.0: they never send beyond the `delivery-count + link-credit` of the last flow that they have
read. Flows and messages stay in flight until the test lets them arrive or be read. The turn is the one that a server
runs (see `brokers/testing.py`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from brokers.engine.broker import Broker
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Close, CreditChanged, Detach, Drain, Effect, Settled
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Message, Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.virtualhost import DEFAULT, VirtualHost
from brokers.engine.values.events import Fact
from brokers.engine.values.outcomes import Outcome, Verdict
from tests.engine.ports import Link, Peer

START = 1_700_000_000_000
SWEEP = 50


class Sender:
    """A producing client's end of a link. `answers`: it answers drains as soon as it reads them; otherwise the test may
    call `answer`."""

    def __init__(self, producer: Producer, *, answers: bool = True) -> None:
        self.producer = producer
        self.answers = answers
        self.flows: deque[tuple[int, int, bool]] = deque()  # in flight to the client: delivery-count, credit, drain
        self.frames: deque[bytes | int] = deque()  # in flight to the broker: messages, or counts of drains' answers
        self.limit = 0
        self.count = 0  # its delivery-count
        self.drain_requested = False
        self.received = 0  # the broker's view of its delivery-count
        self.sent = 0  # messages
        self.verdicts: Counter[Verdict] = Counter()
        self.outcomes: Counter[Outcome] = Counter()  # of messages settled later

    @property
    def credit(self) -> int:
        return max(0, self.limit - self.count)

    @property
    def refused(self) -> int:
        """Messages that counted as protocol errors."""
        return self.verdicts[Verdict.NO_CREDIT]

    @property
    def in_flight(self) -> int:
        return sum(1 for f in self.frames if isinstance(f, bytes))

    def read(self) -> None:
        while self.flows:
            count, credit, drain = self.flows.popleft()
            self.limit, self.drain_requested = count + credit, drain
            if drain and self.answers:
                self.answer()

    def answer(self) -> None:
        """Answer a drain: return all credit."""
        if self.drain_requested:
            self.drain_requested = False
            self.count = max(self.count, self.limit)
            self.frames.append(self.count)

    def send(self, size: int = 100, most: int = 1) -> int:
        """Send up to `most` messages, limited by the credit. Return their number."""
        number = min(most, self.credit)
        for _ in range(number):
            self.count += 1
            self.sent += 1
            self.frames.append(body(self.producer, self.sent, size))
        return number


def body(producer: Producer, number: int, size: int) -> bytes:
    text = f"{producer.id}:{number}".encode()
    assert len(text) <= size
    return text.ljust(size, b".")


def origin(message: Message) -> tuple[int, int]:
    """Return (producer's id, number among its messages) of a message."""
    producer, _, number = message[1].rstrip(b".").partition(b":")
    return int(producer), int(number)


class Simulation:
    """The broker with its clients, facts and records. `acquired`: the acquired messages of each consumer, oldest
    first."""

    def __init__(self, *, now: int = START) -> None:
        self.broker = Broker(now)
        self.host: VirtualHost = self.broker.create_virtualhost(DEFAULT)
        self.host.create_on_attach = self.host.anonymous = True
        self.senders: dict[Producer, Sender] = {}
        self.acquired: dict[Consumer, list[Message]] = {}
        self.facts: list[Fact] = []
        self.records: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.closed: list[Connection] = []
        self.to_read: set[Sender] = set()  # senders with flows to read
        self.settle()

    # -- set up -------------------------------------------------------------------------------------------------

    def queue(self, name: str = "orders", virtualhost: str = DEFAULT, **own: int | str) -> Queue:
        queue = self.broker.create_queue(self.broker.virtualhost(virtualhost), name, own)
        self.settle()
        return queue

    def connection(
        self, virtualhost: str = DEFAULT, *, user: str = "guest", container_id: str = "client"
    ) -> Connection:
        peer = Peer()
        peer.connection = connection = self.broker.open_connection(
            f"vhost:{virtualhost}",
            user=user,
            remote_address="127.0.0.1:40000",
            container_id=container_id,
            idle_timeout=0,
            handle=peer,
        )
        return connection

    def sender(
        self, queue: Queue, *, answers: bool = True, connection: Connection | None = None, link: str = "sender"
    ) -> Sender:
        connection = connection or self.connection(queue.virtualhost)
        port = Link()
        port.engine_link = producer = self.broker.attach_producer(connection, queue, link, 1, port)
        sender = self.senders[producer] = Sender(producer, answers=answers)
        self.settle()
        return sender

    def receiver(self, queue: Queue, credit: int = 0, *, browsing: bool = False) -> Consumer:
        connection = self.connection(queue.virtualhost)
        link = Link()
        link.engine_link = consumer = self.broker.attach_consumer(
            connection, queue, "receiver", link, browsing=browsing
        )
        self.acquired[consumer] = []
        self.give(consumer, credit)
        return consumer

    # -- what clients do ----------------------------------------------------------------------------------------

    def arrive(self, sender: Sender, most: int | None = None) -> None:
        """Deliver up to `most` frames of a sender to the broker, each in a turn of its own."""
        while sender.frames and (most is None or most > 0) and sender.producer in self.senders:
            if most is not None:
                most -= 1
            frame, producer = sender.frames.popleft(), sender.producer
            if isinstance(frame, bytes):
                sender.received += 1
                self.publish(sender, frame)
            else:
                given_back, sender.received = frame - sender.received, frame
                producer.queue.credit_returned(producer, given_back)
                sender.flows.append((sender.received, producer.credit, False))
                self.settle()

    def publish(self, sender: Sender, message: bytes) -> Verdict:
        producer = sender.producer
        verdict = producer.queue.publish(producer, message)
        sender.verdicts[verdict] += 1
        if verdict is Verdict.NO_CREDIT:
            self.broker.refuse_producer(producer, "amqp:link:transfer-limit-exceeded", "no credit")
            self.senders.pop(producer, None)
        self.settle()
        return verdict

    def send(self, sender: Sender, most: int, size: int = 100) -> int:
        """Read, send and deliver until `most` messages are sent or the credit is used up. Return their number."""
        sent = 0
        while sent < most:
            sender.read()
            number = sender.send(size, min(most - sent, sender.credit))
            self.arrive(sender)
            if not number and not sender.flows:
                break
            sent += number
        return sent

    def detach(self, sender: Sender) -> None:
        self.broker.detach(sender.producer)
        self.senders.pop(sender.producer, None)
        self.settle()

    def give(self, consumer: Consumer, credit: int) -> None:
        consumer.credit += credit
        consumer.queue.touch()
        self.settle()

    def accept(self, consumer: Consumer, most: int | None = None) -> int:
        """Acknowledge the oldest messages that a consumer has acquired. Return their number."""
        messages = self.acquired[consumer][:most]
        del self.acquired[consumer][: len(messages)]
        for message in messages:
            consumer.queue.remove(consumer, message)
            self.settle()
        return len(messages)

    def consume(self, consumer: Consumer, most: int) -> int:
        """Receive and acknowledge up to `most` messages. Return their number."""
        self.give(consumer, most)
        taken = self.accept(consumer)
        consumer.credit = 0
        return taken

    def leave(self, consumer: Consumer) -> None:
        for message in self.acquired.pop(consumer):
            consumer.queue.put_back(consumer, message)
        self.broker.detach(consumer)
        self.settle()

    # -- time ---------------------------------------------------------------------------------------------------

    def advance(self, ms: int = SWEEP) -> None:
        for _ in range(max(1, ms // SWEEP)):
            self.broker.turn.now += SWEEP
            self.time_passed()
            self.broker.sweep()
            self.broker.expire()
            more = True
            while more:
                more = self.broker.release()
                self.settle()

    def time_passed(self) -> None:
        """Hook for models."""

    # -- the turn -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        turn, agenda = self.broker.turn, self.broker.agenda
        while agenda.touched or turn.effects:
            while agenda.touched:
                queue = min(agenda.touched, key=lambda q: (q.virtualhost, q.name))
                agenda.touched.discard(queue)
                self.dispatch(queue)
                self.grant(queue)
                agenda.changed.add(queue)
            for effect in turn.take_effects():
                self._carry_out(effect)
        agenda.free_some()
        self.facts.extend(turn.take_facts())
        for record in turn.take_records():
            if record.value is None:
                self.records.pop((record.kind, record.key), None)
            else:
                self.records[record.kind, record.key] = record.value

    def dispatch(self, queue: Queue) -> None:
        for consumer, messages in queue.dispatch():
            if not consumer.browsing:
                self.acquired[consumer].extend(messages)

    def grant(self, queue: Queue) -> None:
        for producer in queue.gate.grant():
            self._flow(producer)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Close):
            if isinstance(effect.port, Peer) and effect.port.connection is not None:
                self.closed.append(effect.port.connection)
            return
        link = effect.port.engine_link if isinstance(effect.port, Link) else None
        if isinstance(link, Consumer):
            if isinstance(effect, Detach):
                self.acquired.pop(link, None)
        elif link is None:
            return  # a link of a test's own
        elif isinstance(effect, CreditChanged):
            self._flow(link)
        elif isinstance(effect, Drain):
            self._flow(link, drain=link.draining)
        elif isinstance(effect, Settled):
            if link in self.senders:
                self.senders[link].outcomes[effect.outcome] += effect.count
        else:
            self.senders.pop(link, None)

    def _flow(self, producer: Producer, *, drain: bool = False) -> None:
        sender = self.senders.get(producer)
        if sender is not None:
            sender.flows.append((sender.received, producer.credit, drain))
            self.to_read.add(sender)

    def kinds(self) -> list[str]:
        """Return the kinds of the facts since the last call."""
        kinds = [f.kind for f in self.facts]
        self.facts.clear()
        return kinds
