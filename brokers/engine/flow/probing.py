"""Probe credit: one credit for a producer that may or may not want to send, with nothing reserved for it.

A receiver cannot ask an AMQP sender what it has. `available` and `echo` are in the flow frame, but Proton's C library
(and with it Python and C++) neither reports the messages that wait for credit nor answers an echo, and neither does
rhea. What every client does is to send when it has credit. So a producer that used none of its credit, or that waits
while the room is reserved for others, gets one credit beyond the room. If it sends, its message goes in while the queue
is not overfull, and else waits outside, unsettled: the bound on depth does not depend on who holds probes. Idle
producers keep theirs for as long as nothing happens, which costs nothing; room is reserved only for those that send.

How many messages may come that way at once is bounded: `most` probes are out at a time, and where there are more
producers than that, those that did not use theirs for `PROBE_MS` pass them on.
"""

from __future__ import annotations

from brokers.engine.flow.producer import Producer

#: How long a producer keeps its probe, at the least, while others wait for one.
PROBE_MS = 250
#: Probes out at a time: so many bytes, reckoned with the queue's largest message, within these numbers.
PROBE_BYTES = 64 << 20
FEWEST_PROBES = 64
MOST_PROBES = 1024


class Probes:
    """The producers of one queue that hold a probe, the oldest probe first."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[Producer, None] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @staticmethod
    def most(size: int) -> int:
        """How many may be out at a time where messages have up to `size` bytes."""
        return min(MOST_PROBES, max(FEWEST_PROBES, PROBE_BYTES // size))

    def give(self, producer: Producer, now: int) -> None:
        """The producer has no credit."""
        producer.probing = True
        producer.idle = True
        producer.credit = 1
        producer.low = 0
        producer.lapsed = max(0, producer.lapsed - 1)
        producer.mark = producer.messages
        producer.touched_at = now
        producer.without_since = None
        self._producers[producer] = None

    def used(self, producer: Producer) -> None:
        """The producer has sent on it."""
        producer.probing = producer.idle = False
        del self._producers[producer]

    def take_back(self, producer: Producer) -> None:
        """Withdraw it. A message that was sent before the client knows is late, and nothing is reserved for it."""
        producer.probing = False
        producer.credit = 0
        producer.lapsed += 1
        del self._producers[producer]

    def forget(self, producer: Producer) -> None:
        """Its link has gone."""
        producer.probing = False
        producer.credit = 0
        self._producers.pop(producer, None)

    def to_pass_on(self, count: int, now: int) -> list[Producer]:
        """Up to `count` producers that have kept their probes for long enough."""
        found: list[Producer] = []
        for producer in self._producers:
            if len(found) >= count or now - producer.touched_at < PROBE_MS:
                break
            found.append(producer)
        return found
