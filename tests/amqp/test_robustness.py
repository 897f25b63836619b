"""Peers that break the protocol, fall silent, or vanish: they lose their own connection, and leave nothing behind."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import random
import signal
import socket
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from proton import Message, ubyte, uint, ulong, ushort

from brokers.amqp import connection as amqp_connection
from brokers.server import listener
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected, fill
from tests.amqp.frames import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    COORDINATOR,
    DETACH,
    END,
    ENDING_HEADS,
    FLOW,
    OPEN,
    RECEIVER,
    SASL_HEADER,
    SOURCE,
    TARGET,
    TRANSFER,
    Peer,
    anonymous_init,
    described,
    encode,
    frame,
)
from tests.faults.nursery import nursery


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


@pytest.mark.parametrize("phase", PHASES, ids=lambda p: p.__name__)
def test_noise_ends_that_connection_alone(broker: BrokerThread, phase: Callable[[Peer], None]) -> None:
    with connected(broker) as bystander:
        sender = bystander.create_sender("other")
        for seed in range(12):
            noise = random.Random(f"{phase.__name__} {seed}").randbytes(2000)
            with Peer(broker.port) as peer:
                phase(peer)
                peer.socket.sendall(noise)
                assert _ends(peer), f"seed {seed}"
            sender.send(Message(body=seed))
        assert broker.depth("other") == 12
    nothing_is_left(broker)


def _ends(peer: Peer) -> bool:
    """Read to the end of the stream, whatever comes."""
    end = time.monotonic() + 5
    peer.socket.settimeout(5)
    while time.monotonic() < end:
        try:
            if not peer.socket.recv(1 << 16):
                return True
        except ConnectionResetError:
            return True
    return False


FRAMES = {
    "a frame larger than was agreed": b"\x00\x02\x00\x00\x02\x00\x00\x00" + b"\x00" * 200,
    "a frame of 4 GiB": b"\xff\xff\xff\xff\x02\x00\x00\x00" + b"\x00" * 200,
    "a frame shorter than its head": b"\x00\x00\x00\x04\x02\x00\x00\x00",
    "a body that starts after the frame": b"\x00\x00\x00\x10\xff\x00\x00\x00" + b"\x00" * 8,
    "a body that starts within the head": b"\x00\x00\x00\x10\x00\x00\x00\x00" + b"\x00" * 8,
    "a frame of no known kind": b"\x00\x00\x00\x10\x02\x07\x00\x00" + b"\x00\x53\x10\xc0\x01\x00\x00\x00",
    "a performative that is none": frame(0x55),
    "a sasl frame after sasl": frame(0x41, kind=1),
    "no described list": b"\x00\x00\x00\x0c\x02\x00\x00\x00\x40\x40\x40\x40",
    "a transfer on no link": frame(TRANSFER, uint(77), uint(0), b"t", uint(0)),
    "a transfer on no channel": frame(TRANSFER, uint(0), uint(0), b"t", uint(0), channel=9),
    "a flow for no link": frame(FLOW, uint(0), uint(1), uint(0), uint(1), uint(99), uint(0), uint(1)),
    "a flow on no channel": frame(FLOW, uint(0), uint(1), uint(0), uint(1), channel=9),
    "a detach of no link": frame(DETACH, uint(99), True),
    "an end of no session": frame(END, channel=9),
    "an attach on no channel": frame(ATTACH, "x", uint(0), False, channel=9),
    "an answer to a begin that was none": frame(BEGIN, ushort(5), uint(0), uint(1), uint(1), channel=3),
    "a begin on too high a channel": frame(BEGIN, None, uint(0), uint(1), uint(1), channel=65535),
    "the header again": AMQP_HEADER,
    "http": b"GET / HTTP/1.1\r\nHost: broker.example\r\n\r\n",
}


@pytest.mark.parametrize("sent", FRAMES.values(), ids=FRAMES.keys())
def test_a_malformed_frame_ends_that_connection_alone(broker: BrokerThread, sent: bytes) -> None:
    with connected(broker) as bystander, Peer(broker.port) as peer:
        sender = bystander.create_sender("other")
        with_links(peer)
        peer.write(sent)  # and nothing after it
        peer.expect_end()
        sender.send(Message(body="still here"))
    nothing_is_left(broker)


def test_a_peer_without_a_handle_for_the_answer_to_its_link_is_left(
    broker: BrokerThread, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Proton sends no further output on any link: the peer would wait indefinitely, with unsettled messages."""
    one_handle = frame(BEGIN, None, uint(0), uint(100), uint(100), uint(0))
    links = [
        frame(
            ATTACH,
            f"link {n}",
            uint(n),
            False,
            None,
            None,
            described(SOURCE, "q"),
            described(TARGET, "q"),
            None,
            None,
            uint(0),
        )
        for n in range(2)
    ]
    with caplog.at_level("INFO", "headgate.broker"), connected(broker) as bystander, Peer(broker.port) as peer:
        sender = bystander.create_sender("other")
        peer.write(anonymous_init() + AMQP_HEADER + frame(OPEN, "few handles") + one_handle + b"".join(links))
        peer.expect_end()
        sender.send(Message(body="still here"))
    nothing_is_left(broker)
    assert "unable to find an open available handle" in caplog.text
    assert not capfd.readouterr().err, "what Proton says is in the log of the broker"


