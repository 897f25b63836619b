"""The delivery time in message annotations: `x-opt-delivery-time`, ms since the epoch, which Qpid JMS sends, or
`x-opt-delivery-delay`, ms from the arrival in the queue.

Both are whole numbers of any AMQP type; the time may be a timestamp. Other values are ignored. If both are set, the
time applies, as in ActiveMQ Artemis. Ordinary messages cost only a search for the names in their annotations. Nothing
is decoded, so the depth and size of other values cost nothing.
"""

from __future__ import annotations

from brokers.amqp.annotations import Unreadable, annotations_in, number_in, pairs, with_annotations
from brokers.engine.values.message import LATEST

#: No delivery time and no delay.
NONE = (0, 0)

#: The common beginning of both names.
NAMES = b"x-opt-delivery-"
_TIME, _DELAY = b"x-opt-delivery-time", b"x-opt-delivery-delay"


def requested_time(body: bytes, at: int) -> tuple[int, int]:
    """Return (delivery time, delay) in ms, of which at least one is 0, of a message whose annotations, if any, begin at
    `at`. A past time is returned like any other."""
    try:
        start, end = annotations_in(body, at)
        if body.find(NAMES, start, end) < 0:
            return NONE
        due = delay = None
        for key, value_at, pair_end in pairs(body, start, end):
            if key == _TIME:
                due = _limited(number_in(body[value_at:pair_end]))
            elif key == _DELAY:
                delay = _limited(number_in(body[value_at:pair_end]))
    except Unreadable:
        return NONE
    requested = (0, max(0, delay or 0)) if due is None else (max(0, due), 0)
    return requested if any(requested) else NONE


def with_delivery_time(body: bytes, at: int, due: int) -> bytes:
    """Return the message, whose annotations begin at `at`, with this delivery time, ms since the epoch, in place of its
    own time or delay, and its other annotations unchanged. A message that has no annotations, or cannot be read, is
    returned unchanged."""
    # A long, which is what JMS clients expect here.
    pair = b"\xa3" + bytes([len(_TIME)]) + _TIME + b"\x81" + due.to_bytes(8, "big")
    try:
        annotations_in(body, at)
        return with_annotations(body, at, (_TIME, _DELAY), pair, 1)
    except Unreadable:
        return body


def _limited(number: int | None) -> int | None:
    return None if number is None else min(LATEST, number)
