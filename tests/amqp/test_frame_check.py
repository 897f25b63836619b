"""The quick look at a plain disposition takes nothing that the walk through a performative would not take."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.amqp.frame_check import _is_plain, _Walk

NUMBER = st.sampled_from([b"\x43", b"\x52\x05", b"\x70\x00\x00\x01\x00"])
FLAG = st.sampled_from([b"\x41", b"\x42"])
STATE = st.sampled_from([b"\x40", b"\x00\x53\x24\x45", b"\x00\x53\x26\xc0\x01\x00"])


@st.composite
def dispositions(draw: st.DrawFn) -> bytes:
    fields = [draw(FLAG), *(draw(each) for each in (NUMBER, NUMBER, FLAG, STATE, FLAG)[: draw(st.integers(1, 5))])]
    values = b"".join(fields)
    return b"\x00\x53\x15\xc0" + bytes([len(values) + 1, len(fields)]) + values


@given(dispositions())
def test_a_plain_disposition_is_known(frame: bytes) -> None:
    assert _is_plain(frame, 0, len(frame))


@settings(max_examples=1000)
@given(dispositions(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3), st.binary(max_size=2))
def test_what_is_taken_for_a_plain_disposition_is_what_it_announces(
    frame: bytes, flips: list[tuple[int, int]], more: bytes
) -> None:
    changed = bytearray(frame)
    for at, value in flips:
        changed[at % len(changed)] = value
    data = bytes(changed) + more
    if _is_plain(data, 0, len(data)):
        assert _Walk(data).value(0, len(data), 0) == len(data)