LEGAL_AND_ODD = {
    "an empty frame": b"\x00\x00\x00\x08\x02\x00\x00\x00",
    "a second open": frame(OPEN, "again"),
    "a flow that takes credit away": frame(FLOW, uint(0), uint(1), uint(0), uint(1), uint(1), uint(0), uint(0)),
    "a flow with the largest credit": frame(
        FLOW, uint(0), uint(2048), uint(0), uint(1), uint(1), uint(0), uint(2**32 - 1)
    ),
    "a delivery count from nowhere": frame(FLOW, uint(0), uint(2048), uint(0), uint(1), uint(0), uint(10**9), uint(5)),
    "a disposition of what was never sent": frame(0x15, True, uint(5), uint(50), True),
    "a disposition backwards": frame(0x15, True, uint(50), uint(5), True),
    "a disposition of everything": frame(0x15, True, uint(0), uint(2**32 - 1), True),
    "a disposition as a sender": frame(0x15, False, uint(0), uint(7), True),
    "a list with a hole": frame(0x15, None, None),
}


@pytest.mark.parametrize("sent", LEGAL_AND_ODD.values(), ids=LEGAL_AND_ODD.keys())
def test_an_odd_frame_does_no_harm_to_the_broker(broker: BrokerThread, sent: bytes) -> None:
    with connected(broker) as bystander, Peer(broker.port) as peer:
        sender = bystander.create_sender("other")
        with_links(peer)
        peer.write(sent * 3)
        peer.write(frame(CLOSE))
        peer.expect_end()
        sender.send(Message(body="still here"))
    nothing_is_left(broker)


@pytest.mark.parametrize("target", ["q", None, described(COORDINATOR)], ids=str)
def test_a_delivery_count_far_ahead_of_all_credit_ends_the_link_alone(broker: BrokerThread, target: Any) -> None:
    """Proton's credit of such a link is far below zero, and what it takes to be above zero again no number of its."""
    with Peer(broker.port) as peer:
        peer.open()
        if isinstance(target, str | None):
            peer.attach(target, handle=0)
        else:
            peer.attach(None, handle=0, target=target)
        peer.expect(FLOW)
        peer.write(frame(FLOW, uint(0), uint(2048), uint(0), uint(2048), uint(0), uint(2**31), uint(0)))
        condition, _ = peer.expect_error(DETACH, 2)
        assert condition == "amqp:link:transfer-limit-exceeded"
        peer.is_alive()
    nothing_is_left(broker)


#: The attach of a recorded conversation, with one byte changed in its target's capabilities, as it ended the broker
#: by SIGSEGV when it answered; only the source's list is as it was recorded.
SHORT_ARRAY = bytes.fromhex(
    "0000005302000000005312c0460ba10630303030303870000000084250025000005328c006054043404342"
    "005329c01f07a1046e6577734340434240f00000000e00080001b300000005746f70696340404344"
)


