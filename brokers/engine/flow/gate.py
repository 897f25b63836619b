"""The flow control of one destination: its depth against its limits, its stops, its credit and the producers it blocks.

A gate counts the depth of its queue, and knows nothing else of it than `Contents`. The depth and operators' stops go
through the table in `table.py`; `credit.py` decides what follows for credit. The gate is composed of `Parking`
(messages outside the queue), `Settlement` (deferred and withheld settlements) and `Staging` (staged starts).

Messages of open transactions count on arrival; otherwise concurrent transactions would exceed the stop level together
at their commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from brokers.engine.flow import blocking, client_stops, scarcity, table
from brokers.engine.flow.contents import Contents
from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.enrolment import Enrolment, Transaction
from brokers.engine.flow.metering import Meter
from brokers.engine.flow.overflow import OVERFLOW_POLICIES, PARKING, SHORTAGE, Arrival, OverflowPolicy
from brokers.engine.flow.parking import Parking
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.settlement import Settlement
from brokers.engine.flow.staging import Staging
from brokers.engine.flow.table import Change, Input, State
from brokers.engine.flow.turn import CreditChanged, Drain, Turn
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.values.events import overfull_words, queue_subject, underfull_words
from brokers.engine.values.limits import UNLIMITED, Limits
from brokers.engine.values.outcomes import Outcome, Verdict
from brokers.engine.values.policy import Setting
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName, object_name


class FlowGate:
    """See the module. Times in ms since the epoch. `uncommitted_messages`, `uncommitted_bytes`: the part of the depth
    that is in open transactions. `settings`: the effective value of each policy field, with its origin. `overflow`: the
    queue's overflow policy. `active_overflow`: the policy that handles each message arriving now; None: messages are
    enqueued directly. `stops`: those of the whole destination; `client_stops`: those of some clients. `parked`,
    `awaiting`, `staged`: those of `parking` and `staging`."""

    __slots__ = (
        "active_overflow",
        "awaiting",
        "client_stops",
        "contents",
        "depth_bytes",
        "depth_messages",
        "enqueued",
        "footprint",
        "ledger",
        "limits",
        "name",
        "object_name",
        "overflow",
        "overfull_count",
        "overfull_ms",
        "overfull_since",
        "parked",
        "parking",
        "rejected",
        "settings",
        "settlement",
        "shortages",
        "staged",
        "staging",
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
        self.stop_bytes = self.limits.stop_bytes  # copied, since every message is compared with them
        self.stop_messages = self.limits.stop_messages
        self.state = State.NORMAL
        self.stops: dict[Scope, Stop] = {}
        self.client_stops: dict[Scope, Stop] = {}
        self.shortages: list[Usage] = []  # of the broker or the virtual host
        self.ledger = CreditLedger()
        self.footprint = self.ledger.footprint
        self.settlement = Settlement(turn, self.ledger, contents.touch)
        self.staging = Staging(turn, self.ledger)
        self.staged = self.staging.staged
        self.parking = Parking(self)
        self.parked = self.parking.parked
        self.awaiting = self.parking.awaiting
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
        self.rejected = 0

    def use(self, meter: Meter) -> None:
        """Count the queue's usage by this meter."""
        self.footprint.use(meter, *self.contents.usages(meter))

    def admits(self, resource: Resource) -> bool:
        """Return whether no shortage prevents enqueuing a parked message that uses this resource."""
        return all(usage.admits or not (usage.resource is resource or usage.blocks_all) for usage in self.shortages)

    def refuses(self, body: bytes) -> bool:
        """Return whether the message would be rejected now."""
        if self.shortages and self.limits.when_short == "reject" and not self.admits(self.contents.resource_of(body)):
            return True
        return self.state.overfull and self.overflow.arrival is Arrival.REJECT

    def weigh(self) -> None:
        """Count what the queue uses now of the limits beyond its own."""
        footprint = self.footprint
        footprint.weigh(self.contents.memory_bytes(), self.parked.bytes + self.awaiting.bytes)
        size = footprint.size
        self.ledger.pledge()
        if footprint.size > size > 0:  # messages have grown: outstanding credit may be too much
            self.take_back_unaffordable()
        self.contents.weigh_stores(footprint.meter)

    def take_back_unaffordable(self) -> None:
        """Withdraw credit if more is outstanding than the limits beyond the queue's have room for."""
        if self.footprint.left() < 0:
            self._withdraw()
            self.touch()

    # -- arriving messages ------------------------------------------------------------------------------------

    def above(self) -> None:
        """Drop messages or become overfull: the depth is above the stop level."""
        if self.overflow.drops:
            self.contents.drop_excess()
        else:
            self.feed(Input.ABOVE_STOP)

    def check_depth(self) -> None:
        """Compare the depth with the stop level after it has grown."""
        if self.depth_bytes > self.stop_bytes or self.depth_messages > self.stop_messages:
            self.above()
        self.touch()

    def intercept(self, producer: Producer, body: bytes, enrolment: Enrolment | None = None) -> Verdict:
        """Handle an arriving message by `active_overflow`; its credit has been used."""
        policy = self.active_overflow
        if policy is SHORTAGE:
            short = scarcity.intercept(self, producer, body, enrolment)
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
            self.admit(body, receipt=self.settlement.withhold(producer), enrolment=enrolment)
            return Verdict.PENDING
        if arrival is Arrival.SPOOL and enrolment is None:
            return self.contents.spool(body, producer)
        if arrival in (Arrival.ENQUEUE, Arrival.SPOOL):
            return self.admit(body, producer, enrolment=enrolment)
        self.parking.park(producer, body, enrolment)
        return Verdict.PENDING

    def admit(
        self,
        body: bytes,
        producer: Producer | None = None,
        receipt: Receipt | None = None,
        enrolment: Enrolment | None = None,
    ) -> Verdict:
        """Enqueue a message, or count it in its transaction."""
        if enrolment is None:
            return self.contents.enqueue(body, producer, receipt)
        return self.contents.enrol(body, enrolment)

    def reject(self) -> Verdict:
        """Reject a message."""
        self.rejected += 1
        self.touch()
        return Verdict.REJECTED

    def count_uncommitted(self, messages: int, size: int) -> None:
        """Add messages of open transactions to the depth, `size` in bytes; negative numbers: remove them."""
        self.uncommitted_messages += messages
        self.uncommitted_bytes += size
        self.depth_messages += messages
        self.depth_bytes += size

    def roll_back(self, messages: int, size: int) -> None:
        """Remove messages of a transaction that is rolled back from the depth, `size` in bytes."""
        self.count_uncommitted(-messages, -size)
        self.measure()
        self.touch()

    def abandon(self, transaction: Transaction) -> None:
        """Settle the parked messages of a transaction that is rolled back."""
        for parked in self.parking.take_out(
            lambda p: p.enrolment is not None and p.enrolment.transaction is transaction
        ):
            self.settlement.resolve(parked.receipt, Outcome.ROLLED_BACK)

    # -- producers --------------------------------------------------------------------------------------------

    @property
    def producers(self) -> Iterable[Producer]:
        return self.ledger.members

    @property
    def producer_count(self) -> int:
        return len(self.ledger.members)

    @property
    def blocked_producers(self) -> int:
        """The number of blocked producers: all, or those that a shortage or a stop of their client blocks."""
        if self.state.stopped or (self.state.overfull and self.overflow.blocks):
            return len(self.ledger.members)
        return scarcity.blocked_producers(self, self.limits)

    def attach_producer(self, producer: Producer) -> None:
        """Attach a producer, blocked if the queue is overfull or stopped, or its client is stopped."""
        self.ledger.join(producer)
        for reason in self.reasons():
            blocking.block(self.turn, producer, reason, self.cause_of(reason), self.event_attributes())
        if self.client_stops:
            client_stops.attach(self, producer)
        if self.shortages:
            scarcity.review(self, producer)
        self.touch()

    def detach_producer(self, producer: Producer) -> None:
        """Detach a producer and drop its parked messages, none of which was accepted."""
        if producer.receipts:
            for lost in self.parking.take_out_of(producer):
                if lost.enrolment is not None:
                    lost.enrolment.lost()
        self.settlement.forget(producer)
        self.ledger.leave(producer)
        blocking.detached(self.turn, producer)
        self.touch()

    # -- flow control -----------------------------------------------------------------------------------------

    def reasons(self) -> list[str]:
        """Return the reasons that block all producers of this queue now."""
        reasons = [table.overfull_reason(self.name)] if self.state.overfull and self.overflow.blocks else []
        reasons.extend(table.stop_reason(str(scope)) for scope in self.stops)
        return reasons

    def set_limits(self, limits: Limits, settings: Mapping[str, Setting]) -> None:
        """Apply other limits, with immediate effect."""
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
            self.parking.restart_deadlines()
        scarcity.review_all(self)
        self.touch()

    def switch_policy(self, before: OverflowPolicy) -> None:
        """Switch to the overflow policy `overflow`: settle and enqueue what the policy `before` withheld and parked."""
        self.active_overflow = None
        if before.arrival is Arrival.WITHHOLD:
            self.settlement.settle_withheld()
        if before.expires:
            self.parking.admit_all()
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
                    self.parking.admit_first()
        self.choose_interception()

    def interception(self) -> OverflowPolicy | None:
        """Return the policy for arriving messages, apart from shortages: `overflow` while the queue is overfull and its
        policy intercepts messages; PARKING while messages are parked; else None."""
        overfull = self.overflow if self.state.overfull and self.overflow.intercepts else None
        if self.parked and (overfull is None or not overfull.grants):
            return PARKING
        return overfull

    def choose_interception(self) -> None:
        """Update `active_overflow`."""
        self.active_overflow = SHORTAGE if self.shortages else self.interception()

    def take_credit_back(self, producer: Producer) -> None:
        """Withdraw all credit of one producer."""
        self.ledger.withdraw_from(producer, self.turn.now)
        self.turn.effects.append(CreditChanged(producer.handle))
        self.contents.watch()

    def measure(self) -> None:
        """Compare the depth with the levels, and change the state accordingly."""
        level = table.measure(self.limits, self.depth_bytes, self.depth_messages)
        if level is Input.ABOVE_STOP:
            self.above()
        elif level is not None:
            self.feed(level)

    def stays_overfull(self, messages: int, size: int) -> bool:
        """Return whether the queue is overfull, and still is after the removal of messages of `size` bytes."""
        left = table.measure(self.limits, self.depth_bytes - size, self.depth_messages - messages)
        return self.state.overfull and left is not Input.AT_RESUME

    def stop(self, stop: Stop) -> bool:
        """Apply an operator's stop, or its staged start. Return False if it applied already."""
        if stop.scope.client:
            return client_stops.begin(self, stop)
        if stop.stage is not None:
            return self._begin_stage(stop)
        if self.staged:
            self.staging.end(stop.scope)
        known = len(self.stops)
        self.stops[stop.scope] = stop
        if len(self.stops) == known:  # with another end
            return False
        self.state, change = table.step(self.state, Input.STOP)
        if change is not None:
            self._stop_began()
        if self.ledger.members:
            self._block_all(table.stop_reason(str(stop.scope)))
            self.touch()
        else:  # of ten thousand stopped queues, most: there is nothing to dispatch or grant
            self.contents.note_change()
        return True

    def start(self, scope: Scope) -> bool:
        """Lift an operator's stop or its staged start. Return False if there is none."""
        if scope.client:
            return client_stops.lift(self, scope)
        if self.staging.end(scope):
            self.touch()
            return True
        if self.stops.pop(scope, None) is None:
            return False
        if not self.stops:
            self.state, change = table.step(self.state, Input.START)
            if change is not None:
                self._stop_ended()
        if self.ledger.members:
            self._unblock_all(table.stop_reason(str(scope)))
            self.touch()
        else:
            self.contents.note_change()
        return True

    def _begin_stage(self, stop: Stop) -> bool:
        """Unblock the producers of a stop, and grant credit at the rate of its stage. Return False if the staged start
        has begun already."""
        known = stop.scope in self.staged
        self.start(stop.scope)
        self.staging.begin(stop)
        self.contents.watch()
        self.touch()
        return not known

    def begin_shortage(self, usage: Usage) -> None:
        """Block the producers whose messages would use a resource that is short."""
        self.shortages.append(usage)
        self.choose_interception()
        scarcity.review_all(self)
        self.touch()

    def end_shortage(self, usage: Usage) -> None:
        self.shortages.remove(usage)
        self.choose_interception()
        scarcity.review_all(self)
        self.touch()

    @property
    def open(self) -> bool:
        """Whether the queue is neither overfull nor stopped."""
        return self.state is State.NORMAL

    def feed(self, given: Input) -> None:
        """Step the state machine by a level that the depth has passed, and act on the change."""
        self.state, change = table.step(self.state, given)
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
            scarcity.review_all(self)  # the resource of a spooling queue depends on the state
        if self.overflow.blocks and self.ledger.members:
            self.parking.waited(lasted)
        self._unblock_all(table.overfull_reason(self.name))
        self.settlement.settle_withheld()
        self.parking.admit_while_room()

    def _stop_began(self) -> None:
        self.stopped_since = self.turn.now
        if self.ledger.members:
            self._withdraw()

    def _stop_ended(self) -> None:
        self.stopped_since = None
        self.parking.admit_while_room()

    _CHANGES = {
        Change.OVERFULL_BEGAN: _overfull_began,
        Change.OVERFULL_ENDED: _overfull_ended,
    }

    def _withdraw(self, count: int | None = None) -> None:
        """Withdraw all outstanding credit, or at least `count`."""
        turn = self.turn
        turn.effects.extend(CreditChanged(p.handle) for p in self.ledger.withdraw(turn.now, count))
        if self.ledger.pending:
            self.contents.watch()

    def _block_all(self, reason: str) -> None:
        attributes = self.event_attributes()
        for producer in self.ledger.members:
            blocking.block(self.turn, producer, reason, self.cause_of(reason), attributes)

    def has_stop(self, scope: Scope) -> bool:
        """Return whether a stop of this scope applies, and is not being lifted in stages."""
        return scope in (self.client_stops if scope.client else self.stops)

    def cause_of(self, reason: str) -> str:
        """Return the cause for the log: the queue, if it is overfull or stopped itself."""
        own = reason == table.overfull_reason(self.name) or any(
            scope.queue and reason == table.stop_reason(str(scope)) for scope in (*self.stops, *self.client_stops)
        )
        return self.name if own else blocking.ALL_QUEUES

    def _unblock_all(self, reason: str) -> None:
        attributes = self.event_attributes()
        for producer in self.ledger.members:
            if blocking.unblock(self.turn, producer, reason, attributes):
                self.ledger.request(producer)

    def room(self) -> int:
        """Return the credits that may be granted now; if negative, the credits to withdraw."""
        room = self.ledger.room(self.limits, self.depth_bytes, self.depth_messages)
        return min(room, self.staging.allowance()) if self.staged else room

    def grant(self) -> list[Producer]:
        """Grant credit while there is room. Return the producers whose credit changed."""
        self.weigh()
        state = self.state
        ledger = self.ledger
        most = self.staging.allowance() if self.staged else UNLIMITED
        if state is State.OVERFULL and self.limits.withheld_messages:
            return self._grant_withheld(most)
        if state is not State.NORMAL and (state.stopped or not self.overflow.grants):
            return []
        if self.awaiting:
            scarcity.admit_parked(self)
        if self.parked:
            self.parking.admit_while_room()
        if self.state is not state:
            return []  # enqueued messages have made it overfull
        if not ledger.waiting and not ledger.idle and not ledger.pending and not ledger.probes:
            return []
        if self.staged:
            most = self.staging.allowance()  # less what enqueued messages have used
        changed = ledger.grant(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if ledger.contended or ledger.pending or ledger.idle or self._may_raise():
            self.contents.watch()
        return changed

    def _grant_withheld(self, most: int) -> list[Producer]:
        """Do as `grant` for a queue that is overfull and withholds settlements: at most `most` credits."""
        if self.parked or not self.admits_withheld():
            most = 0
        ledger = self.ledger
        changed = ledger.grant_withheld(self.limits, self.depth_bytes, self.depth_messages, self.turn.now, most)
        if ledger.pending:
            self.contents.watch()
        return changed

    def _may_raise(self) -> bool:
        """Return whether probes will be replaced by credit after `PROBE_MS` without a message."""
        if not self.open or self.staged:
            return False
        return self.ledger.may_raise(self.limits, self.depth_bytes, self.depth_messages)

    def sweep(self) -> bool:
        """Take back unused credit and reject expired messages. Return False if nothing is left to sweep."""
        ledger, turn = self.ledger, self.turn
        contended = self.open and ledger.contended and self.room() <= 0
        before = ledger.reserved
        most = self.staging.allowance() if self.staged else UNLIMITED
        drain, changed = ledger.sweep(turn.now, self.enqueued, contended=contended, most=most)
        turn.effects.extend(Drain(p.handle) for p in drain)
        turn.effects.extend(CreditChanged(p.handle) for p in changed)
        waiting = self.parking.reject_expired() | scarcity.reject_expired(self)
        # `grant` gives them probes and credit.
        idle = self.open and (bool(ledger.idle) or self._may_raise())
        if drain or changed or waiting or idle or self.staged or ledger.reserved != before:
            self.touch()
        in_commits = self.parking.admit_for_commits()
        return in_commits or contended or waiting or idle or bool(ledger.pending) or bool(self.staged)

    def credit_returned(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client returned in answer to a drain."""
        self.ledger.returned(producer, count)
        self.touch()

    def credit_forgone(self, producer: Producer, count: int) -> None:
        """Take back `count` credits that the client used up without sending messages."""
        if self.ledger.forgone(producer, count):
            self.turn.effects.append(CreditChanged(producer.handle))
        self.touch()

    def admits_withheld(self) -> bool:
        """Return whether an overfull queue still accepts messages with a withheld settlement."""
        limits = self.limits
        return (
            self.depth_messages <= self.stop_messages + limits.withheld_messages
            and self.depth_bytes <= self.stop_bytes + limits.withheld_bytes
        )

    # -- facts ------------------------------------------------------------------------------------------------

    def event_attributes(self) -> dict[str, Any]:
        """Return the attributes of every event of this queue."""
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
    """Return a level for people and logs: 0 if there is none."""
    return 0 if level == UNLIMITED else level
