"""Where a client publishes that has no single queue as its target: an exchange, or another address in each message.

For each queue that its messages reach, an outlet has a *tap*: a producer of that queue like any other, with credit from
its ledger, reasons to be blocked, and a share like all others. A message is published when every tap it needs has
credit; until then it waits here, unsettled. So the bound on overshoot applies to routed messages too, an overfull queue
holds up the messages that go there and those behind them to the same queues, and nothing else on the link.

A message to several queues goes to all of them or, while one has no room for it, to none yet. If one *rejects*
(mechanism reject), it is rejected as a whole. Reject-after and hold withhold its outcome, while the other queues have
it already.

Queues that get the same messages share their reasons: the producer of each is blocked until all let them through.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from brokers.engine.flow.blocking import fan_out_changed
from brokers.engine.flow.credit import UNSEEN_BYTES, UNSEEN_LARGEST
from brokers.engine.flow.metering import Footprint
from brokers.engine.flow.producer import Producer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.transaction import Enrolment, Transaction
from brokers.engine.services.links import Links
from brokers.engine.values.limits import UNLIMITED
from brokers.engine.values.outcomes import Outcome, Verdict

#: Messages that a client may have with an outlet that have no outcome yet; fewer if a limit on memory has no room for
#: so many, but one in any case.
WINDOW = 100
#: Sets of queues that an outlet remembers, so as not to look at each message's again.
MOST_SEEN = 1000


class Parcel:
    """A message on its way to `taps`. `delivery` belongs to the protocol layer. `pending`: outcomes still to come.
    `enrolment`: in a transaction, if it is in one."""

    __slots__ = ("body", "delivery", "enrolment", "outcome", "pending", "taps")

    def __init__(self, body: bytes, taps: Sequence[Tap], delivery: Any, enrolment: Enrolment | None) -> None:
        self.body = body
        self.taps = list(taps)
        self.delivery = delivery
        self.enrolment = enrolment
        self.pending = len(self.taps)
        self.outcome = Outcome.ACCEPTED

    def record(self, outcome: Outcome) -> bool:
        """An outcome has come; True if it was the last."""
        self.pending -= 1
        if outcome is not Outcome.ACCEPTED:
            self.outcome = outcome
        return self.pending == 0


class Tap:
    """One queue's producer of an outlet, and its handle: what a link does for other producers is done here."""

    __slots__ = ("beside", "outlet", "producer", "unsettled")

    producer: Producer

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.beside: frozenset[Queue] | None = None  # the queues that every message to this one went to as well
        self.unsettled: deque[Parcel] = deque()

    @property
    def open(self) -> bool:
        """A message can be published now."""
        return self.producer.credit > 0

    def publish(self, parcel: Parcel) -> None:
        queue, enrolment = self.producer.queue, parcel.enrolment
        if enrolment is None:
            verdict = queue.publish(self.producer, parcel.body)
        else:
            verdict = queue.publish_in(enrolment, self.producer, parcel.body)
        if verdict is Verdict.HELD:
            self.unsettled.append(parcel)
        elif parcel.record(Outcome.ACCEPTED if verdict is Verdict.TAKEN else Outcome.REFUSED):
            self.outlet.done(parcel)

    # -- what the engine asks of a producer's handle ------------------------------------------------------------

    def sync_credit(self) -> None:
        if self.producer.credit:
            self.outlet.pump()

    def drain(self) -> None:
        """Nothing is on its way inside the broker: all credit goes back at once."""
        self.producer.queue.credit_returned(self.producer, self.producer.credit)

    def settle(self, count: int, outcome: Outcome) -> None:
        for _ in range(count):
            parcel = self.unsettled.popleft()
            if parcel.record(outcome):
                self.outlet.done(parcel)

    def end(self, condition: str, description: str) -> None:
        """Its queue was deleted."""
        self.outlet.forget(self)