def items(*encoded: bytes, kind: int = 0xD0, count: int | None = None) -> bytes:
    """A list, or a map (0xD1), that announces `count` items, by default as many as it has."""
    body = b"".join(encoded)
    return bytes([kind]) + struct.pack(">II", len(body) + 4, len(encoded) if count is None else count) + body


def array(count: int, encoded: bytes = b"\0\0\0\5topic", kind: int = 0xB3) -> bytes:
    return b"\xf0" + struct.pack(">IIB", len(encoded) + 5, count, kind) + encoded


def by_hand(code: int, *fields: bytes) -> bytes:
    body = b"\0\x53" + bytes([code]) + items(*fields)
    return struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body


_NULL = b"\x40"
_SYMBOL = b"\xa3\x01x"
#: Values that are not what they announce.
WRONG = {
    "an array of too few": array(2),
    "an array of far too few": array(0x80001),
    "an array of too many": array(0),
    "an array of nothing, without end": array(2**32 - 1, b"", 0x40),
    "an array of short lists": array(1, b"\x02\x05\x40", 0xC0),
    "an array of arrays": array(1, array(3)[1:], 0xF0),
    "an array of no known type": array(1, b"12345678", 0xED),
    "an array that ends within an item": array(1, b"\0\0\0\x50topic"),
    "a list of too few": items(_SYMBOL, count=2),
    "a list of too many": items(_SYMBOL, _SYMBOL, count=1),
    "a list within a list": items(items(_SYMBOL, count=9)),
    "a map of too few": items(_SYMBOL, _SYMBOL, kind=0xD1, count=4),
    "a map of too many": items(_SYMBOL, _SYMBOL, _SYMBOL, _SYMBOL, kind=0xD1, count=2),
    "a map with half a pair": items(_SYMBOL, kind=0xD1),
    "a map with an array of too few": items(_SYMBOL, array(7), kind=0xD1),
    "a list larger than its frame": b"\xd0\x7f\xff\xff\xff\0\0\0\1\x40",
    "a described array of too few": b"\0\x53\x77" + array(3),
    "a descriptor of nothing": b"\0\x53\x77",
    "lists without end": functools.reduce(lambda v, _: items(v), range(2000), _NULL),
}


def _attached(*, source: bytes | None = None, target: bytes | None = None, properties: bytes = _NULL) -> bytes:
    ends = [source or by_part(SOURCE), target or by_part(TARGET)]
    ahead = [encode("wrong"), encode(uint(0)), encode(False), encode(ubyte(2)), encode(ubyte(0))]
    return by_hand(ATTACH, *ahead, *ends, _NULL, _NULL, encode(uint(0)), _NULL, _NULL, _NULL, properties)


def by_part(code: int, **values: bytes) -> bytes:
    """A terminus of queue q with these fields."""
    names = ["address", "durable", "expiry", "timeout", "dynamic", "node"]
    names += ["capabilities"] if code == TARGET else ["mode", "filter", "outcome", "outcomes", "capabilities"]
    fields = [values.get(name, encode("q") if name == "address" else _NULL) for name in names]
    return b"\0\x53" + bytes([code]) + items(*fields)


