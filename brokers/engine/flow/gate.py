"""The flow control of one destination: its depth against its limits, its stops, and the producers it holds.

A gate knows how deep its destination is, not what is in it. What its depth says, or an operator asks for, goes through
the table in `table.py`; what that means for credit is told by `credit.py`. `queues/` puts messages behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from brokers.engine.flow import blocking, scarcity, table
from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.overflow import PARKING, WAYS, Overflow, Reject, Verdict, Waiting
from brokers.engine.flow.pacing import Pacer
from brokers.engine.flow.parked import Parked
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.receipt import Outcome, Receipt
from brokers.engine.flow.table import Change, Input, State
from brokers.engine.flow.turn import CreditChanged, Drain, Settled, Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.events import overfull_words, queue_subject, underfull_words
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.policy import Setting, Value
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName, object_name

if TYPE_CHECKING:
    from brokers.engine.services.transaction import Enrolment, Transaction


class Gate:
    """See the module. Times in ms since the epoch. `own`: the policy fields set on the destination itself."""

    __slots__ = (
        "depth_bytes",
        "depth_messages",
        "enqueued",
        "footprint",
        "full",
        "lacking",
        "ledger",
        "limits",
        "longest_ms",
        "name",
        "object_name",
        "outside",
        "overflow",
        "overfull_count",
        "overfull_ms",
        "overfull_since",
        "own",
        "pacer",
        "rejected",
        "settings",
        "shortages",
        "staged",
        "state",
        "stop_bytes",
        "stop_messages",
        "stopped_since",
        "stops",
        "turn",
        "version",
        "virtualhost",
        "withheld",
    )

    def __init__(self, virtualhost: str, name: str, turn: Turn) -> None:
        self.virtualhost = virtualhost
        self.name = name
        self.object_name: ObjectName = object_name("Queue", virtualhost=virtualhost, name=name)
        self.turn = turn
        self.version = 1
        self.own: dict[str, Value] = {}
        self.settings: Mapping[str, Setting] = {}
        self.limits = Limits()
        self.stop_bytes = self.limits.stop_bytes  # the two that every message is compared with
        self.stop_messages = self.limits.stop_messages
        self.state = State.NORMAL
        self.stops: dict[Scope, Stop] = {}
        self.staged: dict[Scope, Stop] = {}  # stops that are being lifted step by step: they pace, and hold nobody
        self.pacer: Pacer | None = None  # while any is
        self.shortages: list[Usage] = []  # of what the broker or the virtual host has run short of
        self.ledger = CreditLedger()
        self.footprint = self.ledger.footprint
        self.depth_messages = 0
        self.depth_bytes = 0
        self.enqueued = 0
        self.overfull_since: int | None = None
        self.stopped_since: int | None = None
        self.overfull_count = 0
        self.overfull_ms = 0
        self.overflow: Overflow = WAYS[self.limits.full]
        self.full: Overflow | None = None  # see `choose_interception`
        self.outside = Parked()  # messages that wait for room
        self.lacking = Parked()  # messages that wait for the end of a shortage
        self.withheld: deque[Receipt] = deque()  # of messages that are in, and are settled when the queue resumes
        self.rejected = 0
        self.longest_ms = 0  # the longest wait that is over

    def touch(self) -> None:
        """There may be something to dispatch or to grant at the end of the turn."""
        raise NotImplementedError

    def watch(self) -> None:
        """There is credit to take back: sweep by time."""
        raise NotImplementedError

    def enqueue(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message, and check the depth after it. TAKEN: it is safe. HELD: the receipt waits until it is; without
        one, `producer` gets one."""
        raise NotImplementedError

    def spool(self, body: bytes, producer: Producer | None = None, receipt: Receipt | None = None) -> Verdict:
        """Add a message, with its body to the temp store."""
        raise NotImplementedError

    def enrol(self, body: bytes, enrolment: Enrolment) -> Verdict:
        """Count a message of an open transaction, and check the depth after it."""
        raise NotImplementedError

    def abandon(self, transaction: Transaction) -> None:
        """The transaction is rolled back: its messages that wait outside the queue have their outcome."""
        raise NotImplementedError

    def admit(
        self,
        body: bytes,
        producer: Producer | None = None,
        receipt: Receipt | None = None,
        enrolment: Enrolment | None = None,
    ) -> Verdict:
        """Add a message, in a transaction or not."""
        return self.enqueue(body, producer, receipt) if enrolment is None else self.enrol(body, enrolment)

    @property
    def memory_bytes(self) -> int:
        """Bytes of its messages whose bodies are in memory; not of those that wait outside."""
        return self.depth_bytes

    def use(self, meter: Meter) -> None:
        """Have counted there what the queue takes up."""
        self.footprint.use(meter, self.transient_usages(meter), self.stored_usages(meter))

    def transient_usages(self, meter: Meter) -> tuple[Usage, ...]:
        """What its messages may use that are not stored."""
        return (meter.memory,)

    def stored_usages(self, meter: Meter) -> tuple[Usage, ...]:
        """What those use that are."""
        return ()

    @property
    def spooling(self) -> bool:
        """What comes now goes to the temp store, unless it is for the message store."""
        return False

    def transient_resource(self) -> Resource:
        """What a message would use now that is not stored."""
        return Resource.MEMORY

    def resource_of(self, body: bytes) -> Resource:
        """What a message would use now."""
        return self.transient_resource()

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        """What the producer's next message may use, if that is like its last."""
        return (self.transient_resource(),)

    def admits(self, resource: Resource) -> bool:
        """No shortage holds a message that is here and uses this resource."""
        return all(usage.admits or not (usage.resource is resource or usage.whole) for usage in self.shortages)

    def refuses(self, body: bytes) -> bool:
        """A message would be rejected that came now."""
        if self.shortages and self.limits.when_short == "reject" and not self.admits(self.resource_of(body)):
            return True
        return self.state.overfull and isinstance(self.overflow, Reject)

    def weigh(self) -> None:
        """Count what the queue takes up now of what is limited for the broker or the virtual host."""
        footprint = self.footprint
        footprint.weigh(self.memory_bytes, self.outside.bytes + self.lacking.bytes)
        size = footprint.size
        self.ledger.pledge()
        if footprint.size > size > 0:  # messages have grown: what is out may be too much
            self.take_back_unaffordable()

    def take_back_unaffordable(self) -> None:
        """Take credit back, if more is out than the limits beyond the queue's have room for."""
        if self.footprint.left() < 0:
            self._withdraw()
            self.touch()

    def drop_excess(self) -> None:
        """Of a ring: drop the oldest messages until the depth is at or below the stop level."""
        raise NotImplementedError

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
            blocking.block(self.turn, producer, reason, self._cause(reason), self.shown())
        if self.shortages:
            scarcity.review(self, producer)
        self.touch()

    def detach_producer(self, producer: Producer) -> None:
        """Messages of it that wait outside were never accepted: they go with it."""
        if producer.line:
            for lost in self.take_out(lambda waiting: waiting.producer is producer):
                if lost.enrolment is not None:
                    lost.enrolment.lost()
        producer.line.clear()
        self.ledger.leave(producer)
        blocking.detached(self.turn, producer)
        self.touch()

    def take_out(self, wanted: Callable[[Waiting], bool]) -> list[Waiting]:
        """Forget messages that wait outside."""
        taken = [*self.outside.take(wanted), *self.lacking.take(wanted)]
        for producer in {waiting.producer for waiting in taken if waiting.producer.lacking is not None}:
            if all(waiting.producer is not producer for waiting in self.lacking):
                producer.lacking = None
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
        before, self.overflow = self.overflow, WAYS[limits.full]
        if self.overflow is not before:
            self._change_way(before)
        self.measure()
        if (known.full, known.when_short, known.reject_after_ms) != (
            limits.full,
            limits.when_short,
            limits.reject_after_ms,
        ):
            self._set_deadlines()
        for producer in self.ledger.members:
            scarcity.review(self, producer)
        self.touch()

    def _set_deadlines(self) -> None:
        """What waits outside may wait for so long from now on; other changes leave it the time that it has."""
        for waiting in self.lacking:
            waiting.deadline = scarcity.deadline(self)
        for waiting in self.outside:
            waiting.deadline = self.overflow.deadline(self)
        self.watch()

    def _change_way(self, before: Overflow) -> None:
        """Another way of being full is in force: what the one before held is let go, and nothing is lost."""
        self.full = None
        before.left(self)
        reason = table.overfull_reason(self.name)
        if self.limits.ring:
            self.drop_excess()
            self.feed(Input.AT_RESUME)
        elif self.state.overfull:
            if self.limits.bounded:
                self._withdraw()
            if self.overflow.blocks:
                self._hold_all(reason)
            else:
                self._free_all(reason)
                while self.outside and not self.state.stopped:
                    self.let_first_in()
        self.choose_interception()

    def interception(self) -> Overflow | None:
        """Who is asked about every message, but for shortages: `overflow` while the queue is overfull, if it wants it;
        PARKING while others wait outside; else messages go straight in."""
        overfull = self.overflow if self.state.overfull and self.overflow.intercepts else None
        if self.outside and (overfull is None or not overfull.grants):
            return PARKING
        return overfull

    def choose_interception(self) -> None:
        """Who is asked about every message from now on."""
        self.full = scarcity.SHORT if self.shortages else self.interception()

    def _review_all(self) -> None:
        for producer in self.ledger.members:
            scarcity.review(self, producer)

    def take_credit_back(self, producer: Producer) -> None:
        """All that one producer has."""
        self.ledger.withdraw_from(producer, self.turn.now)
        self.turn.effects.append(CreditChanged(producer))
        self.watch()

    def measure(self) -> None:
        """Look at the depth, and act on what it says."""
        seen = table.measure(self.limits, self.depth_bytes, self.depth_messages)
        if seen is Input.ABOVE_STOP:
            self.overflow.above(self)
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
            self._hold_all(table.stop_reason(str(stop.scope)))
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
            self._free_all(table.stop_reason(str(scope)))
        self.touch()
        return True

    def _begin_stage(self, stop: Stop) -> bool:
        """Let the producers in again, as fast as the stage of the stop allows."""
        known = stop.scope in self.staged
        if self.pacer is None:
            self.pacer = Pacer(self.turn.now, self.ledger.given)
        self.start(stop.scope)
        self.staged[stop.scope] = stop
        if self.pacer is None:  # it was in its stage before
            self.pacer = Pacer(self.turn.now, self.ledger.given)
        self.watch()
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
        return self.pacer.allowance(min(rates), now, self.ledger.given)

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
        self.state_fact("queue-overfull", words, {})
        overflow = self.overflow
        self.choose_interception()
        if overflow.withdraws:
            self._withdraw()
        elif limits.bounded and (excess := -self.room()) > 0:  # the limit was lowered, or messages have grown
            self._withdraw(excess)
        if overflow.blocks:
            self._hold_all(table.overfull_reason(self.name))

    def _overfull_ended(self) -> None:
        limits, now = self.limits, self.turn.now
        lasted = max(0, now - (self.overfull_since or now))
        self.overfull_since = None
        self.overfull_ms += lasted
        words = underfull_words(
            self.depth_bytes, level(limits.resume_bytes), self.depth_messages, level(limits.resume_messages)
        )
        self.state_fact("queue-underfull", words, {"overfull_ms": lasted})
        self.choose_interception()
        if self.shortages:
            self._review_all()  # what a queue spools depends on it
        if self.overflow.blocks and self.ledger.members:
            self.waited(lasted)
        self._free_all(table.overfull_reason(self.name))
        self.overflow.resumed(self)
        self.let_in_while_room()

    def _stop_began(self) -> None:
        self.stopped_since = self.turn.now
        self._withdraw()

    def _stop_ended(self) -> None:
        self.stopped_since = None
        self.let_in_while_room()

    _CHANGES = {
        Change.OVERFULL_BEGAN: _overfull_began,
        Change.OVERFULL_ENDED: _overfull_ended,
        Change.STOP_BEGAN: _stop_began,
        Change.STOP_ENDED: _stop_ended,
    }

    def _withdraw(self, count: int | None = None) -> None:
        """Take back all credit that is out, or at least so much."""
        turn = self.turn
        turn.effects.extend(CreditChanged(p) for p in self.ledger.withdraw(turn.now, count))
        if self.ledger.pending:
            self.watch()

    def _hold_all(self, reason: str) -> None:
        shown = self.shown()
        for producer in self.ledger.members:
            blocking.block(self.turn, producer, reason, self._cause(reason), shown)

    def _cause(self, reason: str) -> str:
        """What the log names as the cause: the queue, if it is overfull or stopped for itself."""
        own = reason == table.overfull_reason(self.name) or any(
            scope.queue and reason == table.stop_reason(str(scope)) for scope in self.stops
        )
        return self.name if own else blocking.ALL_QUEUES

    def _free_all(self, reason: str) -> None:
        shown = self.shown()
        for producer in self.ledger.members:
            if blocking.unblock(self.turn, producer, reason, shown):
                self.ledger.ask(producer)

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
        if state is State.OVERFULL and self.limits.held_messages and not self.outside and self.takes_held():
            return ledger.grant_held(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if state is not State.NORMAL and (state.stopped or not self.overflow.grants):
            return []
        if self.lacking:
            scarcity.let_in(self)
        if self.outside:
            self.let_in_while_room()
        if self.state is not state:
            return []  # what was let in has filled it
        if not ledger.waiting and not ledger.idle and not ledger.pending and not ledger.probes:
            return []
        if self.staged:
            most = self._paced()  # what was let in counts
        changed = ledger.grant(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if ledger.contended or ledger.pending or ledger.idle or self._may_raise():
            self.watch()
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
        turn.effects.extend(Drain(p) for p in drain)
        turn.effects.extend(CreditChanged(p) for p in changed)
        waiting = self.overflow.passed(self) | scarcity.passed(self)
        # They get their probes, and more than those, from `grant`.
        idle = self.open and (bool(ledger.idle) or self._may_raise())
        if drain or changed or waiting or idle or self.staged or ledger.reserved != before:
            self.touch()
        return contended or waiting or idle or bool(ledger.pending) or bool(self.staged)

    def credit_returned(self, producer: Producer, count: int) -> None:
        """The producer's link answered a drain."""
        self.ledger.returned(producer, count)
        self.touch()

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """The producer's link counts so much of its credit as used, for which no message may come."""
        if self.ledger.forgone(producer, count):
            self.turn.effects.append(CreditChanged(producer))
        self.touch()

    def defer(self, producer: Producer, pending: int) -> Receipt:
        """The outcome of the producer's newest message comes later: when so many things have come."""
        receipt = Receipt(producer, pending)
        producer.line.append(receipt)
        return receipt

    def resolve(self, receipt: Receipt, outcome: Outcome) -> None:
        """One of the things that a message waits for has come; those whose turn it is are settled."""
        receipt.tell(outcome)
        producer = receipt.producer
        line = producer.line
        while line and line[0].ready:
            first = line.popleft()
            last = self.turn.effects[-1] if self.turn.effects else None
            if isinstance(last, Settled) and last.producer is producer and last.outcome is first.outcome:
                last.count += 1
            else:
                self.turn.effects.append(Settled(producer, 1, first.outcome))
        if producer in self.ledger.members:  # else its link has gone
            self.ledger.ask(producer)
        self.touch()

    def takes_held(self) -> bool:
        """A message is still taken in, overfull as the queue is, if its settlement is withheld."""
        limits = self.limits
        return (
            self.depth_messages <= self.stop_messages + limits.held_messages
            and self.depth_bytes <= self.stop_bytes + limits.held_bytes
        )

    def wait_outside(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> None:
        """Keep a message out of the queue, unsettled, until there is room or its time is up."""
        receipt = self.defer(producer, 1)
        self.outside.append(Waiting(receipt, body, self.turn.now, self.overflow.deadline(self), enrolment))
        if enrolment is not None:
            enrolment.transaction.wait(self)
        self.choose_interception()
        self.watch()
        self.touch()

    def let_in_while_room(self) -> None:
        """Take what waits outside until the queue is overfull. What is reserved for others does not count: it may never
        come, and waits outside in its turn if it does."""
        while self.outside and self._takes():
            self.let_first_in()
            self.weigh()
        self.choose_interception()

    def _takes(self) -> bool:
        """What waits outside goes in now."""
        if self.state.stopped or (self.staged and self._paced() <= 0):
            return False
        return self.overflow.takes or not self.state.overfull

    def let_first_in(self) -> None:
        """Enqueue the message that has waited outside the longest, unless it must go on waiting for want of more than
        room in the queue."""
        waiting = self.outside.popleft()
        if self.shortages:
            resource = self.resource_of(waiting.body)
            if waiting.producer.lacking is not None or not self.admits(resource):
                scarcity.hold(self, waiting, resource)
                return
        self.let_in(waiting)

    def let_in(self, waiting: Waiting) -> None:
        """Enqueue a message that has waited outside."""
        self.waited(self.turn.now - waiting.since)
        if self.spooling and waiting.enrolment is None:
            self.spool(waiting.body, receipt=waiting.receipt)
        else:
            self.admit(waiting.body, receipt=waiting.receipt, enrolment=waiting.enrolment)
        self.resolve(waiting.receipt, Outcome.ACCEPTED)
        if waiting.enrolment is not None:
            waiting.enrolment.transaction.arrived(self)

    def waited(self, ms: int) -> None:
        self.longest_ms = max(self.longest_ms, ms)

    def longest_wait(self, now: int) -> int:
        """The longest that a producer or a message has waited for room, ms, those that still do included."""
        since = [parked.first.since for parked in (self.outside, self.lacking) if parked]
        if self.overfull_since is not None and self.overflow.blocks and self.ledger.members:
            since.append(self.overfull_since)
        return max([self.longest_ms, *(now - s for s in since)])

    def percent_used(self) -> float | None:
        """Of its capacity, in messages or bytes, whichever is used more; None if it has none."""
        limits = self.limits
        used = [
            100 * depth / (capacity or stop)
            for depth, capacity, stop in (
                (self.depth_messages, limits.capacity_messages, limits.stop_messages),
                (self.depth_bytes, limits.capacity_bytes, limits.stop_bytes),
            )
            if capacity or stop != UNLIMITED
        ]
        return max(used, default=None)

    def resume_condition(self) -> str:
        """What would end overfull, in words, from the depth now."""
        limits, left = self.limits, []
        for unit, depth, resume in (
            ("messages", self.depth_messages, limits.resume_messages),
            ("bytes", self.depth_bytes, limits.resume_bytes),
        ):
            if depth > resume:
                left.append(f"{resume:,} {unit} or fewer (now {depth:,})")
        if not left:
            return f"queue {self.name} resumes"
        return f"queue {self.name} comes down to {' and '.join(left)}{self.held_in_transactions()}"

    def held_in_transactions(self) -> str:
        """In words, which of its messages consumers cannot have yet; "" if there are none."""
        raise NotImplementedError

    # -- facts ------------------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """The attributes that every fact about this queue carries."""
        return {
            "queue": str(self.object_name),
            "state": self.state.value,
            "depth_messages": self.depth_messages,
            "depth_bytes": self.depth_bytes,
            "blocked_producers": self.blocked_producers,
        }

    def state_fact(self, kind: str, words: str, attributes: Mapping[str, Any]) -> None:
        subject = queue_subject(self.virtualhost, self.name)
        self.turn.state(kind, self.object_name, subject, words, {**self.shown(), **attributes})


def level(level: int) -> int:
    """A level as people and logs read it: 0 where there is none."""
    return 0 if level == UNLIMITED else level
