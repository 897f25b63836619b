"""What a dead-letter queue gets: the message as it was sent, with annotations that say where it comes from and why.

Sections are put together as bytes; the only one that is ever decoded are message annotations that speak of an earlier
dead-letter queue, or a delivery time. That and the time to live go: a dead letter is to be seen, at once and for ever.
"""

from __future__ import annotations

from typing import Any

from proton import Data, Described, symbol, ulong

from brokers.amqp import proton as pn
from brokers.amqp.header import without_ttl

#: Annotations of a dead letter: why ("rejected" or "maximum-deliveries"), the queue it was in, how often its delivery
#: had failed there, and what the consumer that rejected it said.
REASON, SOURCE, FAILED, SAID = (
    symbol(f"x-opt-dead-letter-{name}") for name in ("reason", "queue", "failed-deliveries", "description")
)

_DELIVERY = (symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay"))

_DELIVERY_ANNOTATIONS, _MESSAGE_ANNOTATIONS = b"\x00\x53\x71", b"\x00\x53\x72"


def as_dead_letter(body: bytes, reason: str, queue: str, failed: int, said: str) -> bytes:
    """See the module. A message that cannot be read is returned as it is."""
    parts = without_ttl(body)
    if parts is None:
        return body
    header, rest = parts
    marks = {REASON: reason, SOURCE: queue, FAILED: failed, **({SAID: said} if said else {})}
    try:
        before = pn.decode_first(rest)[0] if rest.startswith(_DELIVERY_ANNOTATIONS) else 0
        length, old = 0, dict[Any, Any]()
        if rest.startswith(_MESSAGE_ANNOTATIONS, before):
            length, section = pn.decode_first(memoryview(rest)[before:])
            old = {name: value for name, value in (section.value or {}).items() if name not in _DELIVERY}
        annotations = Data()
        annotations.put_object(Described(ulong(0x72), {**old, **marks}))
        return header + rest[:before] + bytes(annotations.encode()) + rest[before + length :]
    except (ValueError, TypeError, AttributeError):
        return body
