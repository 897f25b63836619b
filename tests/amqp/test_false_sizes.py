"""Values whose sizes or counts are wrong: they end their own connection, and not the broker."""

from __future__ import annotations

import functools
import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from proton import ubyte, uint

from tests.amqp.frames import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    ENDING_HEADS,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    Peer,
    anonymous_init,
    encode,
    frame,
)
from tests.faults.nursery import nursery

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
