"""How much credit each producer of a queue gets: the bound on overshoot, and that nobody starves.

The rules, which hold for any number of producers:

1. Depth plus reserved credit never exceeds the stop level by more than one message. Reserved is what producers may
   still use: credit they hold, and credit taken back so recently that messages sent before may still arrive.
2. In bytes, a credit is reckoned as the largest message that the queue has seen lately (64 KiB before the first).
   A producer whose messages grow beyond that can overshoot by the credit it holds at that moment; the rest of the
   queue's credit is taken back at once.
3. Producers ask for credit in a line, first come first served; nobody gets more than a fair share of the whole.
   Messages whose outcome is withheld count against it. Rules 1 and 2 are for queues that block; the others give
   everybody the producer's window (`overflow.py`).
4. While somebody in the line has none, holders that have not sent for `HOLD_MS` are asked to give theirs back: a drain
   first, since it is acknowledged; if there is no answer in `DRAIN_MS`, the credit is withdrawn, which nothing
   acknowledges, and stays reserved until `GRACE_MS` of silence have passed.
5. A message on credit that was withdrawn is late, not wrong. It is taken while its reservation lasts. After that it is
   taken if there is room, else it waits outside the queue, unsettled, until there is. A message without any credit
   breaks the protocol.

How real clients answer drains and withdrawals was measured; see `brokers/README.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from brokers.engine.limits import UNLIMITED, Limits
from brokers.engine.producer import Producer

HOLD_MS = 50
DRAIN_MS = 100
GRACE_MS = 250
#: The size to reckon with before a queue has seen a message, in bytes.
UNSEEN_BYTES = 64 * 1024
#: The most credit for a producer that has not sent anything yet.
FIRST_GRANT = 16
#: A queue that nobody has published to for so many sweeps is swept at a tenth of the rate.
QUIET_SWEEPS = 20


class Late(Enum):
    """What a message without credit was sent on."""

    RESERVED = "credit that was taken back, and is still reserved"
    LAPSED = "credit that was taken back so long ago that nothing is reserved for it"
    NEVER = "nothing: its client broke the protocol"


class CreditLedger:
    """The credit of one queue. `reserved`: all credit, in messages, that producers may still use."""

    __slots__ = ("_marked", "_quiet", "largest", "members", "pending", "recent", "reserved", "waiting")

    def __init__(self) -> None:
        self.reserved = 0
        self.members: dict[Producer, None] = {}  # in the order of attaching
        self.waiting: deque[Producer] = deque()  # the line
        self.pending: dict[Producer, None] = {}  # draining, or with withdrawn credit still reserved
        self.largest = 0  # largest message of this minute and the one before, bytes
        self.recent = 0  # largest of this minute
        self._marked = -1
        self._quiet = 0

    def join(self, producer: Producer) -> None:
        self.members[producer] = None
        self.ask(producer)

    def leave(self, producer: Producer) -> None:
        """Forget a producer whose link has gone; its credit is free again."""
        del self.members[producer]
        self.pending.pop(producer, None)
        self.reserved -= producer.credit + producer.withdrawn
        producer.credit = producer.withdrawn = producer.lapsed = 0
        producer.draining = False
        if producer.waiting:
            self.waiting.remove(producer)
            producer.waiting = False

    def ask(self, producer: Producer) -> None:
        """Put a producer at the end of the line, unless it stands there."""
        if not producer.waiting:
            producer.waiting = True
            self.waiting.append(producer)

    def saw(self, producer: Producer, size: int) -> None:
        """Note a message larger than `recent`. If it is larger than all, the next `grant` must look at what is out."""
        self.recent = size
        if size > self.largest:
            self.largest = size
            self.ask(producer)

    def new_minute(self) -> None:
        """Forget sizes that were only seen before the last minute, except on a queue that saw none since."""
        self.largest, self.recent = self.recent or self.largest, 0

    def room(self, limits: Limits, depth_bytes: int, depth_messages: int) -> int:
        """How many credits more may be given out; below 0: so many are too many."""
        room = UNLIMITED
        if not limits.bounded:
            return room
        if limits.stop_messages != UNLIMITED:
            room = limits.stop_messages + 1 - depth_messages - self.reserved
        if limits.stop_bytes != UNLIMITED:
            fit = (limits.stop_bytes - depth_bytes) // (self.largest or UNSEEN_BYTES)
            room = min(room, max(0, fit) + 1 - self.reserved)
        return room

    def share(self, limits: Limits) -> int:
        """The most credit that one producer may hold now."""
        if not limits.bounded:
            return limits.window
        whole = limits.window * (len(self.members) + 1)
        if limits.stop_messages != UNLIMITED:
            whole = min(whole, limits.stop_messages + 1)
        if limits.stop_bytes != UNLIMITED:
            whole = min(whole, limits.stop_bytes // (self.largest or UNSEEN_BYTES) + 1)
        return max(1, min(limits.window, whole // (len(self.members) + 1)))

    def grant(self, limits: Limits, depth_bytes: int, depth_messages: int, now: int) -> list[Producer]:
        """Give credit to those in the line while there is room. Returns the producers whose credit has changed."""
        room = self.room(limits, depth_bytes, depth_messages)
        if room < 0:
            return self.withdraw(now, -room - sum(p.withdrawn for p in self.pending))
        waiting = self.waiting
        changed: list[Producer] = []
        if not waiting or not room:
            return changed
        share = self.share(limits)
        while waiting and room > 0:
            producer = waiting.popleft()
            producer.waiting = False
            most = share if producer.messages else min(share, FIRST_GRANT)
            more = min(most - producer.credit - len(producer.line), room)
            if more <= 0 or producer.draining:
                producer.low = producer.credit >> 1
                continue
            # What is still reserved for messages on their way serves for the new credit as well.
            again = min(more, producer.withdrawn)
            producer.withdrawn -= again
            producer.lapsed = max(0, producer.lapsed - more)
            producer.credit += more
            producer.low = producer.credit >> 1
            producer.mark = -1
            producer.touched_at = now
            self.reserved += more - again
            room -= more - again
            changed.append(producer)
        return changed

    @property
    def contended(self) -> bool:
        """Somebody in the line has no credit, while others hold some. Only meaningful when there is no room."""
        return bool(self.waiting) and self.reserved > 0

    def withdraw(self, now: int, count: int | None = None) -> list[Producer]:
        """Take back all credit, or at least `count`. Returns the producers whose credit has changed."""
        changed = []
        for producer in self.members:
            if count is not None and count <= 0:
                break
            if producer.credit:
                if count is not None:
                    count -= producer.credit
                self._withdraw(producer, now)
                changed.append(producer)
        return changed

    def _withdraw(self, producer: Producer, now: int) -> None:
        producer.withdrawn += producer.credit
        producer.credit = 0
        producer.draining = False
        producer.touched_at = now
        producer.mark = producer.messages
        self.pending[producer] = None
        self.ask(producer)

    def returned(self, producer: Producer, count: int) -> None:
        """The producer answered a drain: it gave back `count`."""
        count = min(count, producer.credit)
        producer.credit -= count
        self.reserved -= count
        producer.draining = False
        if not producer.withdrawn:
            self.pending.pop(producer, None)
        self.ask(producer)

    def late(self, producer: Producer) -> Late:
        """A message came on no credit: use what it was sent on, if that was taken back."""
        if producer.withdrawn:
            producer.withdrawn -= 1
            self.reserved -= 1
            return Late.RESERVED
        if producer.lapsed:
            producer.lapsed -= 1
            return Late.LAPSED
        return Late.NEVER

    def sweep(self, now: int, published: int, *, contended: bool) -> tuple[list[Producer], list[Producer]]:
        """What time does; called every `HOLD_MS` or so while credit is contended or pending. `published`: messages
        ever enqueued. Returns (producers to drain, producers whose credit has changed)."""
        changed = [p for p in self.pending if p.draining and now - p.touched_at >= DRAIN_MS]
        for producer in changed:
            self._withdraw(producer, now)
        for producer in list(self.pending):
            if producer.withdrawn:
                self._lapse(producer, now)
            elif not producer.draining:
                del self.pending[producer]
        drain: list[Producer] = []
        if contended and not self._resting(published):
            drain = [p for p in self.members if self._idle(p, now)]
            for producer in drain:
                producer.draining = True
                producer.touched_at = now
                self.pending[producer] = None
        return drain, changed

    def _lapse(self, producer: Producer, now: int) -> None:
        """End the reservation of withdrawn credit after a silence."""
        if producer.mark != producer.messages and not producer.credit:
            producer.mark, producer.touched_at = producer.messages, now
        elif now - producer.touched_at >= GRACE_MS:
            self.reserved -= producer.withdrawn
            producer.lapsed += producer.withdrawn
            producer.withdrawn = 0
            self.pending.pop(producer, None)

    def _idle(self, producer: Producer, now: int) -> bool:
        if not producer.credit or producer.draining or now - producer.touched_at < HOLD_MS:
            return False
        if producer.mark != producer.messages:
            producer.mark = producer.messages
            return False
        return True

    def _resting(self, published: int) -> bool:
        self._quiet = self._quiet + 1 if published == self._marked else 0
        self._marked = published
        return self._quiet > QUIET_SWEEPS and self._quiet % 10 != 0


def draining(producers: Iterable[Producer]) -> int:
    """How many of the producers may still have messages on their way on credit that was taken back."""
    return sum(1 for p in producers if p.withdrawn or (p.draining and p.credit))