_TRANSFER = (encode(uint(0)), encode(uint(0)), encode(b"t"), encode(uint(0)))
_WINDOW = (encode(uint(0)), encode(uint(100)), encode(uint(0)), encode(uint(100)))
#: Where such a value may stand: in what the peer says after it has begun a session.
PLACES: dict[str, Callable[[bytes], bytes]] = {
    "a target's capabilities": lambda v: _attached(target=by_part(TARGET, capabilities=v)),
    "a target's node": lambda v: _attached(target=by_part(TARGET, address=_NULL, dynamic=b"\x41", node=v)),
    "a source's capabilities": lambda v: _attached(source=by_part(SOURCE, capabilities=v)),
    "a source's outcomes": lambda v: _attached(source=by_part(SOURCE, outcomes=v)),
    "a source's filters": lambda v: _attached(source=by_part(SOURCE, filter=v)),
    "a source's node": lambda v: _attached(source=by_part(SOURCE, node=v)),
    "a link's properties": lambda v: _attached(properties=v),
    "a session's properties": lambda v: by_hand(BEGIN, _NULL, *_WINDOW[:3], _NULL, _NULL, _NULL, v),
    "a flow's properties": lambda v: by_hand(FLOW, *_WINDOW, *[_NULL] * 6, v),
    "an outcome": lambda v: by_hand(0x15, b"\x41", encode(uint(0)), encode(uint(0)), b"\x41", b"\0\x53\x34" + v),
    "a transfer's state": lambda v: by_hand(TRANSFER, *_TRANSFER, b"\x42", b"\x42", _NULL, b"\0\x53\x34" + v),
    "a transfer's outcome": lambda v: by_hand(
        TRANSFER, *_TRANSFER, b"\x42", b"\x42", _NULL, b"\0\x53\x34" + items(encode(b"t"), b"\0\x53\x25" + v)
    ),
    "a detach's error": lambda v: by_hand(DETACH, encode(uint(0)), b"\x41", b"\0\x53\x1d" + v),
    "an end's error": lambda v: by_hand(END, b"\0\x53\x1d" + v),
    "a close's error": lambda v: by_hand(CLOSE, b"\0\x53\x1d" + v),
    "a connection's capabilities": lambda v: by_hand(OPEN, encode("c"), *[_NULL] * 6, v, v, _NULL),
    "a connection's properties": lambda v: by_hand(OPEN, encode("c"), *[_NULL] * 8, v),
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(process id, port) of a broker in a process of its own, which can end by a signal."""
    with nursery(tmp_path_factory.mktemp("apart")) as brokers:
        pid, port = brokers.start()
        yield pid, port
        os.kill(pid, signal.SIGKILL)


def _refused(port: int, sent: bytes) -> None:
    with Peer(port) as peer:
        if sent[10] == OPEN:
            peer.write(anonymous_init() + AMQP_HEADER + sent)
        else:
            peer.open()
            peer.write(sent)
        condition, text = peer.expect_error(CLOSE, 0)
        assert (condition, text.split(":")[0]) == ("amqp:decode-error", "malformed frame")
        peer.expect_end()


@pytest.mark.domain("8 frames")
def test_an_array_that_announces_more_than_it_has_does_not_end_the_broker(apart: tuple[int, int]) -> None:
    _, port = apart
    _refused(port, SHORT_ARRAY)
    with Peer(port) as other:
        other.open().is_alive()


@pytest.mark.domain("8 frames")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_value_that_is_not_what_it_announces_ends_that_connection_alone(
    apart: tuple[int, int], place: Callable[[bytes], bytes]
) -> None:
    _, port = apart
    with Peer(port) as other:
        other.open()
        for name, value in WRONG.items():
            try:
                _refused(port, place(value))
            except (AssertionError, OSError) as error:
                raise AssertionError(f"{name}: {error}") from error
        other.is_alive()


@pytest.mark.parametrize("begin", ENDING_HEADS.values(), ids=ENDING_HEADS.keys())
def test_a_head_that_ends_a_connection_ends_it_whatever_follows(apart: tuple[int, int], begin: bytes) -> None:
    """What follows is not checked: Proton must not read it."""
    _, port = apart
    with Peer(port) as other, Peer(port) as peer:
        other.open()
        peer.open()
        peer.write(begin + SHORT_ARRAY * 3)
        peer.expect_end()
        other.is_alive()


#: Values that are odd, and right: they are sent back where the answer repeats them.
RIGHT = {
    "an array of none": b"\xf0\0\0\0\5\0\0\0\0\xb3",
    "an array of one": array(1),
    "an array of nulls": array(1000, b"", 0x40),
    "an array of described symbols": b"\xf0" + struct.pack(">II", 12, 2) + b"\0\x53\x77\xa3\1x\1y",
    "an array of lists": array(2, b"\2\1\x40\1\0", 0xC0),
    "an array of maps": array(1, b"\x05\x02\xa3\x01x\x40", 0xC1),
    "an array of arrays": array(1, array(1)[1:], 0xF0),
    "lists within lists": functools.reduce(lambda v, _: items(v), range(20), _NULL),
    "a list of nulls": items(*[_NULL] * 4_000),
    "an empty list": b"\x45",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_value_that_is_odd_and_right_does_no_harm(apart: tuple[int, int], place: Callable[[bytes], bytes]) -> None:
    _, port = apart
    with Peer(port) as other:
        other.open()
        for name, value in RIGHT.items():
            try:
                with Peer(port) as peer:
                    sent = place(value)
                    peer.write(anonymous_init() + AMQP_HEADER)
                    if sent[10] != OPEN:
                        peer.write(frame(OPEN, "odd") + frame(BEGIN, None, uint(0), uint(100), uint(100)))
                    peer.write(sent)
                    peer.socket.shutdown(socket.SHUT_WR)
                    peer.expect_end()
                    closes = [f.field(0) for f in peer.said if f.code == CLOSE]
                    assert not any("decode-error" in str(error) for error in closes), closes
            except (AssertionError, OSError) as error:
                raise AssertionError(f"{name}: {error}") from error
        other.is_alive()


def conversation() -> bytes:
    """A whole and lively conversation of a client, from the first byte."""
    return b"".join(
        [
            anonymous_init(),
            AMQP_HEADER,
            frame(OPEN, "fuzz", "default", uint(65536), None, uint(30000)),
            frame(BEGIN, None, uint(0), uint(2048), uint(2048)),
            *_written(lambda p: p.attach("q", handle=0, name="sends")),
            *_written(lambda p: p.attach("q", handle=1, name="takes", role=RECEIVER)),
            *_written(lambda p: p.give_credit(100, handle=1)),
            *_written(lambda p: [p.transfer() for _ in range(5)]),
            *_written(lambda p: p.transfer(b"half", more=True, number=5)),
            frame(0x15, True, uint(0), uint(2), True, None),
            frame(DETACH, uint(1), True),
            frame(END),
            frame(CLOSE),
        ]
    )


def _written(act: Callable[[Peer], object]) -> list[bytes]:
    peer = Peer.__new__(Peer)
    peer.sent = 0
    written: list[bytes] = []
    peer.write = written.append  # type: ignore[method-assign]
    act(peer)
    return written


def test_a_conversation_with_bytes_changed_anywhere_never_harms_the_broker(broker: BrokerThread) -> None:
    whole = conversation()
    with connected(broker) as bystander:
        sender = bystander.create_sender("other")
        for seed in range(150):
            chance = random.Random(seed)
            changed = bytearray(whole)
            for _ in range(chance.choice((1, 1, 2, 5, 20))):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            with Peer(broker.port) as peer:
                half = chance.randrange(len(changed))
                try:
                    peer.write(bytes(changed[:half]))
                    peer.write(bytes(changed[half:]))
                    peer.socket.shutdown(1)
                    assert _ends(peer), f"seed {seed}"
                except (BrokenPipeError, ConnectionResetError, OSError):
                    pass  # it was ended before it had said everything
            if seed % 10 == 0:
                sender.send(Message(body=seed))
    assert not broker.faults
    nothing_is_left(broker)


def test_a_conversation_in_single_bytes_is_understood(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        for byte in conversation():
            peer.socket.sendall(bytes([byte]))
        peer.expect_end()
        assert CLOSE in [f.code for f in peer.said]
    nothing_is_left(broker)


def test_half_a_frame_waits_for_its_other_half(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        [data] = _written(lambda p: p.transfer())
        peer.write(data[:10])
        assert broker.depth("q") == 0
        peer.write(data[10:])
        broker.until_queue("q", lambda q: q.gate.depth_messages == 1, "it is whole")


# -- silence --------------------------------------------------------------------------------------------------------


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
        assert _ends(peer)
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
        assert _ends(peer)
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


# -- coming and going -------------------------------------------------------------------------------------------------


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


def test_idle_timeouts_of_peer_and_broker_are_independent(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open(idle_timeout=10_000)
        assert broker.look(lambda s: [c.idle_timeout for c in s.broker.connections.values()]) == [10_000]
        assert broker.look(lambda s: len(s.container.ticked_often)) == 0
        wait_until(lambda: peer.said[0].field(4) == ulong(30_000), "the broker announces its own")
