"""How much credit each producer of a queue gets: enough to keep it busy, and none of it for producers that do not send.

That no more than one message goes in above the stop level is not left to credit: what comes while the queue is overfull
waits outside (`overflow.py`). Credit keeps that little, shares the room fairly, and reaches every producer in time. The
rules, which hold for any number of producers:

1. Depth plus reserved credit never exceeds the stop level by more than one message. Reserved is what producers may
   still use: credit they hold, and credit taken back so recently that messages sent before may still arrive.
2. In bytes, a credit is reckoned as the largest message that the queue has seen lately (64 KiB before the first).
   When messages grow beyond that, the credit that is too much is taken back at once, and what was sent on it before
   waits outside.
3. Producers ask for credit in a line, first come first served; nobody gets more than a fair share of the whole.
   Messages whose outcome is withheld count against it. Rules 1 and 2 are for queues that block, and for those that
   hold, with a tenth of the stop level more room (`Limits.withheld_messages`); the others give each producer its window
   (`overflow.py`): so many messages, and no more than fit into so many bytes, reckoned as in rule 2 (ActiveMQ's
   ProducerWindowSize).
4. While somebody stands in the line, holders that have not sent for `HOLD_MS` are asked to give theirs back: a drain
   first, since it is acknowledged; if there is no answer in `DRAIN_MS`, the credit is withdrawn, which nothing
   acknowledges, and stays reserved until `GRACE_MS` of silence have passed.
5. Who gave credit back without having used it is idle, and gets a probe instead: one credit, for which nothing is
   reserved (`probing.py`). With the first message on it the producer stands in the line again. So does a producer that
   has stood in the line without any credit for `HOLD_MS`: it need not wait until others have given theirs back.
   There are enough probes for some hundred producers at once, and they are passed on where there are more. Where there
   is room and nobody stands in the line, who has kept its probe for `PROBE_MS` gets a part of half that room: a client
   may wait until it can send several messages, such as those of a transaction, and one credit would never do.
6. A message on credit that was withdrawn is late, not wrong. It is taken unless the queue is overfull; then it waits
   outside the queue, unsettled. While an operator's stop is in force, or something is short, every late message waits.
   A message without any credit breaks the protocol.
7. A client that was asked to give credit back, and had it withdrawn before it answered, may count that credit once more
   (Proton's C library does, when both reach it together). So many messages are late as well, and not wrong.

So a producer that wants to send has credit within some `HOLD_MS` (with more producers than probes, within one round of
`PROBE_MS` for each `Probes.most` of them), or it is blocked, with a reason. How real clients answer drains and
withdrawals was measured; see `brokers/README.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from brokers.engine.flow.metering import Footprint, Meter
from brokers.engine.flow.probing import Probes
from brokers.engine.flow.producer import Producer
from brokers.engine.values.limits import UNLIMITED, Limits

HOLD_MS = 50
DRAIN_MS = 100
GRACE_MS = 250
#: The size to reckon with before a queue has seen a message, in bytes.
UNSEEN_BYTES = 64 * 1024
#: The size to be prepared for before a queue has seen a message, where a limit on all queues has little left, in bytes.
UNSEEN_LARGEST = 4 << 20
#: The most credit for a producer that has not sent anything yet.
FIRST_GRANT = 16
#: The most messages of rule 7 that a producer is forgiven.
MOST_DOUBTFUL = 1000
#: A queue that nobody has published to for so many sweeps, though all had a turn, is swept at a tenth of the rate.
QUIET_SWEEPS = 20


class Late(Enum):
    """What a message without credit was sent on."""

    RESERVED = "credit that was taken back, and is still reserved"
    LAPSED = "credit that was taken back so long ago that nothing is reserved for it"
    NEVER = "nothing: its client broke the protocol"


class CreditLedger:
    """The credit of one queue. `reserved`: all credit, in messages, that producers may still use. `footprint`: tells
    what the limits beyond the queue's have left, see `metering.py`."""

    __slots__ = (
        "_asked",
        "_marked",
        "_probed_at",
        "_quiet",
        "footprint",
        "given",
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
        self.given = 0  # ever
        self.members: dict[Producer, None] = {}  # in the order of attaching
        self.waiting: deque[Producer] = deque()  # the line
        self.idle: deque[Producer] = deque()  # the line of those that did not use what they had
        self.pending: dict[Producer, None] = {}  # draining, or with withdrawn credit still reserved
        self.probes = Probes()
        self._probed_at = 0  # when the idle were served last, ms
        self.largest = 0  # largest message of this minute and the one before, bytes
        self.recent = 0  # largest of this minute
        self._marked = -1
        self._quiet = 0
        self._asked = 0  # how many were asked to give credit back, or got a probe, since a message came

    def join(self, producer: Producer) -> None:
        self.members[producer] = None
        self.ask(producer)

    def leave(self, producer: Producer) -> None:
        """Forget a producer whose link has gone; its credit is free again."""
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

    def ask(self, producer: Producer) -> None:
        """Put a producer at the end of the line, unless it stands in one or has a probe left."""
        if producer.probing:
            if producer.credit:
                return
            self.probes.used(producer)
            self.reserved += 1  # it was taken off with the message, and had never been added
        if not producer.waiting:
            producer.waiting = True
            producer.idle = False
            self.waiting.append(producer)

    def _ask_again(self, producer: Producer) -> None:
        """Put a producer whose credit was taken back where it belongs: was it used?"""
        if producer.mark != producer.messages:
            self.ask(producer)
        elif not (producer.idle and producer.waiting):
            if producer.waiting:
                self.waiting.remove(producer)
            producer.waiting = producer.idle = True
            self.idle.append(producer)

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
            room = limits.stop_messages + limits.withheld_messages + 1 - depth_messages - self.reserved
        if limits.stop_bytes != UNLIMITED:
            fit = (limits.stop_bytes + limits.withheld_bytes - depth_bytes) // (self.largest or UNSEEN_BYTES)
            room = min(room, max(0, fit) + 1 - self.reserved)
        return room

    def share(self, limits: Limits) -> int:
        """The most credit that one producer may hold now. Idle producers do not make the others' shares smaller."""
        window = limits.window
        if limits.window_bytes:
            window = max(1, min(window, limits.window_bytes // (self.largest or UNSEEN_BYTES)))
        if not limits.bounded:
            return window
        active = len(self.members) - len(self.idle) - len(self.probes)
        whole = window * (active + 1)
        if limits.stop_messages != UNLIMITED:
            whole = min(whole, limits.stop_messages + limits.withheld_messages + 1)
        if limits.stop_bytes != UNLIMITED:
            whole = min(whole, (limits.stop_bytes + limits.withheld_bytes) // (self.largest or UNSEEN_BYTES) + 1)
        return max(1, min(window, whole // (active + 1)))

    def grant(
        self, limits: Limits, depth_bytes: int, depth_messages: int, now: int, most: int = UNLIMITED
    ) -> list[Producer]:
        """Give credit, `most` at most, to those in the line while there is room, and probes to the idle. Returns the
        producers whose credit has changed."""
        free = self.room(limits, depth_bytes, depth_messages)
        room = min(most, free)
        if room < 0:
            return self.withdraw(now, -room - sum(p.withdrawn for p in self.pending))
        changed: list[Producer] = []
        before = self.given
        if free == UNLIMITED and self.idle:
            self._all_ask()  # nothing is scarce
        if room and self.waiting:
            room = self._serve(self.share(limits), room, now, changed)
        if (
            self.idle and not 0 <= now - self._probed_at < HOLD_MS
        ):  # else a queue that is full again at once sends flows
            self._probed_at = now
            self._serve_idle(room, most - (self.given - before), now, changed)
        elif room and self.probes and not self.waiting and not self.idle:
            self._raise(self._part_of_probes(limits, room), now, changed)
        return changed

    def _part_of_probes(self, limits: Limits, room: int) -> int:
        """The credit that each producer with a probe may have instead; below 2: none may. None may either while the
        limits beyond the queue's have no room for it, or the queue would be looked at for as long as they have none."""
        left = self.footprint.left()
        if left != UNLIMITED and left < 2 * (self.largest or UNSEEN_LARGEST):
            return 0
        return min(self.share(limits), FIRST_GRANT, room // 2 // len(self.probes))

    def may_raise(self, limits: Limits, depth_bytes: int, depth_messages: int) -> bool:
        """Producers with probes get more if nothing happens for long enough."""
        if not self.probes or self.waiting or self.idle:
            return False
        return self._part_of_probes(limits, self.room(limits, depth_bytes, depth_messages)) > 1

    def _raise(self, most: int, now: int, changed: list[Producer]) -> None:
        """Give credit to those that have kept their probes for long enough, up to `most` each."""
        if most < 2:
            return
        for producer in self.probes.to_pass_on(len(self.probes), now):
            more = min(most - 1, self._affordable(producer))
            if producer.shut or producer.draining or more < 1:
                continue
            self.probes.used(producer)
            self.reserved += 1  # its probe is real credit from now on
            self._give(producer, more, now)
            self.pledge()
            changed.append(producer)

    def grant_withheld(
        self, limits: Limits, depth_bytes: int, depth_messages: int, now: int, most: int
    ) -> list[Producer]:
        """Give out as credit, `most` at most, what an overfull queue that withholds settlements takes more. No
        probes: all its producers are blocked, with a reason. Returns the producers whose credit has changed."""
        changed: list[Producer] = []
        room = min(most, self.room(limits, depth_bytes, depth_messages))
        if room > 0:
            self._serve(self.share(limits), room, now, changed)
        return changed

    def _serve(self, share: int, room: int, now: int, changed: list[Producer]) -> int:
        """Give those in the line their shares while there is room; what is left of it."""
        waiting = self.waiting
        while room > 0 and waiting:
            producer = waiting.popleft()
            producer.waiting = False
            if producer.shut:
                continue  # it asks again when it may have some
            most = share if producer.messages else min(share, FIRST_GRANT)
            wanted = most - producer.credit - len(producer.receipts)
            wanted = min(wanted, self._affordable(producer))
            more = min(wanted, room)
            if more <= 0 or producer.draining:
                producer.low = producer.credit >> 1
                continue
            room -= self._give(producer, more, now)
            changed.append(producer)
            self.pledge()
            if more < wanted:  # for want of room: the rest comes when there is some
                self.ask(producer)
        return room

    def _give(self, producer: Producer, more: int, now: int) -> int:
        """Give a producer so much credit, and reserve it; how much more is reserved now."""
        # What is still reserved for messages on their way serves for the new credit as well.
        again = min(more, producer.withdrawn)
        producer.withdrawn -= again
        producer.lapsed = max(0, producer.lapsed - (more - again))
        producer.credit += more
        producer.low = producer.credit >> 1
        producer.mark = producer.messages
        producer.touched_at = now
        producer.without_since = None
        self.reserved += more - again
        self.given += more
        return more - again

    def _serve_idle(self, room: int, most: int, now: int, changed: list[Producer]) -> None:
        """Give the idle one credit each: probes, and real credit to those that there is no probe for."""
        idle = self.idle
        probes = min(most, self.free_probes)
        while idle and (probes > 0 or room > 0):
            producer = idle.popleft()
            producer.waiting = False
            if producer.shut:
                producer.idle = False
                continue  # it asks again when it may have some
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
        self.given += 1
        self._asked += 1

    @property
    def free_probes(self) -> int:
        """How many probes more may be out now."""
        return self.probes.most(self.largest or UNSEEN_BYTES) - len(self.probes)

    def _all_ask(self) -> None:
        """The idle stand in the line like the others."""
        idle, self.idle = self.idle, deque()
        for producer in idle:
            producer.idle = False
        self.waiting.extend(idle)

    def pledge(self) -> None:
        """Count what may still come on the credit that is out; a probe is the one message that each producer may send
        in any case."""
        self.footprint.pledge(self.reserved, self.largest or UNSEEN_BYTES)

    def _affordable(self, producer: Producer) -> int:
        """The most credit for the producer now: half of what the limits have left, so that there is some for others.
        For one message in any case."""
        left = self.footprint.left(self.footprint.transient if producer.messages and not producer.persistent else None)
        if left == UNLIMITED:
            return UNLIMITED
        one = 1 - producer.credit - len(producer.receipts)
        return max(one, left // (2 * (self.largest or UNSEEN_LARGEST)))

    @property
    def contended(self) -> bool:
        """Somebody in a line has none or too little, while others hold some. Only meaningful when there is no room."""
        return self.reserved > 0 and bool(self.waiting or self.idle)

    def withdraw(self, now: int, count: int | None = None) -> list[Producer]:
        """Take back all credit, or at least `count` of what is reserved. Returns the producers whose credit has
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
            kept = now - producer.touched_at >= HOLD_MS
            if kept:
                self._ask_again(producer)
            else:
                self.ask(producer)
            self._withdraw(producer, now)
        return changed

    def withdraw_from(self, producer: Producer, now: int) -> None:
        """Take back all credit of one producer."""
        if producer.probing:
            self._unprobe(producer)
            return
        self._withdraw(producer, now)
        self.ask(producer)

    def _unprobe(self, producer: Producer) -> None:
        """Withdraw a probe; the producer stands in the line of the idle for its next one."""
        self.probes.take_back(producer)
        producer.waiting = producer.idle = True
        self.idle.append(producer)

    def _withdraw(self, producer: Producer, now: int) -> None:
        if producer.draining:
            producer.doubtful = min(producer.doubtful + producer.credit, MOST_DOUBTFUL)
        producer.withdrawn += producer.credit
        producer.credit = 0
        producer.draining = False
        producer.touched_at = now
        producer.mark = producer.messages
        self.pending[producer] = None

    def returned(self, producer: Producer, count: int) -> None:
        """The producer answered a drain: it gave back `count`."""
        if producer.probing:  # the answer was long on its way, and takes what was given since with it
            if count > 0:
                self._unprobe(producer)
            return
        count = min(count, producer.credit)
        producer.credit -= count
        self.reserved -= count
        producer.draining = False
        if not producer.withdrawn:
            self.pending.pop(producer, None)
        self._ask_again(producer)

    def forgone(self, producer: Producer, count: int) -> bool:
        """Take back credit that the producer's link counts as used, though nobody asked for it; messages that come on
        it all the same are late. False: it has none."""
        count = min(count, producer.credit)
        if count <= 0:
            return False
        if producer.probing:
            self._unprobe(producer)
            return True
        producer.credit -= count
        producer.lapsed += count
        self.reserved -= count
        self._ask_again(producer)
        return True

    def late(self, producer: Producer) -> Late:
        """A message came on no credit: use what it was sent on, if that was taken back."""
        if producer.idle and producer.waiting:
            self.idle.remove(producer)
            producer.waiting = False
            self.ask(producer)
        if producer.withdrawn:
            producer.withdrawn -= 1
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
        """What time does; called every `HOLD_MS` or so while credit is contended or pending. `published`: messages
        ever enqueued. `most`: probes that may be given. Returns (producers to drain, producers whose credit has
        changed)."""
        changed = [p for p in self.pending if p.draining and now - p.touched_at >= DRAIN_MS]
        for producer in changed:
            self._ask_again(producer)
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
        self._asked += len(drain)
        return drain, changed

    def _probe_the_starving(self, now: int, most: int, *, rests: bool) -> list[Producer]:
        """Give probes to those that have stood in the line for `HOLD_MS` without any credit, those of the idle if need
        be. While the queue rests, idle producers do not pass probes on to each other."""
        starving = []
        for producer in self.waiting:
            if not producer.credit and not producer.receipts and not producer.shut:
                if producer.without_since is None:
                    producer.without_since = now
                elif now - producer.without_since >= HOLD_MS:
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
        """End the reservation of withdrawn credit after a silence."""
        if producer.mark != producer.messages and not producer.credit:
            producer.mark, producer.touched_at = producer.messages, now
        elif now - producer.touched_at >= GRACE_MS:
            self.reserved -= producer.withdrawn
            producer.lapsed += producer.withdrawn
            producer.withdrawn = 0
            self.pending.pop(producer, None)

    def _unused(self, producer: Producer, now: int) -> bool:
        if not producer.credit or producer.probing or producer.draining or now - producer.touched_at < HOLD_MS:
            return False
        if producer.mark != producer.messages:
            producer.mark = producer.messages
            return False
        return True

    def _resting(self, published: int) -> bool:
        """Nobody has published for long, though everybody has had a turn."""
        if published != self._marked:
            self._marked, self._quiet, self._asked = published, 0, 0
        self._quiet += 1
        return self._quiet > QUIET_SWEEPS and self._asked >= len(self.members) and self._quiet % 10 != 0


def draining(producers: Iterable[Producer]) -> int:
    """How many of the producers may still have messages on their way on credit that was taken back."""
    return sum(1 for p in producers if p.withdrawn or (p.draining and p.credit))
