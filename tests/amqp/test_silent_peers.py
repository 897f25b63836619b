"""Peers that fall silent or do not read, idle time-outs and heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from proton import Message, ulong

from brokers.amqp import connection as amqp_connection
from brokers.server import listener
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected, fill
from tests.amqp.frames import (
    CLOSE,
    FLOW,
    RECEIVER,
    TRANSFER,
    Peer,
    frame,
)
from tests.amqp.phases import after_sasl, before_sasl, nothing_is_left, reads_to_the_end, within_sasl


def test_a_client_that_falls_silent_is_dropped_by_the_idle_time_out(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_connection, "IDLE_TIMEOUT_MS", 300)
    fill(broker, "q", ["unsettled"])
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(1)
        peer.expect(TRANSFER)
        assert int(peer.said[0].field(4)) == 150, "half of it is announced"
        condition, text = peer.expect_error(CLOSE, 0)
        assert (condition, "idle-timeout" in text) == ("amqp:resource-limit-exceeded", True)
        peer.expect_end()
    nothing_is_left(broker)
    assert any("CON-1002 : Close : amqp:resource-limit-exceeded" in t for t in broker.texts())


def test_idle_client_with_heartbeats_is_not_disconnected(broker: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_connection, "IDLE_TIMEOUT_MS", 1500)
    ticks = [0]
    with connected(broker) as connection:
        tick = broker.service._second

        def counted() -> None:
            ticks[0] += 1
            tick()

        began = time.monotonic()
        while time.monotonic() < began + 3.5:
            connection.container.timeout = 0.1
            connection.container.process()
        assert broker.look(lambda s: len(s.container.connections)) == 1
        connection.create_sender("q").send(Message(body="alive"))
        counted()


@pytest.mark.parametrize("phase", [before_sasl, within_sasl, after_sasl], ids=lambda p: p.__name__)
def test_a_client_that_never_opens_is_dropped(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch, phase: Callable[[Peer], None]
) -> None:
    monkeypatch.setattr(amqp_connection, "SIGN_IN_TIMEOUT_MS", 200)
    with Peer(broker.port) as peer:
        phase(peer)
        assert reads_to_the_end(peer)
    nothing_is_left(broker)


def test_a_client_that_ignores_the_broker_s_close_is_dropped(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_connection, "CLOSE_TIMEOUT_MS", 200)
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        broker.do(lambda s: s.broker.end_connection(next(iter(s.broker.connections.values())), "go away"))
        assert peer.expect_error(CLOSE, 0) == ("amqp:connection:forced", "go away")
        peer.transfer()
        peer.expect_end()
    nothing_is_left(broker)
    assert broker.depth("q") == 0


def test_a_client_that_asks_for_frequent_heartbeats_gets_them(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open(idle_timeout=1600)  # ms: half of it is slack for a machine that has others to serve
        began, heartbeats = time.monotonic(), []
        while len(heartbeats) < 3:
            assert peer.socket.recv(100) == b"\x00\x00\x00\x08\x02\x00\x00\x00"
            heartbeats.append(time.monotonic() - began)
        gaps = [b - a for a, b in zip([0.0, *heartbeats], heartbeats, strict=False)]
        assert max(gaps) < 1.6, f"a client would have hung up: {gaps}"


def test_a_peer_that_does_not_read_does_not_outlive_its_close(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SHUT_SECONDS", 0.2)
    fill(broker, "q", [b"x" * 1_000_000] * 12)
    with Peer(broker.port, receive_buffer=4096) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(12)
        broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")
        peer.write(frame(CLOSE))
        broker.until(lambda s: not s._listeners, "it is gone", within=3)
    nothing_is_left(broker)
    assert broker.depth("q") == 12


def test_peer_that_neither_sends_nor_reads_is_disconnected(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SHUT_SECONDS", 0.2)
    fill(broker, "q", [b"x" * 1_000_000] * 12)
    with Peer(broker.port, receive_buffer=4096) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(12)
        broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")
        peer.socket.shutdown(1)
        broker.until(lambda s: not s._listeners, "it is gone", within=3)
    nothing_is_left(broker)


def test_a_peer_that_reads_the_rest_in_time_is_not_cut_off_afterwards(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`broker` fails if anything goes wrong in its loop."""
    monkeypatch.setattr(listener, "SHUT_SECONDS", 2.0)
    fill(broker, "q", [b"x" * 1_000_000] * 12)
    with Peer(broker.port, receive_buffer=4096) as peer:
        peer.open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(12)
        broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")
        peer.socket.shutdown(1)
        broker.until(lambda s: any(each._closing for each in s._listeners), "it is being closed")
        assert reads_to_the_end(peer)
    broker.until(lambda s: not s._listeners, "it is gone")
    broker.run(asyncio.sleep(2.0), within=20)  # what was to happen after two seconds of the loop has happened
    assert not broker.faults


def test_a_stop_waits_no_longer_than_a_second_for_those_who_do_not_read(tmp_path: Any) -> None:
    with BrokerThread(tmp_path / "broker") as broker:
        fill(broker, "q", [b"x" * 1_000_000] * 12)
        peer = Peer(broker.port, receive_buffer=4096).open()
        peer.attach("q", role=RECEIVER)
        peer.give_credit(12)
        broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")
    assert broker.stopped_within < 2.0
    peer.socket.close()


def test_idle_timeouts_of_peer_and_broker_are_independent(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open(idle_timeout=10_000)
        assert broker.look(lambda s: [c.idle_timeout for c in s.broker.connections.values()]) == [10_000]
        assert broker.look(lambda s: len(s.container.ticked_often)) == 0
        wait_until(lambda: peer.said[0].field(4) == ulong(30_000), "the broker announces its own")
