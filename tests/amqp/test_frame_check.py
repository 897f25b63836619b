"""The check of frames comes to the same verdict however a stream is cut, and with its quick looks as without them."""

from __future__ import annotations

import gc
import itertools
import struct
import tracemalloc
from collections.abc import Iterable
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.amqp import frame_check
from brokers.amqp.frame_check import FrameCheck, Malformed, _Walk
from brokers.amqp.like_frames import Shape, Shapes
from tests.amqp.frames import AMQP_HEADER, ENDING_HEADS, head
from tests.faults import recordings

MAX_FRAME = 65536

UINT = st.sampled_from([b"\x43", b"\x52\x05", b"\x70\x00\x00\x01\x00"])
UINT_OR_NULL = UINT | st.just(b"\x40")
FLAG = st.sampled_from([b"\x41", b"\x42"])
FLAG_OR_NULL = FLAG | st.just(b"\x40")
STATE = st.sampled_from([b"\x40", b"\x00\x53\x24\x45", b"\x00\x53\x26\xc0\x01\x00"])
TAG = st.binary(max_size=32).map(lambda tag: b"\xa0" + bytes([len(tag)]) + tag) | st.just(b"\x40")
MODE = st.sampled_from([b"\x40", b"\x50\x01"])

DISPOSITION = (FLAG, UINT, UINT_OR_NULL, FLAG_OR_NULL, STATE, FLAG_OR_NULL)
TRANSFER = (UINT, UINT_OR_NULL, TAG, UINT_OR_NULL, FLAG_OR_NULL, FLAG_OR_NULL, MODE, STATE, *[FLAG_OR_NULL] * 3)


@st.composite
def plain(draw: st.DrawFn) -> bytes:
    """A performative that is there for each message."""
    code, fields, least = draw(st.sampled_from([(0x14, TRANSFER, 1), (0x15, DISPOSITION, 2)]))
    values = [draw(each) for each in fields[: draw(st.integers(least, len(fields)))]]
    body = b"".join(values)
    return b"\x00\x53" + bytes([code, 0xC0, len(body) + 1, len(values)]) + body


def flipped(data: bytes, flips: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, value in flips:
        changed[at % len(changed)] = value
    return bytes(changed)


FLIPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3)


# -- a stream ---------------------------------------------------------------------------------------------------------


def framed(body: bytes, channel: int = 0) -> bytes:
    return struct.pack(">IBBH", len(body) + 8, 2, 0, channel) + body


def verdict(reads: Iterable[bytes]) -> tuple[str, int]:
    """What is wrong, or "", and how many bytes Proton was given."""
    check, given = FrameCheck(MAX_FRAME), 0
    for data in reads:
        try:
            check.take(data)
        except Malformed as malformed:
            return str(malformed), given + malformed.start
        given += len(data)
    return "", given


def walked(data: bytes) -> tuple[str, int]:
    """The verdict if each frame is walked."""
    with mock.patch.object(Shapes, "add"):
        return verdict([data])


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    at = sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    return [data[one:other] for one, other in itertools.pairwise(at)]


RECORDED = [each for frames in recordings.read_all().values() for each in frames if each[:4] != b"AMQP"]
BODY = b"\x00\x53\x75\xa0\x04\xff\xff\xff\xff"


def in_state(value: bytes) -> bytes:
    """A transfer in a transaction of these fields."""
    fields = b"\x43\x43\xa0\x011\x43\x42\x42\x40\x00\x53\x34" + value
    return b"\x00\x53\x14\xc0" + bytes([len(fields) + 1, 8]) + fields


TRANSACTED = in_state(b"\xc0\x06\x01\xa0\x03abc")
SHORT_ARRAY = b"\xf0\x00\x00\x00\x06\x00\x00\x00\x09\xa1\x00"
ATTACH_OF_NONE = b"\x00\x53\x12" + SHORT_ARRAY
CUT_SHORT = "a value that is cut short"  # what it is refused for

STREAMS = {
    "a recorded conversation": b"".join(RECORDED[:40]),
    "a transfer in a transaction": framed(TRANSACTED + BODY) * 3,
    "a transfer whose size has four bytes": framed(b"\x00\x53\x14\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x43" + BODY) * 3,
    "a transfer that carries nothing": framed(b"\x00\x53\x14\xc0\x02\x01\x43") * 3,
    "a transfer whose state is none": framed(TRANSACTED) + framed(in_state(SHORT_ARRAY) + BODY) + framed(TRANSACTED),
    "a transfer larger than its frame": framed(BODY) + framed(b"\x00\x53\x14\xc0\x60\x01\x43\x40\x40\x40") + b"x" * 90,
    "an attach that is cut short": framed(b"\x00\x53\x12\xc0\x09\x03\xa1\x01x\x43\x41") * 2,
    "empty frames": framed(b"") * 3,
    "a body behind an extended head": struct.pack(">IBBH", 8 + 4 + 7, 3, 0, 7) + b"abcd\x00\x53\x14\xc0\x02\x01\x43",
}


