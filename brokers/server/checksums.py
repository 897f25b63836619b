"""Checksums of stored rows: SQLite has none of its own, and would return a body with a flipped byte.

A message has two. Its *mark* covers its place, size, failed deliveries and expiry, and is in the index beside them, so
that a start which reads no body can verify its input. The checksum of its *body* covers the same place, so that an
index entry that refers to another message's row is detected, too.
"""

from __future__ import annotations

import struct
from zlib import crc32

PLACE = struct.Struct("<qqqqq").pack


def place_mark(queue: int, number: int, size: int, failed: int, expires: int) -> int:
    """Return the checksum of a message's values in the index."""
    return crc32(PLACE(queue, number, size, failed, expires))


def body_checksum(queue: int, number: int, expires: int, body: bytes) -> int:
    """Return the checksum of a message's body at this place."""
    return crc32(body, crc32(PLACE(queue, number, len(body), 0, expires)))


def texts_checksum(*values: str | int) -> int:
    """Return the checksum of the columns of a row, which are texts and numbers."""
    return crc32("\0".join(map(str, values)).encode())
