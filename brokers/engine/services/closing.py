"""The end of connections and links on an operator's request, and what it undoes.

Ends as when the client is lost: unacknowledged messages return to their queues with one failed delivery, messages
without an outcome are dropped or stay accepted without the client knowing, and a connection's open transactions are
rolled back. The client may connect or attach again at once: a stop of the client prevents that it sends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from brokers.engine.flow.enrolment import Transaction as Enrolled
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Detach, Turn
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.transaction import Transaction
from brokers.engine.services.clients import Clients
from brokers.engine.values.events import name_in_events, queue_subject

DETACHED = "amqp:link:detach-forced"


@dataclass(frozen=True, slots=True)
class Consequences:
    """What an end would undo, see the returned values of `preview-close`."""

    producers: int
    consumers: int
    redelivered_messages: int
    unsettled_messages: int
    rolled_back_transactions: int
    rolled_back_messages: int


class Closing:
    """See the module."""

    def __init__(self, registry: Registry, turn: Turn, clients: Clients) -> None:
        self.registry = registry
        self.turn = turn
        self.clients = clients

    def close_connection(self, connection: Connection, reason: str, actor: str) -> None:
        """Have the protocol layer close a connection."""
        self.clients.end_connection(connection, _words(reason, actor))

    def close_producer(self, producer: Producer, reason: str, actor: str) -> None:
        """Have the protocol layer end a producer's link, with all producers of a fan-out."""
        words = _words(reason, actor)
        for each in producer.siblings or (producer,):
            subject = f"{each.connection.subject}/ch:{each.channel}"
            facts = {**each.queue.event_attributes(), **_facts(each, reason, actor)}
            self.turn.add_fact("producer-detached", each.name, subject, f"Detached : {DETACHED} : {words}", facts)
        self.turn.effects.append(Detach(producer.handle.client_link, DETACHED, words))

    def close_consumer(self, consumer: Consumer, reason: str, actor: str) -> None:
        """Have the protocol layer end a consumer's link."""
        words, queue = _words(reason, actor), consumer.queue
        subject = queue_subject(consumer.connection.virtualhost, queue.name)
        facts = {**queue.gate.event_attributes(), **_facts(consumer, reason, actor)}
        self.turn.add_fact("consumer-detached", consumer.name, subject, f"Detached : {DETACHED} : {words}", facts)
        self.turn.effects.append(Detach(consumer.handle, DETACHED, words))

    # -- previews -----------------------------------------------------------------------------------------------

    def of_connection(self, connection: Connection) -> Consequences:
        """Return what the end of a connection would undo."""
        return _consequences(connection.producers, connection.consumers, connection.transactions.values())

    def of_producer(self, producer: Producer) -> Consequences:
        """Return what the end of a producer's link would undo: a transaction whose parked message is lost fails."""
        producers = producer.siblings or (producer,)
        failing: dict[Enrolled, None] = {}
        for queue in (self.registry.virtualhost(p.connection.virtualhost).queues.get(p.queue.name) for p in producers):
            for waiting in (*queue.gate.parked, *queue.gate.awaiting) if queue is not None else ():
                if waiting.producer in producers and waiting.enrolment is not None:
                    failing[waiting.enrolment.transaction] = None
        return _consequences(producers, (), [each for each in failing if isinstance(each, Transaction)])

    def of_consumer(self, consumer: Consumer) -> Consequences:
        """Return what the end of a consumer's link would undo."""
        return _consequences((), (consumer,), ())


def _consequences(
    producers: Collection[Producer], consumers: Collection[Consumer], transactions: Iterable[Transaction]
) -> Consequences:
    undone = list(transactions)
    return Consequences(
        producers=len(producers),
        consumers=len(consumers),
        redelivered_messages=sum(consumer.unacknowledged for consumer in consumers if not consumer.browsing),
        unsettled_messages=sum(producer.unsettled for producer in producers),
        rolled_back_transactions=len(undone),
        rolled_back_messages=sum(each.published_messages for each in undone),
    )


def _facts(link: Producer | Consumer, reason: str, actor: str) -> dict[str, str]:
    return {"client": link.connection.client, "link": name_in_events(link.link), "actor": actor, "reason": reason}


def _words(reason: str, actor: str) -> str:
    return f"closed by {actor or 'an operator'}{f': {reason}' if reason else ''}"