class Outlet:
    """`settled` is called with each parcel that has its outcome. `credit`: messages that the client may send now."""

    def __init__(
        self,
        links: Links,
        connection: Connection,
        link: str,
        channel: int,
        settled: Callable[[Parcel], None],
    ) -> None:
        self.links = links
        self.connection = connection
        self.link = link
        self.channel = channel
        self.settled = settled
        self.taps: dict[Queue, Tap] = {}
        self.seen: set[tuple[Queue, ...]] = set()  # the sets of queues that its messages went to lately
        self.waiting: list[Parcel] = []
        self.unsettled = 0
        self.footprint = Footprint(links.registry.virtualhosts[connection.virtualhost].meter)
        self.largest = 0  # message so far, bytes
        self.credit = self._window()
        self.ended = False
        self._weigh()

    def publish(self, body: bytes, queues: Sequence[Queue], delivery: Any, enrolment: Enrolment | None = None) -> None:
        """Take in a message for these queues, of which there is at least one. The client must have had credit."""
        self.credit -= 1
        self.unsettled += 1
        self.largest = max(self.largest, len(body))
        parcel = Parcel(body, [self._tap(q) for q in queues], delivery, enrolment)
        self.waiting.append(parcel)
        if (together := tuple(queues)) not in self.seen:
            self._see(together, parcel.taps)
        if enrolment is not None:
            enrolment.transaction.wait(self)
        self.pump()

    def _tap(self, queue: Queue) -> Tap:
        tap = self.taps.get(queue)
        if tap is None:
            tap = self.taps[queue] = Tap(self)
            tap.producer = self.links.attach_producer(self.connection, queue, self.link, self.channel, tap, inside=True)
        return tap

    def _see(self, together: tuple[Queue, ...], taps: Sequence[Tap]) -> None:
        """Work out which queues share every message: a producer of one is blocked by the others as well."""
        if len(self.seen) >= MOST_SEEN:
            self.seen.clear()
        self.seen.add(together)
        for tap in taps:
            tap.beside = frozenset(together) if tap.beside is None else tap.beside.intersection(together)
        self._share_reasons()

    def _share_reasons(self) -> None:
        siblings = tuple(tap.producer for tap in self.taps.values())
        for tap in self.taps.values():
            tap.producer.siblings = siblings
            shared = tap.beside or ()
            several = [self.taps[queue].producer for queue in self.taps if queue in shared]
            tap.producer.fan_out = tuple(several) if len(several) > 1 else ()
        fan_out_changed(self.links.turn, siblings)

    def pump(self) -> None:
        """Publish what can be published, in the order it came for each queue."""
        shut: set[Tap] = set()
        waiting, self.waiting = self.waiting, []
        for parcel in waiting:
            if parcel.enrolment is not None and parcel.enrolment.over:
                parcel.outcome = Outcome.ROLLED_BACK
                self.done(parcel)
            elif all(tap.open and tap not in shut for tap in parcel.taps):
                self._send(parcel)
            else:
                shut.update(parcel.taps)
                self.waiting.append(parcel)
        self._weigh()

    def _weigh(self) -> None:
        """Count what waits here, and what may still come on the client's credit. Published messages are counted by
        their queues."""
        self.footprint.weigh(0, sum(len(parcel.body) for parcel in self.waiting))
        self.footprint.pledge(self.credit, self.largest or UNSEEN_BYTES)

    def _window(self) -> int:
        """As `WINDOW`, by what is left now."""
        left = self.footprint.left()
        if left == UNLIMITED:
            return WINDOW
        left += self.footprint.pledged
        return max(1, min(WINDOW, left // (2 * (self.largest or UNSEEN_LARGEST))))

    def _send(self, parcel: Parcel) -> None:
        refusing = [t for t in parcel.taps if t.producer.queue.refuses(parcel.body)]
        if refusing:
            parcel.taps = refusing[:1]
            parcel.pending = 1
        for tap in list(parcel.taps):
            tap.publish(parcel)
        if parcel.enrolment is not None:
            parcel.enrolment.transaction.arrived(self)

    def abandon(self, transaction: Transaction) -> None:
        """The transaction is rolled back: its messages that wait have their outcome."""
        gone = [p for p in self.waiting if p.enrolment is not None and p.enrolment.transaction is transaction]
        for parcel in gone:
            self.waiting.remove(parcel)
            parcel.outcome = Outcome.ROLLED_BACK
            self.done(parcel)
        self.pump()

    def done(self, parcel: Parcel) -> None:
        """It has its outcome, from every queue."""
        self.unsettled -= 1
        if parcel.outcome is not Outcome.ACCEPTED and parcel.enrolment is not None:
            parcel.enrolment.refused()
        if not self.ended:
            self.settled(parcel)

    def top_up(self) -> int:
        """Credit to give the client now, once half of its window is used up."""
        window = self._window()
        more = window - self.credit - self.unsettled
        if more <= 0 or (more < window // 2 and self.credit > window // 2):
            return 0
        self.credit += more
        self._weigh()
        return more

    def forget(self, tap: Tap) -> None:
        """The tap's queue is gone: its messages go to the others that they were for, or have their outcome."""
        self.taps = {q: t for q, t in self.taps.items() if t is not tap}
        self._share_reasons()
        for parcel in list(tap.unsettled):
            if parcel.record(Outcome.REFUSED):  # it was not safe yet, and now it never will be
                self.done(parcel)
        tap.unsettled.clear()
        for parcel in [p for p in self.waiting if tap in p.taps]:
            parcel.taps.remove(tap)
            parcel.pending -= 1
            if not parcel.taps:
                self.waiting.remove(parcel)
                parcel.outcome = Outcome.REFUSED
                self.done(parcel)
                if parcel.enrolment is not None:
                    parcel.enrolment.transaction.arrived(self)
        self.pump()

    def close(self) -> None:
        """The client's link has ended: what waits was never accepted, and goes with it."""
        self.ended = True
        waiting, self.waiting = self.waiting, []
        for parcel in waiting:
            if parcel.enrolment is not None:
                parcel.enrolment.lost()
        for tap in list(self.taps.values()):
            self.links.detach(tap.producer)
        self.taps.clear()
        self.footprint.clear()
