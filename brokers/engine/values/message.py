"""A message as a queue knows it: opaque bytes, a number that keeps its place for ever, and what its header asks for.

The number holds the priority in its upper bits, so that numbers alone tell the order, in memory, in a backlog and in a
store: of two messages the one with the lower number goes first. It is an integer of 64 bits with a sign; a message of
the usual priority has its plain place in the sequence of all that came.
"""

from __future__ import annotations

from typing import NamedTuple

#: (number in the queue, encoded message). A bare tuple, since one is made for every message.
Message = tuple[int, bytes]

#: Later than any time, ms.
NEVER = 1 << 62

#: The latest delivery time, and the longest delay, ms: the beginning of the year 9999, which every program can show.
LATEST = 253_370_764_800_000

#: Beside the expiry of a stored message: its body says when it is due. Not below the expiry of any message.
DELAYED = 1 << 61

#: What a message has that does not say; 0 to 9, the highest first, as in AMQP 1.0 and JMS. What is higher counts as 9.
USUAL_PRIORITY, HIGHEST_PRIORITY = 4, 9

_SEQUENCE_BITS = 48
_SEQUENCE = (1 << _SEQUENCE_BITS) - 1


class Header(NamedTuple):
    """What a message asks of its queue. `ttl`: ms from its arrival until it expires; 0: never. `due`: the time of day
    before which it is not to be seen, ms since the epoch; `delay`: the same in ms from its arrival; 0: at once."""

    durable: bool = False
    priority: int = USUAL_PRIORITY
    ttl: int = 0
    due: int = 0
    delay: int = 0


#: What nearly every message that is not durable asks: compared by identity, since it is asked for every message.
PLAIN = Header()


def number_of(sequence: int, priority: int) -> int:
    """The number of the message that came as so manieth to its queue."""
    return ((USUAL_PRIORITY - priority) << _SEQUENCE_BITS) + sequence


def sequence_of(number: int) -> int:
    return number & _SEQUENCE


def rank_of(number: int) -> int:
    """The lower, the earlier it goes: 0 for the usual priority, below 0 for higher ones."""
    return number >> _SEQUENCE_BITS
