"""Connections that end in any way leave no objects and no memory behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from proton import Message, uint

from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.amqp.frames import (
    CLOSE,
    DETACH,
    END,
    FLOW,
    Peer,
    frame,
)
from tests.amqp.phases import PHASES, nothing_is_left, with_links


def test_hundreds_of_clients_that_come_and_go_at_any_phase_leave_nothing(broker: BrokerThread) -> None:
    broker.queue("q", capacity_messages=50)
    ends = [Peer.vanish, lambda p: p.socket.close(), lambda p: p.write(frame(CLOSE)), lambda p: p.socket.shutdown(1)]
    for number in range(200):
        peer = Peer(broker.port)
        PHASES[number % len(PHASES)](peer)
        if number % 3 == 0 and len(peer.said) > 2:
            peer.transfer()
        ends[number % len(ends)](peer)
        peer.socket.close()
    nothing_is_left(broker)


def test_memory_does_not_grow_with_clients_sessions_and_links_that_have_gone(broker: BrokerThread) -> None:
    broker.queue("q")

    def rounds(count: int) -> int:
        for _ in range(count):
            with Peer(broker.port) as peer:
                with_links(peer)
                for _ in range(20):
                    peer.transfer()
                peer.write(frame(CLOSE))
                peer.expect_end()
            nothing_is_left(broker)
            broker.do(lambda s: s.broker.queue("default", "q").lanes.purge())
        gc.collect()
        return int(psutil.Process().memory_info().rss)

    before = rounds(40)
    assert rounds(60) - before < 4_000_000


def test_memory_does_not_grow_within_a_connection_whose_links_and_sessions_come_and_go(broker: BrokerThread) -> None:
    broker.queue("q")
    with Peer(broker.port) as peer:
        peer.open(begin=False)

        def rounds(count: int) -> int:
            for number in range(count):
                peer.sent = 0
                peer.begin()
                peer.attach("q", name=f"sends {number}")
                peer.expect(FLOW)
                peer.transfer()
                if number % 2:
                    peer.write(frame(DETACH, uint(0), True))
                peer.write(frame(END))
                peer.expect(END)
                peer.said.clear()
            broker.do(lambda s: s.broker.queue("default", "q").lanes.purge())
            gc.collect()
            return int(psutil.Process().memory_info().rss)

        before = rounds(500)
        grown = rounds(2000) - before
        assert grown < 4_000_000, f"{grown:,} bytes for 2,000 sessions"
        assert broker.look(_objects_of_proton) == 0


@pytest.mark.parametrize("phase", PHASES[:-1], ids=lambda p: p.__name__)
def test_a_connection_without_links_that_has_ended_does_not_wait_for_the_garbage_collector(
    broker: BrokerThread, phase: Callable[[Peer], None]
) -> None:
    """What a flood of connections leaves is gone at once. (A link and its engine object refer to each other.)"""
    gc.collect()
    gc.disable()
    try:
        with Peer(broker.port) as peer:
            phase(peer)
            broker.until(lambda s: s.container.connections, "it is there")
            ended = [weakref.ref(each) for each in broker.look(lambda s: list(s.container.connections))]
        broker.until(lambda s: not s.container.connections, "it has ended")
        broker.until(lambda s: not any(each() for each in ended), "and no object of it is left")
    finally:
        gc.enable()


def _objects_of_proton(service: Any) -> int:
    """Sessions and links that the connections still have."""
    from cproton_ffi import ffi, lib

    found = 0
    for connection in service.container.connections:
        for head, follow in ((lib.pn_session_head, lib.pn_session_next), (lib.pn_link_head, lib.pn_link_next)):
            each = head(connection._transport.connection, 0)
            while each != ffi.NULL:
                found += 1
                each = follow(each, 0)
    return found


def test_a_fault_of_the_broker_costs_one_connection_and_is_logged(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from brokers.amqp.producer_link import ProducerLink

    on_delivery = ProducerLink.on_delivery

    def faulty(link: ProducerLink, delivery: Any) -> None:
        if link.producer.queue.name == "trap":
            raise ZeroDivisionError("a fault of ours")
        on_delivery(link, delivery)

    monkeypatch.setattr(ProducerLink, "on_delivery", faulty)
    with connected(broker) as bystander, Peer(broker.port) as peer:
        peer.open()
        peer.attach("trap")
        peer.expect(FLOW)
        peer.transfer()
        peer.expect_end()
        bystander.create_sender("q").send(Message(body="still here"))
    assert "closed after an internal error" in caplog.text
    nothing_is_left(broker)