ILL_FORMED = {"a transfer whose state is none", "a transfer larger than its frame", "an attach that is cut short"}


@pytest.mark.parametrize("name", STREAMS)
def test_frame_can_arrive_in_any_number_of_reads(name: str) -> None:
    data = AMQP_HEADER + STREAMS[name]
    wrong, given = verdict([data])
    assert bool(wrong) == (name in ILL_FORMED), wrong
    bad = given + int.from_bytes(data[given : given + 4], "big") if wrong else len(data) + 1
    for cut in range(len(data) + 1):
        said, had = verdict([data[:cut], data[cut:]])
        assert said == wrong, cut
        assert given <= had < bad, f"{cut}: Proton has the whole of the frame"
    said, had = verdict(data[at : at + 1] for at in range(len(data)))
    assert said == wrong
    assert given <= had < bad


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(plain() | st.just(TRANSACTED) | st.just(in_state(SHORT_ARRAY)), FLIPS, st.booleans()), max_size=4
    ),
    st.lists(st.sampled_from(RECORDED), max_size=2),
    st.lists(st.integers(0, 1000), max_size=12),
)
def test_a_verdict_is_the_same_without_the_quick_look_and_in_pieces(
    performatives: list[tuple[bytes, list[tuple[int, int]], bool]], recorded: list[bytes], cuts: list[int]
) -> None:
    frames = [framed(flipped(each, flips) + BODY * carries) for each, flips, carries in performatives]
    data = AMQP_HEADER + b"".join([*frames[:2], *recorded, *frames[2:]])
    wrong, given = verdict([data])
    assert walked(data) == (wrong, given)
    said, had = verdict(pieces(data, cuts))
    assert said == wrong
    assert given <= had <= len(data)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(plain() | st.just(TRANSACTED) | st.just(in_state(SHORT_ARRAY)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), FLIPS), min_size=2, max_size=8),
)
def test_a_transfer_like_an_earlier_one_is_judged_as_if_it_were_the_first(
    performatives: list[bytes], sent: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    frames = [framed(flipped(performatives[which % len(performatives)], flips) + BODY) for which, flips in sent]
    data = AMQP_HEADER + b"".join(frames)
    found = verdict([data])
    assert walked(data) == found


def transfer(number: int, tag: bytes, transaction: bytes = b"abc", carries: bytes = BODY) -> bytes:
    fields = b"\x43\x70" + struct.pack(">I", number) + b"\xa0" + bytes([len(tag)]) + tag + b"\x43\x42\x42\x40"
    fields += b"\x00\x53\x34\xc0\x06\x01\xa0\x03" + transaction
    return framed(b"\x00\x53\x14\xc0" + bytes([len(fields) + 1, 8]) + fields + carries)


def disposition(first: int, last: int, state: bytes = b"\x00\x53\x24\x45") -> bytes:
    fields = b"\x41\x70" + struct.pack(">I", first) + b"\x70" + struct.pack(">I", last) + b"\x41" + state
    return framed(b"\x00\x53\x15\xc0" + bytes([len(fields) + 1, 5]) + fields)


def test_frames_that_differ_in_numbers_and_tag_alone_are_walked_once() -> None:
    with mock.patch.object(frame_check, "_Walk", wraps=_Walk) as walk:
        check = FrameCheck(MAX_FRAME)
        check.take(AMQP_HEADER)
        for number in range(200):
            check.take(transfer(number, b"%04d" % number, carries=BODY + bytes(number)))
        assert walk.call_count == 1
        check.take(transfer(1, b"0001", b"xyz"))  # in another transaction
        check.take(transfer(2, b"longer"))
        assert walk.call_count == 3
        for number in range(200):
            check.take(disposition(number, number + 1))
        assert walk.call_count == 4
        check.take(disposition(1, 1, b"\x00\x53\x26\x45"))
        assert walk.call_count == 5


def test_shapes_of_one_connection_take_little_memory_whatever_it_sends() -> None:
    """A transfer's state may fill a frame, and each byte of it would be a place to compare."""
    gc.collect()
    tracemalloc.start()
    try:
        check = FrameCheck(MAX_FRAME)
        check.take(AMQP_HEADER)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(200):
            text = b"\xb1" + struct.pack(">I", 60_000) + bytes(60_000)
            fields = b"\x52" + bytes([number]) + b"\x43\xa0\x011\x43\x42\x42\x40" + text
            check.take(framed(b"\x00\x53\x14\xd0" + struct.pack(">II", len(fields) + 4, 8) + fields))
            check.take(transfer(number, b"x" * (number % 100)))
        assert tracemalloc.get_traced_memory()[0] - before < 500_000
    finally:
        tracemalloc.stop()


def test_a_run_of_like_frames_is_compared_at_once() -> None:
    with mock.patch.object(Shape, "fits", autospec=True, side_effect=Shape.fits) as fits:
        sent = b"".join(transfer(number, b"%05d" % number) for number in range(5000))
        check = FrameCheck(MAX_FRAME)
        check.take(AMQP_HEADER + sent[:100])
        check.take(sent[100:-3])
        check.take(sent[-3:] + transfer(1, b"00001"))
        assert fits.call_count < 50


@pytest.mark.parametrize("flip", range(len(transfer(0, b"00000"))))
@pytest.mark.parametrize("nth", [5, 6, 7, 12, 21, 90])
def test_a_frame_in_a_run_is_judged_as_if_it_were_alone(nth: int, flip: int) -> None:
    for wrong in (0x00, 0x40, 0xC0, 0xF0):
        frames = [transfer(number, b"%05d" % number) for number in range(100)]
        frames[nth] = flipped(frames[nth], [(flip, wrong)])
        data = AMQP_HEADER + b"".join(frames) + framed(ATTACH_OF_NONE)
        assert verdict([data]) == walked(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_runs_are_judged_as_if_each_frame_were_alone(data: st.DataObject) -> None:
    """Of two or three kinds of frames, cut anywhere, the last of which may announce an array that it does not have."""
    kinds = [
        lambda n: transfer(n, b"%04d" % n),
        lambda n: transfer(n, b"%04d" % n, b"xyz"),
        lambda n: disposition(n, n + 1),
        lambda n: disposition(n, n, SHORT_ARRAY) if n == 7 else disposition(n, n, b"\x00\x53\x26\x45"),
    ]
    runs = data.draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 150)), min_size=1, max_size=4))
    sent = AMQP_HEADER + b"".join(kind(number) for kind, count in runs for number in range(count))
    flips = data.draw(st.lists(st.tuples(st.integers(8, 20_000), st.integers(0, 255)), max_size=2))
    sent = AMQP_HEADER + flipped(sent[8:], flips)
    wrong, given = walked(sent)
    assert verdict([sent]) == (wrong, given)
    said, had = verdict(pieces(sent, data.draw(st.lists(st.integers(0, 30_000), max_size=5))))
    assert said == wrong
    assert given <= had <= len(sent)


