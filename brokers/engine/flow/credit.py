"""How much credit each producer of a queue gets: enough to keep it busy, and none for producers that do not send.

Credit does not enforce the bound on depth: messages that arrive while the queue is overfull are parked (`overflow.py`).
Credit keeps their number low, shares the room fairly and reaches every producer in bounded time. The rules, for any
number of producers:

1. Depth plus reserved credit exceeds the stop level by one message at most. Reserved credit is what producers may still
   use: outstanding credit, and credit withdrawn so recently that messages sent on it may still arrive.
2. In bytes, one credit counts as the largest message that the queue received lately (64 KiB before the first message).
   When messages grow beyond that, excess credit is withdrawn at once; messages already in flight on it are parked.
3. Producers request credit and wait in a first-come, first-served list; none gets more than a fair share of the whole.
   Messages with withheld settlements count against the share. Rules 1 and 2 apply to queues that block and to queues
   that withhold settlements; the latter have a tenth of the stop level more room (`Limits.withheld_messages`). With the
   other overflow policies (`overflow.py`) each producer has its window: a number of messages, and no more than fit into
   a number of bytes, counted as in rule 2 (ActiveMQ's ProducerWindowSize).
4. While producers wait for credit, producers with credit that have not sent for `IDLE_CREDIT_MS` are drained: the
   answer confirms that the credit is unused. Without an answer in `DRAIN_TIMEOUT_MS` the credit is withdrawn, which
   AMQP does not confirm, so it stays reserved for `GRACE_MS`, and after each message that comes later than the
   withdrawal for twice as long as that has taken: at least `SHORTEST_GRACE_MS`, at most `GRACE_MS`.
5. A producer that returned unused credit is idle and gets a probe instead: one credit with nothing reserved for it
   (`probing.py`). After the first message on a probe, the producer requests credit again. A producer that has waited
   for `IDLE_CREDIT_MS` without any credit also gets a probe. There are probes for some hundred producers at a time;
   where there are more producers, probes are passed on. If there is room and no producer waits, producers that have had
   their probes for `PROBE_MS` share half of the room: some clients send only when they have credit for several
   messages, for example for a transaction.
6. A message on withdrawn credit is late, which is no protocol error. It is enqueued unless the queue is overfull; then
   it is parked, unsettled. While an operator's stop or a shortage applies, every late message is parked. A message
   without any credit is a protocol error.
7. A client that is drained and whose credit is withdrawn before it answers may use that credit once more (Proton's C
   library does, if both arrive together). Such messages are late as well.

So a producer that wants to send gets credit within a few `IDLE_CREDIT_MS` (with more producers than probes: within one
`PROBE_MS` for each `Probes.most` producers), or it is blocked, with a reason. `brokers/README.md` has measurements of
how clients answer drains and withdrawals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from brokers.engine.flow.metering import Footprint, Meter
from brokers.engine.flow.probing import Probes
from brokers.engine.flow.producer import Producer
from brokers.engine.values.limits import UNLIMITED, Limits

IDLE_CREDIT_MS = 50
DRAIN_TIMEOUT_MS = 100
GRACE_MS = 250
SHORTEST_GRACE_MS = 100
#: The message size assumed before the first message, in bytes.
DEFAULT_MESSAGE_BYTES = 64 * 1024
#: The message size assumed before the first message while a limit beyond the queue's has little left, in bytes.
DEFAULT_LARGEST_BYTES = 4 << 20
#: The most credit for a producer that has not sent anything yet.
FIRST_GRANT = 16
#: The most late messages of rule 7 that one producer may send.
MOST_DOUBTFUL = 1000
#: After this number of sweeps without a message, in which every producer had credit, only every tenth sweep acts.
QUIET_SWEEPS = 20


class Late(Enum):
    """Which credit a message was sent on whose producer has none."""

    RESERVED = "withdrawn credit that is still reserved"
    LAPSED = "withdrawn credit that is no longer reserved"
    NEVER = "none: a protocol error"


class CreditLedger:
    """The credit of one queue. `reserved`: credit that producers may still use, in messages. `granted`: all credit ever
    granted. `footprint`: what the queue uses of the limits beyond its own, see `metering.py`."""

    __slots__ = (
        "_marked",
        "_probed_at",
        "_prompted",
        "_quiet",
        "footprint",
        "granted",
        "idle",
        "largest",
        "members",
        "pending",
        "probes",
        "recent",
        "reserved",
        "waiting",
    )

    def __init__(self) -> None:
        self.footprint = Footprint(Meter())
        self.reserved = 0
        self.granted = 0
        self.members: dict[Producer, None] = {}  # in the order of attaching
        self.waiting: deque[Producer] = deque()  # for credit
        self.idle: deque[Producer] = deque()  # returned credit unused, and wait for a probe
        self.pending: dict[Producer, None] = {}  # draining, or with withdrawn credit still reserved
        self.probes = Probes()
        self._probed_at = 0  # when idle producers were served last, ms
        self.largest = 0  # largest message of the current and the last minute, bytes
        self.recent = 0  # largest message of the current minute, bytes
        self._marked = -1
        self._quiet = 0
        self._prompted = 0  # producers drained or probed since the last message

    def join(self, producer: Producer) -> None:
        self.members[producer] = None
        self.request(producer)

    def leave(self, producer: Producer) -> None:
        """Remove a producer whose link has ended, and release its credit."""
        del self.members[producer]
        self.pending.pop(producer, None)
        if producer.probing:
            self.probes.forget(producer)
        self.reserved -= producer.credit + producer.withdrawn
        producer.credit = producer.withdrawn = producer.lapsed = producer.doubtful = 0
        producer.draining = False
        if producer.waiting:
            (self.idle if producer.idle else self.waiting).remove(producer)
            producer.waiting = False
        producer.idle = False
        producer.without_since = None

    def request(self, producer: Producer) -> None:
        """Append a producer to the waiting list, unless it already waits or has an unused probe."""
        if producer.probing:
            if producer.credit:
                return
            self.probes.used(producer)
            self.reserved += 1  # the message subtracted it, and probes are never reserved
        if not producer.waiting:
            producer.waiting = True
            producer.idle = False
            self.waiting.append(producer)

    def _requeue(self, producer: Producer) -> None:
        """Make a producer whose credit was withdrawn wait: for credit if it sent, for a probe if it did not."""
        if producer.mark != producer.messages:
            self.request(producer)
        elif not (producer.idle and producer.waiting):
            if producer.waiting:
                self.waiting.remove(producer)
            producer.waiting = producer.idle = True
            self.idle.append(producer)

    def note_size(self, producer: Producer, size: int) -> None:
        """Record a message larger than `recent`. If it is the largest, the next `grant` checks the outstanding
        credit."""
        self.recent = size
        if size > self.largest:
            self.largest = size
            self.request(producer)

    def new_minute(self) -> None:
        """Forget sizes from before the last minute, unless no message has arrived since."""
        self.largest, self.recent = self.recent or self.largest, 0

    def room(self, limits: Limits, depth_bytes: int, depth_messages: int) -> int:
        """Return the credits that may still be granted; if negative, the credits to withdraw."""
        room = UNLIMITED
        if not limits.bounded:
            return room
        if limits.stop_messages != UNLIMITED:
            room = limits.stop_messages + limits.withheld_messages + 1 - depth_messages - self.reserved
        if limits.stop_bytes != UNLIMITED:
            fit = (limits.stop_bytes + limits.withheld_bytes - depth_bytes) // (self.largest or DEFAULT_MESSAGE_BYTES)
            room = min(room, max(0, fit) + 1 - self.reserved)
        return room

    def share(self, limits: Limits) -> int:
        """Return the most credit that one producer may have. Idle producers do not reduce the shares of others."""
        window = limits.window
        if limits.window_bytes:
            window = max(1, min(window, limits.window_bytes // (self.largest or DEFAULT_MESSAGE_BYTES)))
        if not limits.bounded:
            return window
        active = len(self.members) - len(self.idle) - len(self.probes)
        whole = window * (active + 1)
        if limits.stop_messages != UNLIMITED:
            whole = min(whole, limits.stop_messages + limits.withheld_messages + 1)
        if limits.stop_bytes != UNLIMITED:
            whole = min(
                whole, (limits.stop_bytes + limits.withheld_bytes) // (self.largest or DEFAULT_MESSAGE_BYTES) + 1
            )
        return max(1, min(window, whole // (active + 1)))

    def grant(
        self, limits: Limits, depth_bytes: int, depth_messages: int, now: int, most: int = UNLIMITED
    ) -> list[Producer]:
        """Grant credit, at most `most`, to waiting producers while there is room, and probes to idle producers. Return
        the producers whose credit changed."""
        free = self.room(limits, depth_bytes, depth_messages)
        room = min(most, free)
        if room < 0:
            return self.withdraw(now, -room - sum(p.withdrawn for p in self.pending))
        changed: list[Producer] = []
        before = self.granted
        if free == UNLIMITED and self.idle:
            self._requeue_idle()  # no limit: idle producers need no probes
        if room and self.waiting:
            room = self._serve(self.share(limits), room, now, changed)
        if (
            self.idle and not 0 <= now - self._probed_at < IDLE_CREDIT_MS
        ):  # limits flow frames on a queue that fills at once
            self._probed_at = now
            self._serve_idle(room, most - (self.granted - before), now, changed)
        elif room and self.probes and not self.waiting and not self.idle:
            self._raise(self._part_of_probes(limits, room), now, changed)
        return changed

    def _part_of_probes(self, limits: Limits, room: int) -> int:
        """Return the credit that may replace each probe; below 2: none. 0 while the limits beyond the queue's have no
        room for it, so that the queue is not swept for as long as they are short."""
        left = self.footprint.left()
        if left != UNLIMITED and left < 2 * (self.largest or DEFAULT_LARGEST_BYTES):
            return 0
        return min(self.share(limits), FIRST_GRANT, room // 2 // len(self.probes))

    def may_raise(self, limits: Limits, depth_bytes: int, depth_messages: int) -> bool:
        """Return whether probes will be replaced by credit after `PROBE_MS` without a message."""
        if not self.probes or self.waiting or self.idle:
            return False
        return self._part_of_probes(limits, self.room(limits, depth_bytes, depth_messages)) > 1

    def _raise(self, most: int, now: int, changed: list[Producer]) -> None:
        """Replace probes older than `PROBE_MS` by credit, up to `most` each."""
        if most < 2:
            return
        for producer in self.probes.to_pass_on(len(self.probes), now):
            more = min(most - 1, self._affordable(producer))
            if producer.denied_credit or producer.draining or more < 1:
                continue
            self.probes.used(producer)
            self.reserved += 1  # the probe becomes reserved credit
            self._give(producer, more, now)
            self.pledge()
            changed.append(producer)

    def grant_withheld(
        self, limits: Limits, depth_bytes: int, depth_messages: int, now: int, most: int
    ) -> list[Producer]:
        """Grant credit, at most `most`, for the extra room of an overfull queue that withholds settlements; withdraw
        credit if more is outstanding than there is room for. No probes: all its producers are blocked, with a reason.
        Return the producers whose credit changed."""
        changed: list[Producer] = []
        room = min(most, self.room(limits, depth_bytes, depth_messages))
        if room < 0:  # the limit was lowered, messages have grown, or some came on probes
            return self.withdraw(now, -room - sum(p.withdrawn for p in self.pending))
        if room > 0:
            self._serve(self.share(limits), room, now, changed)
        return changed

    def _serve(self, share: int, room: int, now: int, changed: list[Producer]) -> int:
        """Grant waiting producers their shares while there is room. Return the remaining room."""
        waiting = self.waiting
        while room > 0 and waiting:
            producer = waiting.popleft()
            producer.waiting = False
            if producer.denied_credit:
                continue  # it requests credit again when the shortage ends
            most = share if producer.messages else min(share, FIRST_GRANT)
            wanted = most - producer.credit - producer.unsettled
            wanted = min(wanted, self._affordable(producer))
            more = min(wanted, room)
            if more <= 0 or producer.draining:
                producer.low = producer.credit >> 1
                continue
            room -= self._give(producer, more, now)
            changed.append(producer)
            self.pledge()
            if more < wanted:  # the rest follows when there is room
                self.request(producer)
        return room

    def _give(self, producer: Producer, more: int, now: int) -> int:
        """Grant and reserve credit. Return by how much the reserved credit grows."""
        # Credit still reserved for messages in flight covers the new credit.
        again = min(more, producer.withdrawn)
        producer.withdrawn -= again
        producer.lapsed = max(0, producer.lapsed - (more - again))
        producer.credit += more
        producer.low = producer.credit >> 1
        producer.mark = producer.messages
        producer.touched_at = now
        producer.without_since = None
        self.reserved += more - again
        self.granted += more
        return more - again

    def _serve_idle(self, room: int, most: int, now: int, changed: list[Producer]) -> None:
        """Grant idle producers one credit each: probes, and reserved credit once the probes are used up."""
        idle = self.idle
        probes = min(most, self.free_probes)
        while idle and (probes > 0 or room > 0):
            producer = idle.popleft()
            producer.waiting = False
            if producer.denied_credit:
                producer.idle = False
                continue  # it requests credit again when the shortage ends
            if producer.credit:  # it answered a drain by half
                producer.low = producer.credit >> 1
                continue
            if probes > 0:
                probes -= 1
                self._probe(producer, now)
            else:
                room -= self._give(producer, 1, now)
                self.pledge()
            changed.append(producer)

    def _probe(self, producer: Producer, now: int) -> None:
        self.probes.give(producer, now)
        self.granted += 1
        self._prompted += 1

    @property
    def free_probes(self) -> int:
        """Return how many more probes may be outstanding."""
        return self.probes.most(self.largest or DEFAULT_MESSAGE_BYTES) - len(self.probes)

    def _requeue_idle(self) -> None:
        """Move idle producers to the waiting list."""
        idle, self.idle = self.idle, deque()
        for producer in idle:
            producer.idle = False
        self.waiting.extend(idle)

    def pledge(self) -> None:
        """Count what may still arrive on outstanding credit. Probes do not count: each producer may always send one
        message."""
        self.footprint.pledge(self.reserved, self.largest or DEFAULT_MESSAGE_BYTES)

    def _affordable(self, producer: Producer) -> int:
        """Return the most credit that the limits beyond the queue's allow the producer: half of what is left, so that
        other producers get some, and at least one message."""
        left = self.footprint.left(self.footprint.transient if producer.messages and not producer.persistent else None)
        if left == UNLIMITED:
            return UNLIMITED
        one = 1 - producer.credit - producer.unsettled
        return max(one, left // (2 * (self.largest or DEFAULT_LARGEST_BYTES)))

    @property
    def contended(self) -> bool:
        """Whether producers wait while others have credit. Meaningful only while there is no room."""
        return self.reserved > 0 and bool(self.waiting or self.idle)

    def withdraw(self, now: int, count: int | None = None) -> list[Producer]:
        """Withdraw all credit, or at least `count` of the reserved credit. Return the producers whose credit
        changed."""
        changed = []
        for producer in self.members:
            if count is not None and count <= 0:
                break
            if not producer.credit or (producer.probing and count is not None):
                continue
            changed.append(producer)
            if producer.probing:
                self._unprobe(producer)
                continue
            if count is not None:
                count -= producer.credit
            if now - producer.touched_at >= IDLE_CREDIT_MS:
                self._requeue(producer)
            else:
                self.request(producer)
            self._withdraw(producer, now)
        return changed

    def withdraw_from(self, producer: Producer, now: int) -> None:
        """Withdraw all credit of one producer."""
        if producer.probing:
            self._unprobe(producer)
            return
        self._withdraw(producer, now)
        self.request(producer)

    def _unprobe(self, producer: Producer) -> None:
        """Withdraw a probe; the producer waits for its next one."""
        self.probes.take_back(producer)
        producer.waiting = producer.idle = True
        self.idle.append(producer)

    def _withdraw(self, producer: Producer, now: int) -> None:
        if producer.draining:
            producer.doubtful = min(producer.doubtful + producer.credit, MOST_DOUBTFUL)
        producer.withdrawn += producer.credit
        producer.credit = 0
        producer.draining = False
        producer.touched_at, producer.withdrawn_at = now, None
        producer.mark = producer.messages
        self.pending[producer] = None

    def returned(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the producer returned in answer to a drain."""
        if producer.probing:  # a delayed answer: it also returns the probe granted since
            if count > 0:
                self._unprobe(producer)
            return
        count = min(count, producer.credit)
        producer.credit -= count
        self.reserved -= count
        producer.draining = False
        if not producer.withdrawn:
            self.pending.pop(producer, None)
        self._requeue(producer)

    def forgone(self, producer: Producer, count: int) -> bool:
        """Take back credit that the client has used up without sending; messages that still arrive on it are late.
        Return False if the producer has no credit."""
        count = min(count, producer.credit)
        if count <= 0:
            return False
        if producer.probing:
            self._unprobe(producer)
            return True
        producer.credit -= count
        producer.lapsed += count
        self.reserved -= count
        self._requeue(producer)
        return True

    def late(self, producer: Producer, now: int) -> Late:
        """Return the withdrawn credit that a message without credit was sent on, and use it up. The rest stays reserved
        from this message on, not from the next sweep on. The caller counts the message."""
        if producer.idle and producer.waiting:
            self.idle.remove(producer)
            producer.waiting = False
            self.request(producer)
        if producer.withdrawn:
            producer.withdrawn -= 1
            if not producer.draining:  # then `_requeue` looks whether it has sent since
                self._go_on_reserving(producer, now)
                producer.mark = producer.messages + 1
            self.reserved -= 1
            return Late.RESERVED
        if producer.lapsed:
            producer.lapsed -= 1
            return Late.LAPSED
        if producer.doubtful:
            producer.doubtful -= 1
            return Late.LAPSED
        return Late.NEVER

    def sweep(
        self, now: int, published: int, *, contended: bool, most: int = UNLIMITED
    ) -> tuple[list[Producer], list[Producer]]:
        """Drain idle producers and end reservations. Called about every `IDLE_CREDIT_MS` while credit is contended or
        pending. `published`: messages ever enqueued. `most`: probes that may be granted. Return (producers to drain,
        producers whose credit changed)."""
        changed = [p for p in self.pending if p.draining and now - p.touched_at >= DRAIN_TIMEOUT_MS]
        for producer in changed:
            self._requeue(producer)
            self._withdraw(producer, now)
        for producer in list(self.pending):
            if producer.withdrawn:
                self._lapse(producer, now)
            elif not producer.draining:
                del self.pending[producer]
        if not contended:
            return [], changed
        rests = self._resting(published)
        changed += self._probe_the_starving(now, most, rests=rests)
        if rests:
            return [], changed
        drain = [p for p in self.members if self._unused(p, now)]
        for producer in drain:
            producer.draining = True
            producer.touched_at = now
            self.pending[producer] = None
        self._prompted += len(drain)
        return drain, changed

    def _probe_the_starving(self, now: int, most: int, *, rests: bool) -> list[Producer]:
        """Grant probes to producers that have waited for `IDLE_CREDIT_MS` without any credit, if necessary those of
        idle producers. While the queue rests, idle producers do not pass probes on to each other."""
        starving = []
        for producer in self.waiting:
            if not producer.credit and not producer.receipts and not producer.denied_credit:
                if producer.without_since is None:
                    producer.without_since = now
                elif now - producer.without_since >= IDLE_CREDIT_MS:
                    starving.append(producer)
        wanted = len(starving) if rests else len(starving) + len(self.idle)
        changed = self.probes.to_pass_on(wanted - self.free_probes, now)
        for producer in changed:
            self._unprobe(producer)
        del starving[max(0, min(most, self.free_probes)) :]
        if starving:
            for producer in starving:
                producer.waiting = False
                self._probe(producer, now)
            self.waiting = deque(p for p in self.waiting if p.waiting)
        return changed + starving

    def _lapse(self, producer: Producer, now: int) -> None:
        """End the reservation of withdrawn credit after enough time without a message."""
        if producer.withdrawn_at is None:
            producer.withdrawn_at = now
        if producer.mark != producer.messages and not producer.credit:
            producer.mark = producer.messages
            self._go_on_reserving(producer, now)
        elif now - producer.touched_at >= GRACE_MS:
            self.reserved -= producer.withdrawn
            producer.lapsed += producer.withdrawn
            producer.withdrawn = 0
            self.pending.pop(producer, None)

    def _go_on_reserving(self, producer: Producer, now: int) -> None:
        """Have withdrawn credit reserved for some time from a late message on. A client that is near stops at once, and
        its last message was only read late; one that is far away goes on for as long as the withdrawal takes to it.
        That is sent at the end of its turn, which takes long if it stops many: the time counts from the next one on."""
        if producer.withdrawn_at is None:
            producer.withdrawn_at = now
        grace = min(GRACE_MS, max(SHORTEST_GRACE_MS, 2 * (now - producer.withdrawn_at)))
        producer.touched_at = max(producer.touched_at, now + grace - GRACE_MS)

    def _unused(self, producer: Producer, now: int) -> bool:
        if not producer.credit or producer.probing or producer.draining or now - producer.touched_at < IDLE_CREDIT_MS:
            return False
        if producer.mark != producer.messages:
            producer.mark = producer.messages
            return False
        return True

    def _resting(self, published: int) -> bool:
        """Whether no message has arrived for `QUIET_SWEEPS`, although every producer has had credit."""
        if published != self._marked:
            self._marked, self._quiet, self._prompted = published, 0, 0
        self._quiet += 1
        return self._quiet > QUIET_SWEEPS and self._prompted >= len(self.members) and self._quiet % 10 != 0


def draining(producers: Iterable[Producer]) -> int:
    """Return how many of the producers may still have messages in flight on withdrawn credit."""
    return sum(1 for p in producers if p.withdrawn or (p.draining and p.credit))
