"""Peers that send malformed or unexpected frames: they lose their own connection, and leave nothing behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from proton import Message, uint, ushort

from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected
from tests.amqp.frames import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    COORDINATOR,
    DETACH,
    END,
    FLOW,
    OPEN,
    RECEIVER,
    SOURCE,
    TARGET,
    TRANSFER,
    Peer,
    anonymous_init,
    described,
    frame,
)
from tests.amqp.phases import PHASES, nothing_is_left, reads_to_the_end, with_links


@pytest.mark.parametrize("phase", PHASES, ids=lambda p: p.__name__)
def test_noise_ends_only_its_own_connection(broker: BrokerThread, phase: Callable[[Peer], None]) -> None:
    with connected(broker) as bystander:
        sender = bystander.create_sender("other")
        for seed in range(12):
            noise = random.Random(f"{phase.__name__} {seed}").randbytes(2000)
            with Peer(broker.port) as peer:
                phase(peer)
                peer.socket.sendall(noise)
                assert reads_to_the_end(peer), f"seed {seed}"
            sender.send(Message(body=seed))
        assert broker.depth("other") == 12
    nothing_is_left(broker)


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
def test_malformed_frame_ends_only_its_own_connection(broker: BrokerThread, sent: bytes) -> None:
    with connected(broker) as bystander, Peer(broker.port) as peer:
        sender = bystander.create_sender("other")
        with_links(peer)
        peer.write(sent)  # and nothing after it
        peer.expect_end()
        sender.send(Message(body="still here"))
    nothing_is_left(broker)


def test_peer_without_a_free_handle_for_the_answer_to_its_link_is_disconnected(
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
def test_unusual_frame_does_not_harm_the_broker(broker: BrokerThread, sent: bytes) -> None:
    with connected(broker) as bystander, Peer(broker.port) as peer:
        sender = bystander.create_sender("other")
        with_links(peer)
        peer.write(sent * 3)
        peer.write(frame(CLOSE))
        peer.expect_end()
        sender.send(Message(body="still here"))
    nothing_is_left(broker)


@pytest.mark.parametrize("target", ["q", None, described(COORDINATOR)], ids=str)
def test_delivery_count_far_above_all_credit_ends_only_the_link(broker: BrokerThread, target: Any) -> None:
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


def test_conversation_with_changed_bytes_never_harms_the_broker(broker: BrokerThread) -> None:
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
                    assert reads_to_the_end(peer), f"seed {seed}"
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