# -- heads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ENDING_HEADS.values(), ids=ENDING_HEADS.keys())
def test_no_bytes_are_checked_after_a_head_that_ends_the_connection(begin: bytes) -> None:
    data = AMQP_HEADER + framed(TRANSACTED) + begin + framed(ATTACH_OF_NONE) * 3
    assert verdict([data]) == ("", len(data))
    assert verdict(data[at : at + 1] for at in range(len(data))) == ("", len(data))


@pytest.mark.parametrize("channel", [0, 1, 255, 256, 32767, 65535])
@pytest.mark.parametrize("start", [2, 3, 6])
def test_every_channel_and_begin_of_a_body_is_checked(channel: int, start: int) -> None:
    for body, whole in ((ATTACH_OF_NONE, False), (in_state(SHORT_ARRAY), False), (TRANSACTED, True)):
        ahead = bytes(4 * start - 8)
        data = head(4 * start + len(body), start, channel) + ahead + body
        assert verdict([AMQP_HEADER, data])[0] == ("" if whole else CUT_SHORT), body.hex()


def test_largest_frame_is_checked_and_a_larger_one_is_not() -> None:
    for size, wrong in ((MAX_FRAME, "no type has the constructor 0xff"), (MAX_FRAME + 1, "")):
        values = b"\x40" * (size - 8 - 13) + b"\xff"
        body = b"\x00\x53\x12\xd0" + struct.pack(">II", len(values) + 4, len(values)) + values
        data = framed(body + b"\x40" * (size - 8 - len(body)))
        assert len(data) == size
        said, _ = verdict([AMQP_HEADER, data])
        assert said == (wrong and f"more than {frame_check.MOST_VALUES} values")
