"""Probes: one credit for a producer that may or may not want to send, with no room reserved for it.

An AMQP receiver cannot find out whether a sender has messages. The flow frame has `available` and `echo`, but neither
Proton's C library (and with it Python and C++) nor rhea reports messages that wait for credit or answers an echo. Every
client sends when it has credit. So a producer that used none of its credit, or that waits while the room is reserved
for others, gets one credit beyond the room. If it sends, the message is enqueued, or parked if the queue is overfull:
probes do not affect the bound on depth. Idle producers keep their probes at no cost; room is reserved only for
producers that send.

The number of outstanding probes is bounded (`most`). Where there are more producers, probes that were not used for
`PROBE_MS` are passed on.
"""

from __future__ import annotations

from brokers.engine.flow.producer import Producer

#: The shortest time that a producer has a probe before it is passed on, ms.
PROBE_MS = 250
#: The bound on outstanding probes: this many bytes, at the size of the queue's largest message, within the two numbers.
PROBE_BYTES = 64 << 20
FEWEST_PROBES = 64
MOST_PROBES = 1024


class Probes:
    """The producers of one queue that have a probe, the oldest probe first."""

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[Producer, None] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @staticmethod
    def most(size: int) -> int:
        """Return how many probes may be outstanding while messages have up to `size` bytes."""
        return min(MOST_PROBES, max(FEWEST_PROBES, PROBE_BYTES // size))

    def give(self, producer: Producer, now: int) -> None:
        """Grant a probe to a producer without credit."""
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
        """Remove a probe that the producer has used."""
        producer.probing = producer.idle = False
        del self._producers[producer]

    def take_back(self, producer: Producer) -> None:
        """Withdraw a probe. A message in flight on it is late."""
        producer.probing = False
        producer.credit = 0
        producer.lapsed += 1
        del self._producers[producer]

    def forget(self, producer: Producer) -> None:
        """Remove a producer whose link has ended."""
        producer.probing = False
        producer.credit = 0
        self._producers.pop(producer, None)

    def to_pass_on(self, count: int, now: int) -> list[Producer]:
        """Return up to `count` producers that have had their probes for `PROBE_MS`."""
        found: list[Producer] = []
        for producer in self._producers:
            if len(found) >= count or now - producer.touched_at < PROBE_MS:
                break
            found.append(producer)
        return found
