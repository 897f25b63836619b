"""The state that all connections share: the engine, the nodes, and the turn after each input.

A turn dispatches acquired messages to consumers, credit to producers and effects to links until nothing is left to do,
then journals the facts and stores the records. Only then the connection that sent the turn's input writes: a change is
confirmed to its client after it is on disk. Output for other connections (less credit, above all) does not wait for
the disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

from brokers.amqp import runs
from brokers.amqp.dead_letter import as_dead_letter
from brokers.amqp.filters import compile_selector
from brokers.amqp.header import at_delivery_time, header
from brokers.amqp.link_context import Drainable
from brokers.amqp.message_format import AmqpFormat
from brokers.amqp.node_links import Node
from brokers.amqp.sasl import Authenticator
from brokers.amqp.sign_in_attempts import SignInAttempts
from brokers.engine.broker import Broker
from brokers.engine.flow.turn import (
    Close,
    CreditChanged,
    Detach,
    Discharged,
    Drain,
    Effect,
    PersistRecord,
    Removed,
    Settled,
)
from brokers.engine.values.events import Fact

Settle = Callable[[list[Fact], list[PersistRecord]], bool]

#: Connections that have not opened yet, at most; the server has fewer where there are fewer file descriptors.
MOST_UNOPENED = 5_000


class ServedConnection(Protocol):
    """The container's interface to a connection. `flush`: write pending output."""

    user: str | None
    writable: bool
    flush: Callable[[], None]

    def abandon(self) -> None:
        """Close the socket at once, and discard pending output."""

    def tick(self, now: int) -> None:
        """Check time-outs. `now`: ms of any steady clock, above 0."""

    def end(self, condition: str, description: str, *, orderly: bool = False) -> None:
        """Close the broker's end with an error."""


class Container:
    """`settle` journals facts and stores records, and returns whether they are safe; it may push messages to nodes'
    links.
    `clock`: ms since the epoch. `runs`: see `LinkContext`."""

    def __init__(
        self, broker: Broker, authenticator: Authenticator, nodes: Mapping[str, Node], clock: Callable[[], int]
    ) -> None:
        self.broker = broker
        self.authenticator = authenticator
        self.nodes = nodes
        self.clock = clock
        self.runs = runs.load()
        self.settle: Settle = lambda facts, keep: True
        #: Called at the end of each turn: store its messages.
        self.commit: Callable[[], None] = lambda: None
        #: Called when there is more to do, for another turn.
        self.again: Callable[[], None] = lambda: None
        #: Called at the end of each turn, which may have changed when something is due next.
        self.plan: Callable[[], None] = lambda: None
        broker.turn.header = header
        broker.turn.format = AmqpFormat()
        broker.turn.as_dead_letter = as_dead_letter
        broker.turn.at_delivery_time = at_delivery_time
        broker.active_subscriptions.compile = compile_selector
        broker.temporary.unguessable = lambda: secrets.token_hex(16)
        self.connections: set[ServedConnection] = set()
        self.unwritten: set[ServedConnection] = set()
        self.current: ServedConnection | None = None  # sent this turn's input
        self.requesters: set[ServedConnection] = set()  # sent a request to a node in this turn
        self.draining: set[Drainable] = set()
        self.ticked_often: set[ServedConnection] = set()  # more than once a second
        self.attempts = SignInAttempts()
        self.unopened: dict[ServedConnection, None] = {}  # before sign-in and open, the oldest first
        self.most_unopened = MOST_UNOPENED

    def add_unopened(self, connection: ServedConnection) -> None:
        """Register a connection before its open; the oldest is closed when there are too many. Signing in takes
        milliseconds, so a flood of silent connections does not lock out other clients."""
        self.unopened[connection] = None
        if len(self.unopened) > self.most_unopened:
            oldest = next(iter(self.unopened))
            del self.unopened[oldest]
            oldest.abandon()

    def forget(self, connection: ServedConnection) -> None:
        """Unregister a connection whose socket is closed."""
        self.connections.discard(connection)
        self.unopened.pop(connection, None)
        self.unwritten.discard(connection)
        self.ticked_often.discard(connection)

    def begin(self) -> None:
        """Begin a turn, before any input: set the engine's time."""
        self.broker.turn.now = self.clock()

    def finish(self) -> None:  # noqa: C901, PLR0912 - every message's path: a call in it costs each of them
        """End a turn, after any input: see the module."""
        turn = self.broker.turn
        agenda = self.broker.agenda
        touched, changed, redispatch = agenda.touched, agenda.changed, agenda.redispatch
        more: list[Drainable] = []
        while touched or turn.effects or self.draining:
            # Before dispatch: a rollback is confirmed before its requeued messages are delivered again.
            for effect in turn.take_effects():
                if touched and isinstance(effect, Close):
                    turn.effects.append(effect)  # after the messages for its client
                else:
                    self._carry_out(effect)
            while touched:
                queue = touched.pop()
                if queue in redispatch:
                    continue  # it has done what it may do in one turn
                changed.add(queue)
                for consumer, messages in queue.dispatch():
                    consumer.handle.send(messages)
                for producer in queue.gate.grant():
                    producer.handle.sync_credit()
            while self.draining and not touched and not turn.effects:
                link = self.draining.pop()
                if link.consumer.queue in agenda.redispatch:
                    more.append(link)  # for the next turn: there may be messages for it
                else:
                    link.finish_drain()
        unwritten = self.unwritten
        if turn.facts or turn.before_facts or turn.records:
            for connection in [c for c in unwritten if c is not self.current]:
                unwritten.discard(connection)
                connection.flush()
            if not self.settle(turn.take_facts(), turn.take_records()):
                for connection in self.requesters:
                    connection.abandon()  # its change must not be confirmed
        self.requesters.clear()
        self.current = None
        self.commit()
        while unwritten:
            unwritten.pop().flush()
        self.draining.update(more)
        if agenda.redispatch:
            touched.update(agenda.redispatch)
            agenda.redispatch.clear()
            self.again()
        self.plan()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case CreditChanged(port):
                port.sync_credit()
            case Drain(port):
                port.drain()
            case Settled(port, count, outcome):
                port.settle(count, outcome)
            case Removed(consumer, count):
                consumer.confirm(count)
            case Discharged(coordinator, transaction):
                coordinator.discharged(transaction)
            case Detach(link, condition, description):
                link.end(condition, description)
            case Close(connection, condition, description):
                connection.end(condition, description)
