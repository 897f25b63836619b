"""Checksums of what the stores keep: SQLite has none of its own, and would hand out a body with a flipped byte.

A message has two. Its *mark* is of its place, size, failed deliveries and expiry, and stands in the index beside them,
so that a start which touches no body can verify what it reads. That of its *body* is bound to the same place, so that
an index entry that points to another message's row is found as well.
"""

from __future__ import annotations

import struct
from zlib import crc32

PLACE = struct.Struct("<qqqqq").pack


def place_mark(queue: int, number: int, size: int, failed: int, expires: int) -> int:
    """Of what the index says of a message."""
    return crc32(PLACE(queue, number, size, failed, expires))


def body_checksum(queue: int, number: int, expires: int, body: bytes) -> int:
    """Of a message's body at this place."""
    return crc32(body, crc32(PLACE(queue, number, len(body), 0, expires)))


def texts_checksum(*values: str | int) -> int:
    """Of the columns of a row, which are texts and numbers."""
    return crc32("\0".join(map(str, values)).encode())
