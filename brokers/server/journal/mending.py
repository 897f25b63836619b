"""A group with one flipped bit in its head or changes, as it was before.

A checksum is linear: the difference that one bit makes depends on its place alone. So the place is found by undoing the
checksum byte by byte, from its end, until the difference is that of one bit. For a group that was never written
completely it hardly ever is: one in some hundred thousand of 4 kB of changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from google_crc32c import extend, value

from brokers.server.journal.groups import HEAD_BYTES, SALT_BYTES, Head, is_sound, read_head

#: Changes up to this size are mended, bytes.
MOST = 64 << 10

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected
#: Where what the checksum covers begins in the head.
_COVERED = 8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = rest >> 1 ^ (_POLYNOMIAL if rest & 1 else 0)
        table.append(rest)
    return table


_TABLE = _table()
#: The highest byte of an entry is of no other.
_INVERSE = {entry >> 24: byte for byte, entry in enumerate(_TABLE)}
#: Difference that a flipped bit of the last byte makes -> the bit.
_LAST_BITS = {_TABLE[1 << bit]: bit for bit in range(8)}


def mended(data: bytes, salt: bytes, sequence: int) -> bytes | None:
    """Return the head and the changes of the group with this sequence that begins with `data`, as they were before one
    bit flipped; None if more is damaged, or there is no such group."""
    for candidate in _with_one_bit_of_the_head(data, salt):
        if (head := read_head(candidate, salt)) is None or head.sequence != sequence:
            continue
        end = HEAD_BYTES + head.change_bytes
        if is_sound(head, salt, candidate[HEAD_BYTES:end]):
            return candidate[:end]
    head = read_head(data, salt)
    if head is None or head.sequence != sequence or head.change_bytes > MOST:
        return None
    return _with_one_bit_of_the_changes(data, salt, head)


def _with_one_bit_of_the_head(data: bytes, salt: bytes) -> Iterator[bytes]:
    if sum((a ^ b).bit_count() for a, b in zip(data, salt[:SALT_BYTES], strict=False)) > 1:
        return  # it does not look like a group
    head = int.from_bytes(data[:HEAD_BYTES], "little")
    for bit in range(8 * HEAD_BYTES):
        yield (head ^ 1 << bit).to_bytes(HEAD_BYTES, "little") + data[HEAD_BYTES:]


def _with_one_bit_of_the_changes(data: bytes, salt: bytes, head: Head) -> bytes | None:
    end = HEAD_BYTES + head.change_bytes
    if len(data) < end:
        return None
    difference = extend(value(salt), data[_COVERED:end]) ^ head.checksum
    for at in range(end - 1, HEAD_BYTES - 1, -1):
        bit = _LAST_BITS.get(difference)
        if bit is not None:
            whole = bytearray(data[:end])
            whole[at] ^= 1 << bit
            return bytes(whole) if is_sound(head, salt, bytes(whole[HEAD_BYTES:])) else None
        byte = _INVERSE[difference >> 24]
        difference = (difference ^ _TABLE[byte]) << 8 | byte
    return None
