"""The flow control of one destination: its depth against its limits, its stops, its credit and the producers it blocks.

A gate knows how deep its destination is, not what is in it. What its depth says, or an operator asks for, goes through
the table in `table.py`; what that means for credit is decided by `credit.py`. A queue *has* a gate, and the gate knows
of the queue no more than `Contents`.

What open transactions have published counts from its arrival on, since otherwise concurrent transactions would
overshoot the stop level together at their commits. A commit waits for the transaction's parked messages. Those may wait
for room that the commit itself would make, or that of another transaction which waits likewise; so after
`COMMIT_WAIT_MS` they are let in above the stop level, if open transactions have part of the queue's depth, or the one
that waits takes from it. It is the one exception to its bound: one transaction at a time, since with its commit the
others may find room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from brokers.engine.flow import blocking, scarcity, table
from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.overflow import OVERFLOW_POLICIES, PARKING, SHORTAGE, Arrival, OverflowPolicy
from brokers.engine.flow.pacing import Pacer
from brokers.engine.flow.parked import Parked, ParkedMessage
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.table import Change, Input, State
from brokers.engine.flow.turn import CreditChanged, Drain, Settled, Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.events import overfull_words, queue_subject, underfull_words
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.message import NEVER
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.policy import Setting
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName, object_name

COMMIT_WAIT_MS = 1000


class Contents(Protocol):
    """What a gate asks of the queue that has it. `spooling`: what comes now goes to the temp store, unless it is for
    the message store. `touch`: there may be something to dispatch or to grant at the end of the turn. `memory_bytes`:
    of its messages whose bodies are in memory; not of those that are parked. `weigh_stores`: count what the stores
    take now. The last three are attributes, since they are called in every turn."""

    touch: Callable[[], None]
    memory_bytes: Callable[[], int]
    weigh_stores: Callable[[Meter], None]

    @property
    def spooling(self) -> bool: ...

    def watch(self) -> None:
        """There is credit to take back: sweep by time."""
        ...

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message and check the depth after it. Return ACCEPTED, or PENDING for a message that its store has yet
        to confirm: then the store resolves `receipt`, or a new receipt of `producer`."""
        ...

    def spool(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message, with its body to the temp store."""
        ...

    def enrol(self, body: bytes, enrolment: Enrolment) -> Verdict:
        """Count a message of an open transaction, and check the depth after it."""
        ...

    def drop_excess(self) -> None:
        """Of a ring: drop the oldest messages until the depth is at or below the stop level."""
        ...

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        """What its messages may use that are not stored, and what those use that are."""
        ...

    def resource_of(self, body: bytes) -> Resource:
        """What a message would use now."""
        ...

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        """What the producer's next message may use, if that is like its last."""
        ...


class FlowGate:
    """See the module. Times in ms since the epoch. `uncommitted_messages`, `uncommitted_bytes`: the part of the depth
    that open transactions have. `settings`: the effective value of each policy field, with its origin.
    `active_overflow`: what decides about every message that comes now; None: messages go straight in."""

    __slots__ = (
        "active_overflow",
        "awaiting",
        "contents",
        "depth_bytes",
        "depth_messages",
        "enqueued",
        "footprint",
        "ledger",
        "limits",
        "longest_ms",
        "name",
        "object_name",
        "overflow",
        "overfull_count",
        "overfull_ms",
        "overfull_since",
        "pacer",
        "parked",
        "rejected",
        "settings",
        "shortages",
        "staged",
        "state",
        "stop_bytes",
        "stop_messages",
        "stopped_since",
        "stops",
        "touch",
        "turn",
        "uncommitted_bytes",
        "uncommitted_messages",
        "virtualhost",
        "withheld",
    )

    def __init__(self, virtualhost: str, name: str, turn: Turn, contents: Contents) -> None:
        self.contents = contents
        self.touch = contents.touch
        self.virtualhost = virtualhost
        self.name = name
        self.object_name: ObjectName = object_name("Queue", virtualhost=virtualhost, name=name)
        self.turn = turn
        self.settings: Mapping[str, Setting] = {}
        self.limits = Limits()
        self.stop_bytes = self.limits.stop_bytes  # the two that every message is compared with
        self.stop_messages = self.limits.stop_messages
        self.state = State.NORMAL
        self.stops: dict[Scope, Stop] = {}
        self.staged: dict[Scope, Stop] = {}  # stops being lifted step by step: they pace, and do not block
        self.pacer: Pacer | None = None  # while any is
        self.shortages: list[Usage] = []  # of what the broker or the virtual host has run short of
        self.ledger = CreditLedger()
        self.footprint = self.ledger.footprint
        self.depth_messages = 0
        self.depth_bytes = 0
        self.uncommitted_messages = 0
        self.uncommitted_bytes = 0
        self.enqueued = 0
        self.overfull_since: int | None = None
        self.stopped_since: int | None = None
        self.overfull_count = 0
        self.overfull_ms = 0
        self.overflow = OVERFLOW_POLICIES[self.limits.overflow]
        self.active_overflow: OverflowPolicy | None = None
        self.parked = Parked()  # messages that wait for room
        self.awaiting = Parked()  # messages that wait for the end of a shortage
        self.withheld: deque[Receipt] = deque()  # of messages that are in, and are settled when the queue resumes
        self.rejected = 0
        self.longest_ms = 0  # the longest wait that is over

    def use(self, meter: Meter) -> None:
        """Have counted there what the queue takes up."""
        self.footprint.use(meter, *self.contents.usages(meter))

    def admits(self, resource: Resource) -> bool:
        """No shortage blocks a message that is here and uses this resource."""
        return all(usage.admits or not (usage.resource is resource or usage.whole) for usage in self.shortages)

    def refuses(self, body: bytes) -> bool:
        """A message would be rejected that came now."""
        if self.shortages and self.limits.when_short == "reject" and not self.admits(self.contents.resource_of(body)):
            return True
        return self.state.overfull and self.overflow.arrival is Arrival.REJECT

    def weigh(self) -> None:
        """Count what the queue takes up now of what is limited for the broker or the virtual host."""
        footprint = self.footprint
        footprint.weigh(self.contents.memory_bytes(), self.parked.bytes + self.awaiting.bytes)
        size = footprint.size
        self.ledger.pledge()
        if footprint.size > size > 0:  # messages have grown: what is out may be too much
            self.take_back_unaffordable()
        self.contents.weigh_stores(footprint.meter)

    def take_back_unaffordable(self) -> None:
        """Take credit back, if more is out than the limits beyond the queue's have room for."""
        if self.footprint.left() < 0:
            self._withdraw()
            self.touch()

    # -- what comes -------------------------------------------------------------------------------------------

    def above(self) -> None:
        """The depth has gone above the stop level."""
        if self.overflow.drops:
            self.contents.drop_excess()
        else:
            self.feed(Input.ABOVE_STOP)

    def check_depth(self) -> None:
        """The depth has grown."""
        if self.depth_bytes > self.stop_bytes or self.depth_messages > self.stop_messages:
            self.above()
        self.touch()

    def intercept(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        """A message has come while `active_overflow` decides about all that come; its credit is used."""
        policy = self.active_overflow
        if policy is SHORTAGE:
            short = scarcity.arrived(self, producer, body, enrolment)
            if short is not None:
                return short
            policy = self.interception()
            if policy is None and enrolment is None and self.contents.resource_of(body) is Resource.TEMP:
                return self.contents.spool(body, producer)
        elif policy is PARKING and not self.parked:
            self.choose_interception()
            policy = self.active_overflow
        arrival = Arrival.ENQUEUE if policy is None else policy.arrival
        if arrival is Arrival.REJECT:
            return self.reject()
        if arrival is Arrival.WITHHOLD and self.admits_withheld():
            receipt = self.defer(producer, 1)
            self.withheld.append(receipt)
            self.admit(body, receipt=receipt, enrolment=enrolment)
            return Verdict.PENDING
        if arrival is Arrival.SPOOL and enrolment is None:
            return self.contents.spool(body, producer)
        if arrival in (Arrival.ENQUEUE, Arrival.SPOOL):
            return self.admit(body, producer, enrolment=enrolment)
        self.park(producer, body, enrolment)
        return Verdict.PENDING

    def admit(
        self,
        body: bytes,
        producer: Producer | None = None,
        receipt: Receipt | None = None,
        enrolment: Enrolment | None = None,
    ) -> Verdict:
        """Add a message, in a transaction or not."""
        if enrolment is None:
            return self.contents.enqueue(body, producer, receipt)
        return self.contents.enrol(body, enrolment)

    def reject(self) -> Verdict:
        """A message is not taken."""
        self.rejected += 1
        self.touch()
        return Verdict.REJECTED

    def count_uncommitted(self, messages: int, size: int) -> None:
        """So many messages more, of so many bytes together, are in open transactions; below 0: fewer."""
        self.uncommitted_messages += messages
        self.uncommitted_bytes += size
        self.depth_messages += messages
        self.depth_bytes += size

    def roll_back(self, messages: int, size: int) -> None:
        """So many messages of a transaction, of so many bytes together, will never be."""
        self.count_uncommitted(-messages, -size)
        self.measure()
        self.touch()

    def abandon(self, transaction: Transaction) -> None:
        """The transaction is rolled back: its parked messages have their outcome."""
        for parked in self.take_out(lambda p: p.enrolment is not None and p.enrolment.transaction is transaction):
            self.resolve(parked.receipt, Outcome.ROLLED_BACK)

    # -- producers --------------------------------------------------------------------------------------------

    @property
    def producers(self) -> Iterable[Producer]:
        return self.ledger.members

    @property
    def producer_count(self) -> int:
        return len(self.ledger.members)

    @property
    def blocked_producers(self) -> int:
        """All producers of a queue share its reasons, but for those of shortages."""
        if self.state.stopped or (self.state.overfull and self.overflow.blocks):
            return len(self.ledger.members)
        return scarcity.blocked_producers(self, self.limits)

    def attach_producer(self, producer: Producer) -> None:
        """A producer that attaches while the queue is overfull or stopped starts blocked."""
        self.ledger.join(producer)
        for reason in self.reasons():
            blocking.block(self.turn, producer, reason, self._cause(reason), self.event_attributes())
        if self.shortages:
            scarcity.review(self, producer)
        self.touch()

    def detach_producer(self, producer: Producer) -> None:
        """Its parked messages were never accepted: they go with it."""
        if producer.receipts:
            for lost in self.take_out(lambda waiting: waiting.producer is producer):
                if lost.enrolment is not None:
                    lost.enrolment.lost()
        producer.receipts.clear()
        self.ledger.leave(producer)
        blocking.detached(self.turn, producer)
        self.touch()

    def take_out(self, wanted: Callable[[ParkedMessage], bool]) -> list[ParkedMessage]:
        """Forget parked messages."""
        taken = [*self.parked.take(wanted), *self.awaiting.take(wanted)]
        for producer in {waiting.producer for waiting in taken if waiting.producer.awaited is not None}:
            if all(waiting.producer is not producer for waiting in self.awaiting):
                producer.awaited = None
        return taken

    # -- flow control -----------------------------------------------------------------------------------------

    def reasons(self) -> list[str]:
        """Every reason that blocks all producers of this queue now."""
        reasons = [table.overfull_reason(self.name)] if self.state.overfull and self.overflow.blocks else []
        reasons.extend(table.stop_reason(str(scope)) for scope in self.stops)
        return reasons

    def set_limits(self, limits: Limits, settings: Mapping[str, Setting]) -> None:
        """Put other limits in force, at once and in both directions."""
        known, self.limits, self.settings = self.limits, limits, settings
        self.stop_bytes, self.stop_messages = limits.stop_bytes, limits.stop_messages
        self.use(self.footprint.meter)
        before, self.overflow = self.overflow, OVERFLOW_POLICIES[limits.overflow]
        if self.overflow is not before:
            self.switch_policy(before)
        self.measure()
        if (known.overflow, known.when_short, known.reject_after_ms) != (
            limits.overflow,
            limits.when_short,
            limits.reject_after_ms,
        ):
            self._set_deadlines()
        for producer in self.ledger.members:
            scarcity.review(self, producer)
        self.touch()

    def _deadline(self) -> int:
        """Until when a message may be parked that comes now, ms."""
        return self.turn.now + self.limits.reject_after_ms if self.overflow.expires else NEVER

    def _set_deadlines(self) -> None:
        """Parked messages may wait for so long from now on; other changes leave them the time that they have."""
        for each in self.awaiting:
            each.deadline = scarcity.deadline(self)
        for each in self.parked:
            each.deadline = self._deadline()
        self.contents.watch()

    def switch_policy(self, before: OverflowPolicy) -> None:
        """Another overflow policy is in force: what the one before kept back is let go, and nothing is lost."""
        self.active_overflow = None
        if before.arrival is Arrival.WITHHOLD:
            self._settle_withheld()
        if before.expires:
            while self.parked:
                self.admit_first_parked()
        reason = table.overfull_reason(self.name)
        if self.limits.ring:
            self.contents.drop_excess()
            self.feed(Input.AT_RESUME)
        elif self.state.overfull:
            if self.limits.bounded:
                self._withdraw()
            if self.overflow.blocks:
                self._block_all(reason)
            else:
                self._unblock_all(reason)
                while self.parked and not self.state.stopped:
                    self.admit_first_parked()
        self.choose_interception()

    def _settle_withheld(self) -> None:
        while self.withheld:
            self.resolve(self.withheld.popleft(), Outcome.ACCEPTED)

    def interception(self) -> OverflowPolicy | None:
        """Who is asked about every message, but for shortages: `overflow` while the queue is overfull, if it wants it;
        PARKING while messages are parked; else messages go straight in."""
        overfull = self.overflow if self.state.overfull and self.overflow.intercepts else None
        if self.parked and (overfull is None or not overfull.grants):
            return PARKING
        return overfull

    def choose_interception(self) -> None:
        """Who is asked about every message from now on."""
        self.active_overflow = SHORTAGE if self.shortages else self.interception()

    def _review_all(self) -> None:
        for producer in self.ledger.members:
            scarcity.review(self, producer)

    def take_credit_back(self, producer: Producer) -> None:
        """All that one producer has."""
        self.ledger.withdraw_from(producer, self.turn.now)
        self.turn.effects.append(CreditChanged(producer.handle))
        self.contents.watch()

    def measure(self) -> None:
        """Look at the depth, and act on what it says."""
        seen = table.measure(self.limits, self.depth_bytes, self.depth_messages)
        if seen is Input.ABOVE_STOP:
            self.above()
        elif seen is not None:
            self.feed(seen)

    def stop(self, stop: Stop) -> bool:
        """Put an operator's stop in force, or into its stage; False if it was."""
        if stop.stage is not None:
            return self._begin_stage(stop)
        self._end_stage(stop.scope)
        known, self.stops[stop.scope] = stop.scope in self.stops, stop
        if known:  # with another end
            return False
        self.feed(Input.STOP)
        if self.ledger.members:  # of ten thousand queues that are stopped, most have nobody
            self._block_all(table.stop_reason(str(stop.scope)))
        self.touch()
        return True

    def start(self, scope: Scope) -> bool:
        """Lift an operator's stop; False if there was none."""
        if self._end_stage(scope):
            self.touch()
            return True
        if self.stops.pop(scope, None) is None:
            return False
        if not self.stops:
            self.feed(Input.START)
        if self.ledger.members:
            self._unblock_all(table.stop_reason(str(scope)))
        self.touch()
        return True

    def _begin_stage(self, stop: Stop) -> bool:
        """Let the producers in again, as fast as the stage of the stop allows."""
        known = stop.scope in self.staged
        if self.pacer is None:
            self.pacer = Pacer(self.turn.now, self.ledger.granted)
        self.start(stop.scope)
        self.staged[stop.scope] = stop
        if self.pacer is None:  # it was in its stage before
            self.pacer = Pacer(self.turn.now, self.ledger.granted)
        self.contents.watch()
        self.touch()
        return not known

    def _end_stage(self, scope: Scope) -> bool:
        """False: it was in none."""
        if self.staged.pop(scope, None) is None:
            return False
        if not self.staged:
            self.pacer = None
        return True

    def _paced(self) -> int:
        """Credits that the stages of stops leave to be given out now."""
        now = self.turn.now
        rates = [rate for stop in self.staged.values() if stop.stage and (rate := stop.stage.rate_at(now)) is not None]
        if self.pacer is None or not rates:
            return UNLIMITED
        return self.pacer.allowance(min(rates), now, self.ledger.granted)

    def begin_shortage(self, usage: Usage) -> None:
        """There is not enough of something that all queues share: block the producers that would use it."""
        self.shortages.append(usage)
        self.choose_interception()
        self._review_all()
        self.touch()

    def end_shortage(self, usage: Usage) -> None:
        self.shortages.remove(usage)
        self.choose_interception()
        self._review_all()
        self.touch()

    @property
    def open(self) -> bool:
        """The queue itself has nothing against messages."""
        return self.state is State.NORMAL

    def feed(self, seen: Input) -> None:
        """Put an input through the table, and do what the change means."""
        self.state, change = table.step(self.state, seen)
        if change is not None:
            self._CHANGES[change](self)
            self.touch()

    def _overfull_began(self) -> None:
        limits, now = self.limits, self.turn.now
        self.overfull_since = now
        self.overfull_count += 1
        words = overfull_words(
            self.depth_bytes, level(limits.stop_bytes), self.depth_messages, level(limits.stop_messages)
        )
        self.add_fact("queue-overfull", words, {})
        overflow = self.overflow
        self.choose_interception()
        if overflow.withdraws:
            self._withdraw()
        elif limits.bounded and (excess := -self.room()) > 0:  # the limit was lowered, or messages have grown
            self._withdraw(excess)
        if overflow.blocks:
            self._block_all(table.overfull_reason(self.name))

    def _overfull_ended(self) -> None:
        limits, now = self.limits, self.turn.now
        lasted = max(0, now - (self.overfull_since or now))
        self.overfull_since = None
        self.overfull_ms += lasted
        words = underfull_words(
            self.depth_bytes, level(limits.resume_bytes), self.depth_messages, level(limits.resume_messages)
        )
        self.add_fact("queue-underfull", words, {"overfull_ms": lasted})
        self.choose_interception()
        if self.shortages:
            self._review_all()  # what a queue spools depends on it
        if self.overflow.blocks and self.ledger.members:
            self.waited(lasted)
        self._unblock_all(table.overfull_reason(self.name))
        self._settle_withheld()
        self.admit_parked_while_room()

    def _stop_began(self) -> None:
        self.stopped_since = self.turn.now
        self._withdraw()

    def _stop_ended(self) -> None:
        self.stopped_since = None
        self.admit_parked_while_room()

    _CHANGES = {
        Change.OVERFULL_BEGAN: _overfull_began,
        Change.OVERFULL_ENDED: _overfull_ended,
        Change.STOP_BEGAN: _stop_began,
        Change.STOP_ENDED: _stop_ended,
    }

    def _withdraw(self, count: int | None = None) -> None:
        """Take back all credit that is out, or at least so much."""
        turn = self.turn
        turn.effects.extend(CreditChanged(p.handle) for p in self.ledger.withdraw(turn.now, count))
        if self.ledger.pending:
            self.contents.watch()

    def _block_all(self, reason: str) -> None:
        shown = self.event_attributes()
        for producer in self.ledger.members:
            blocking.block(self.turn, producer, reason, self._cause(reason), shown)

    def _cause(self, reason: str) -> str:
        """What the log names as the cause: the queue, if it is overfull or stopped for itself."""
        own = reason == table.overfull_reason(self.name) or any(
            scope.queue and reason == table.stop_reason(str(scope)) for scope in self.stops
        )
        return self.name if own else blocking.ALL_QUEUES

    def _unblock_all(self, reason: str) -> None:
        shown = self.event_attributes()
        for producer in self.ledger.members:
            if blocking.unblock(self.turn, producer, reason, shown):
                self.ledger.request(producer)

    def room(self) -> int:
        """Credits that may be given out now; below 0: credits to take back."""
        room = self.ledger.room(self.limits, self.depth_bytes, self.depth_messages)
        return min(room, self._paced()) if self.staged else room

    def grant(self) -> list[Producer]:
        """Hand out credit where there is room. Returns the producers whose credit has changed."""
        self.weigh()
        state = self.state
        ledger = self.ledger
        most = self._paced() if self.staged else UNLIMITED
        if state is State.OVERFULL and self.limits.withheld_messages and not self.parked and self.admits_withheld():
            return ledger.grant_withheld(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if state is not State.NORMAL and (state.stopped or not self.overflow.grants):
            return []
        if self.awaiting:
            scarcity.admit_parked(self)
        if self.parked:
            self.admit_parked_while_room()
        if self.state is not state:
            return []  # what was let in has filled it
        if not ledger.waiting and not ledger.idle and not ledger.pending and not ledger.probes:
            return []
        if self.staged:
            most = self._paced()  # what was let in counts
        changed = ledger.grant(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if ledger.contended or ledger.pending or ledger.idle or self._may_raise():
            self.contents.watch()
        return changed

    def _may_raise(self) -> bool:
        """Producers with probes get more, if nothing happens until then."""
        if not self.open or self.staged:
            return False
        return self.ledger.may_raise(self.limits, self.depth_bytes, self.depth_messages)

    def sweep(self) -> bool:
        """What time does to credit. False: nothing is left to watch."""
        ledger, turn = self.ledger, self.turn
        contended = self.open and ledger.contended and self.room() <= 0
        before = ledger.reserved
        most = self._paced() if self.staged else UNLIMITED
        drain, changed = ledger.sweep(turn.now, self.enqueued, contended=contended, most=most)
        turn.effects.extend(Drain(p.handle) for p in drain)
        turn.effects.extend(CreditChanged(p.handle) for p in changed)
        waiting = self._reject_expired() | scarcity.reject_expired(self)
        # They get their probes, and more than those, from `grant`.
        idle = self.open and (bool(ledger.idle) or self._may_raise())
        if drain or changed or waiting or idle or self.staged or ledger.reserved != before:
            self.touch()
        in_commits = self._admit_parked_of_commits()
        return in_commits or contended or waiting or idle or bool(ledger.pending) or bool(self.staged)

    def _reject_expired(self) -> bool:
        """Reject what has been parked for too long. Whether there is more to wait for."""
        if not self.overflow.expires:
            return False
        now, parked = self.turn.now, self.parked
        while parked and parked.first.deadline <= now:
            expired = parked.popleft()
            self.waited(now - expired.since)
            self.rejected += 1
            self.resolve(expired.receipt, Outcome.REJECTED)
            if expired.enrolment is not None:
                expired.enrolment.refused(self)
        return bool(parked)

    def _admit_parked_of_commits(self) -> bool:
        """See the module. False: no message in a transaction is parked."""
        if not self.parked or all(p.enrolment is None for p in self.parked):
            return False
        if self.state is State.OVERFULL and not self.shortages:
            enrolled = (p.enrolment.transaction for p in self.parked if p.enrolment is not None)
            first = next((each for each in enrolled if self._waits_for_itself(each)), None)
            for each in self.parked.take(lambda p: p.enrolment is not None and p.enrolment.transaction is first):
                self.admit_parked(each)
        return True

    def _waits_for_itself(self, transaction: Transaction) -> bool:
        since = transaction.committing_since
        if since is None or self.turn.now - since < COMMIT_WAIT_MS:
            return False
        return self.uncommitted_messages > 0 or transaction.takes_from(self)

    def credit_returned(self, producer: Producer, count: int) -> None:
        """The producer's link answered a drain."""
        self.ledger.returned(producer, count)
        self.touch()

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """The producer's link counts so much of its credit as used, for which no message may come."""
        if self.ledger.forgone(producer, count):
            self.turn.effects.append(CreditChanged(producer.handle))
        self.touch()

    def defer(self, producer: Producer, pending: int) -> Receipt:
        """The outcome of the producer's newest message comes later: when so many things have come."""
        receipt = Receipt(producer, pending)
        producer.receipts.append(receipt)
        return receipt

    def resolve(self, receipt: Receipt, outcome: Outcome) -> None:
        """One of the things that a message waits for has come; those whose turn it is are settled."""
        receipt.resolve(outcome)
        producer = receipt.producer
        receipts = producer.receipts
        while receipts and receipts[0].ready:
            first = receipts.popleft()
            last = self.turn.effects[-1] if self.turn.effects else None
            if isinstance(last, Settled) and last.port is producer.handle and last.outcome is first.outcome:
                last.count += 1
            else:
                self.turn.effects.append(Settled(producer.handle, 1, first.outcome))
        if producer in self.ledger.members:  # else its link has gone
            self.ledger.request(producer)
        self.touch()

    def admits_withheld(self) -> bool:
        """A message is still taken in, overfull as the queue is, if its settlement is withheld."""
        limits = self.limits
        return (
            self.depth_messages <= self.stop_messages + limits.withheld_messages
            and self.depth_bytes <= self.stop_bytes + limits.withheld_bytes
        )

    def park(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> None:
        """Keep a message out of the queue, unsettled, until there is room or its time is up."""
        receipt = self.defer(producer, 1)
        self.parked.append(ParkedMessage(receipt, body, self.turn.now, self._deadline(), enrolment))
        if enrolment is not None:
            enrolment.transaction.wait(self)
        self.choose_interception()
        self.contents.watch()
        self.touch()

    def admit_parked_while_room(self) -> None:
        """Enqueue parked messages until the queue is overfull. What is reserved for others does not count: it may never
        come, and is parked in its turn if it does."""
        while self.parked and self._admits_parked():
            self.admit_first_parked()
            self.weigh()
        self.choose_interception()

    def _admits_parked(self) -> bool:
        """Parked messages may be enqueued now."""
        if self.state.stopped or (self.staged and self._paced() <= 0):
            return False
        return self.overflow.admits_parked or not self.state.overfull

    def admit_first_parked(self) -> None:
        """Enqueue the message that has been parked the longest, unless it must go on waiting for want of more than
        room in the queue."""
        waiting = self.parked.popleft()
        if self.shortages:
            resource = self.contents.resource_of(waiting.body)
            if waiting.producer.awaited is not None or not self.admits(resource):
                scarcity.park(self, waiting, resource)
                return
        self.admit_parked(waiting)

    def admit_parked(self, waiting: ParkedMessage) -> None:
        """Enqueue a parked message."""
        self.waited(self.turn.now - waiting.since)
        if self.contents.spooling and waiting.enrolment is None:
            self.contents.spool(waiting.body, receipt=waiting.receipt)
        else:
            self.admit(waiting.body, receipt=waiting.receipt, enrolment=waiting.enrolment)
        self.resolve(waiting.receipt, Outcome.ACCEPTED)
        if waiting.enrolment is not None:
            waiting.enrolment.transaction.arrived(self)

    def waited(self, ms: int) -> None:
        """A wait for room of so many ms is over."""
        self.longest_ms = max(self.longest_ms, ms)

    # -- facts ------------------------------------------------------------------------------------------------

    def event_attributes(self) -> dict[str, Any]:
        """The attributes that every fact about this queue carries."""
        return {
            "queue": str(self.object_name),
            "state": self.state.value,
            "depth_messages": self.depth_messages,
            "depth_bytes": self.depth_bytes,
            "blocked_producers": self.blocked_producers,
        }

    def add_fact(self, kind: str, words: str, attributes: Mapping[str, Any]) -> None:
        subject = queue_subject(self.virtualhost, self.name)
        self.turn.add_fact(kind, self.object_name, subject, words, {**self.event_attributes(), **attributes})


def level(level: int) -> int:
    """A level as people and logs read it: 0 where there is none."""
    return 0 if level == UNLIMITED else level
