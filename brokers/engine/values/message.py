"""A message of a queue: opaque bytes, a number, and the fields of its header that the queue uses.

The number has the priority in its upper bits, so that messages are ordered by number alone, in memory, in a backlog and
in a store: the message with the lower number goes first. It is a signed 64-bit integer; for a message of the default
priority it equals the sequence number.
"""

from __future__ import annotations

from typing import NamedTuple

#: (number in the queue, encoded message). A bare tuple, since one is made for every message.
Message = tuple[int, bytes]

#: Later than any time, ms.
NEVER = 1 << 62

#: The latest delivery time, and the longest delay, ms: the beginning of the year 9999, which every program can display.
LATEST = 253_370_764_800_000

#: Added to the expiry of a stored message whose body has a delivery time. Above the expiry of any message.
DELAYED = 1 << 61

#: The default priority, and the highest; 0 to 9, the highest first, as in AMQP 1.0 and JMS. Higher values count as 9.
USUAL_PRIORITY, HIGHEST_PRIORITY = 4, 9

#: After the n-th start that could not read all of a store, the sequence numbers of its queues go on at n times this:
#: messages that can be read again later have lower ones than those that have arrived meanwhile. A queue hardly gets as
#: many messages in its life. And how often that is done.
LEFT_OUT, MOST_LEFT_OUT = 1 << 40, 250

_SEQUENCE_BITS = 48
_SEQUENCE = (1 << _SEQUENCE_BITS) - 1


class Header(NamedTuple):
    """The header fields that a queue uses. `ttl`: ms from arrival to expiry; 0: never. `due`: the delivery time, before
    which the message is invisible, ms since the epoch; `delay`: the same in ms from arrival; 0: none."""

    durable: bool = False
    priority: int = USUAL_PRIORITY
    ttl: int = 0
    due: int = 0
    delay: int = 0


#: The header of nearly every transient message: compared by identity, since the check is done for every message.
PLAIN = Header()


def number_of(sequence: int, priority: int) -> int:
    """Return the number of a message with this sequence number and priority."""
    return ((USUAL_PRIORITY - priority) << _SEQUENCE_BITS) + sequence


def sequence_of(number: int) -> int:
    return number & _SEQUENCE


def rank_of(number: int) -> int:
    """Return the rank of its priority, lower ranks first: 0 for the default priority, negative for higher ones."""
    return number >> _SEQUENCE_BITS
