"""The phases of a connection in which a peer can misbehave, and the check that a lost one leaves no state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.amqp.broker_thread import BrokerThread
from tests.amqp.frames import (
    AMQP_HEADER,
    FLOW,
    RECEIVER,
    SASL_HEADER,
    Peer,
    anonymous_init,
)


def before_sasl(peer: Peer) -> None:
    pass


def within_sasl(peer: Peer) -> None:
    peer.write(SASL_HEADER)


def after_sasl(peer: Peer) -> None:
    peer.write(anonymous_init() + AMQP_HEADER)


def after_open(peer: Peer) -> None:
    peer.open()


def with_links(peer: Peer) -> None:
    peer.open()
    peer.attach("q", name="sends", handle=0)
    peer.attach("q", name="takes", handle=1, role=RECEIVER)
    peer.give_credit(10, handle=1)
    peer.expect(FLOW)


PHASES: list[Callable[[Peer], None]] = [before_sasl, within_sasl, after_sasl, after_open, with_links]


def nothing_is_left(broker: BrokerThread) -> None:
    """No connection, link, producer, consumer or credit."""

    def left(service: Any) -> list[Any]:
        engine, container = service.broker, service.container
        ledgers = [
            (q.gate.ledger.reserved, len(q.gate.ledger.waiting), len(q.gate.ledger.pending)) for q in engine.queues()
        ]
        return [
            len(service._listeners),
            len(container.connections),
            len(container.unwritten),
            len(container.draining),
            len(container.ticked_often),
            len(engine.connections),
            len(engine.producers),
            len(engine.consumers),
            sum(map(sum, ledgers)),
            sum(q.lanes.unacknowledged for q in engine.queues()),
            sum(q.consumer_count for q in engine.queues()),
        ]

    broker.until(lambda s: not any(left(s)), f"nothing is left, but {broker.look(left)}")


def reads_to_the_end(peer: Peer) -> bool:
    """Read to the end of the stream; return whether it ended in time."""
    end = time.monotonic() + 5
    peer.socket.settimeout(5)
    while time.monotonic() < end:
        try:
            if not peer.socket.recv(1 << 16):
                return True
        except ConnectionResetError:
            return True
    return False
