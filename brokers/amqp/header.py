"""The header section of an encoded message: tell the receiver how often its delivery has failed before.

Only the header is written anew; every other byte of the message stays what the producer sent.
"""

from __future__ import annotations

from proton import Described, ubyte, uint, ulong

from brokers.amqp import proton as pn

_HEADER = 0x70
_FIELDS = 5  # durable, priority, ttl, first-acquirer, delivery-count


def with_failed_deliveries(body: bytes, count: int) -> bytes:
    """The message with `delivery-count` set; a message that cannot be read is returned as it is."""
    fields: list[object] = []
    rest = body
    if _has_header(body):
        try:
            length, header = pn.decode_first(body)
        except ValueError:
            return body
        fields = list(header.value)
        rest = body[length:]
    fields += [None] * (_FIELDS - len(fields))
    fields[3:5] = [False, uint(count)]
    if fields[1] is not None:
        fields[1] = ubyte(int(str(fields[1])))
    if fields[2] is not None:
        fields[2] = uint(int(str(fields[2])))
    return pn.encode(Described(ulong(_HEADER), fields)) + rest


def _has_header(body: bytes) -> bool:
    return body[:3] == b"\x00\x53\x70" or body[:10] == b"\x00\x80" + _HEADER.to_bytes(8, "big")
