"""The id of a message of a queue: its sequence number, its priority, and a checksum of its bytes.

It is the same for as long as the message is in the queue, also after a restart of the broker. Numbers may begin again,
in a queue that was deleted and created again, or after a restart; the checksum distinguishes messages of one number.
"""

from __future__ import annotations

from zlib import crc32

from brokers.admin import InvalidValue
from brokers.engine.values.message import HIGHEST_PRIORITY, USUAL_PRIORITY, number_of, rank_of, sequence_of

#: In place of the checksum of a message whose bytes cannot be read.
UNREADABLE = "unreadable"


def id_of(number: int, body: bytes | None) -> str:
    """`body`: the encoded message; None: it is missing from a damaged store."""
    check = UNREADABLE if body is None else f"{crc32(body):08x}"
    return f"{sequence_of(number)}-{priority_of(number)}-{check}"


def priority_of(number: int) -> int:
    return USUAL_PRIORITY - rank_of(number)


def number_in(text: object) -> int:
    """Return the number of the message with this id. Raises InvalidValue."""
    parts = text.split("-") if isinstance(text, str) else []
    if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts[:2]):
        sequence, priority = int(parts[0][:20]), int(parts[1][:2])
        if sequence < 1 << 48 and priority <= HIGHEST_PRIORITY:
            return number_of(sequence, priority)
    raise InvalidValue({"id": f"id is {str(text)[:80]!r}: it is not the id of a message, such as 17-4-0a1b2c3d"})
