"""A fan-out: a link of a client that publishes to an exchange, or to another address in each message.

For each queue that its messages reach, a fan-out has a *branch*: a producer of that queue like any other, with credit
from its ledger, reasons to be blocked, and a fair share. A message is published when all its branches have credit;
until then it waits here, unsettled. So the bound on overshoot applies to routed messages as well, and an overfull queue
delays the messages to it and later messages to the same queues, but no other messages of the link.

A message to several queues is published to all of them at once, when all have room. If one of them *rejects* (mechanism
reject), the message is rejected as a whole. With reject-after and hold, its settlement is withheld while the other
queues already have it.

Queues that get the same messages share their reasons: the producer of each is blocked until all of them accept
messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from brokers.engine.flow.blocking import fan_out_changed
from brokers.engine.flow.credit import DEFAULT_LARGEST_BYTES, DEFAULT_MESSAGE_BYTES
from brokers.engine.flow.metering import Footprint
from brokers.engine.flow.producer import Producer
from brokers.engine.ports import LinkPort
from brokers.engine.queues.queue import Queue
from brokers.engine.queues.runs import NOTHING, Allowance
from brokers.engine.registry.connection import Connection
from brokers.engine.registry.transaction import Enrolment, Transaction
from brokers.engine.services.links import Links
from brokers.engine.values.limits import UNLIMITED
from brokers.engine.values.outcomes import Outcome, Verdict

#: Messages without an outcome that a client may have; fewer if a limit on memory has no room for them, but at least
#: one.
WINDOW = 100
#: Sets of queues that a fan-out caches, to work out once which queues share all messages.
MOST_CACHED_SETS = 1000


class RoutedMessage:
    """A message to the queues of `branches`. `delivery` belongs to the protocol layer. `pending`: the number of
    branches without an outcome. `enrolment`: its part in a transaction, None outside one."""

    __slots__ = ("body", "branches", "delivery", "enrolment", "outcome", "pending")

    def __init__(self, body: bytes, branches: Sequence[Branch], delivery: Any, enrolment: Enrolment | None) -> None:
        self.body = body
        self.branches = list(branches)
        self.delivery = delivery
        self.enrolment = enrolment
        self.pending = len(self.branches)
        self.outcome = Outcome.ACCEPTED

    def record(self, outcome: Outcome) -> bool:
        """Record the outcome of one branch. Return True if it is the last."""
        self.pending -= 1
        if outcome is not Outcome.ACCEPTED:
            self.outcome = outcome
        return self.pending == 0


class Branch:
    """The producer of one queue of a fan-out, and its port: takes the effects that other producers' links take."""

    __slots__ = ("beside", "fan_out", "producer", "unsettled")

    producer: Producer

    def __init__(self, fan_out: FanOut) -> None:
        self.fan_out = fan_out
        self.beside: frozenset[Queue] | None = None  # the queues that got every message that this one got
        self.unsettled: deque[RoutedMessage] = deque()

    @property
    def open(self) -> bool:
        """Whether a message can be published now."""
        return self.producer.credit > 0

    def publish(self, message: RoutedMessage) -> None:
        queue, enrolment = self.producer.queue, message.enrolment
        if enrolment is None:
            verdict = queue.publish(self.producer, message.body)
        else:
            verdict = queue.publish_in(enrolment, self.producer, message.body)
        if verdict is Verdict.PENDING:
            self.unsettled.append(message)
        elif message.record(Outcome.ACCEPTED if verdict is Verdict.ACCEPTED else Outcome.REJECTED):
            self.fan_out.done(message)

    def publish_run(self, bodies: list[bytes], size: int, *, durable: bool) -> bool:
        """Publish a run to the queue. Return whether its outcome is pending."""
        verdict = self.producer.queue.publish_run(self.producer, bodies, size, durable=durable)
        return verdict is Verdict.PENDING

    # -- the port of the producer -------------------------------------------------------------------------------

    def sync_credit(self) -> None:
        if self.producer.credit:
            self.fan_out.pump()

    def drain(self) -> None:
        """Return all credit at once: inside the broker no message is in flight."""
        self.producer.queue.credit_returned(self.producer, self.producer.credit)

    def settle(self, count: int, outcome: Outcome) -> None:
        for _ in range(count):
            message = self.unsettled.popleft()
            if message.record(outcome):
                self.fan_out.done(message)

    @property
    def client_link(self) -> LinkPort:
        return self.fan_out.handle or self

    def end(self, condition: str, description: str) -> None:
        """The queue was deleted."""
        self.fan_out.forget(self)


class FanOut:
    """See the module. `settled` is called with each message that has its outcome. `credit`: messages that the client
    may send now. `cached_sets`: the sets of queues that its messages went to lately; `last`: that of the last one, or
    empty."""

    def __init__(
        self,
        links: Links,
        connection: Connection,
        link: str,
        channel: int,
        settled: Callable[[RoutedMessage], None],
    ) -> None:
        self.links = links
        self.handle: LinkPort | None = None  # the protocol layer's end of the link
        self.connection = connection
        self.link = link
        self.channel = channel
        self.settled = settled
        self.branches: dict[Queue, Branch] = {}
        self.cached_sets: set[tuple[Queue, ...]] = set()
        self.last: Sequence[Queue] = ()
        self.waiting: list[RoutedMessage] = []
        self.unsettled = 0
        self.footprint = Footprint(links.registry.virtualhosts[connection.virtualhost].meter)
        self.largest = 0  # message so far, in bytes
        self.credit = self._window()
        self.ended = False
        self._weigh()

    def publish(self, body: bytes, queues: Sequence[Queue], delivery: Any, enrolment: Enrolment | None = None) -> None:
        """Publish a message to these queues, at least one, now or once they have room. The client must have had
        credit."""
        self.credit -= 1
        self.unsettled += 1
        self.largest = max(self.largest, len(body))
        message = RoutedMessage(body, [self._branch(q) for q in queues], delivery, enrolment)
        self.waiting.append(message)
        if (together := tuple(queues)) not in self.cached_sets:
            self._cache_set(together, message.branches)
        self.last = queues
        if enrolment is not None:
            enrolment.transaction.wait(self)
        self.pump()

    def run_allowance(self) -> Allowance:
        """Return how long the next run may be if its messages go to the queues that the last one went to. It ends where
        the client's credit is topped up."""
        if self.waiting or not self.last or self.credit <= 0:
            return NOTHING
        allowances = [queue.run_allowance(self.branches[queue].producer) for queue in self.last]
        return Allowance(
            min(max(1, self.credit - self._window() // 2), *(each.messages for each in allowances)),
            min(each.size for each in allowances),
            min(each.largest for each in allowances),
        )

    def publish_run(self, bodies: list[bytes], size: int, *, durable: bool) -> list[RoutedMessage]:
        """Publish a run within its allowance, as `Queue.publish_run`. Return its messages, whose deliveries the caller
        sets, if their outcome is pending; empty: they are accepted."""
        self.credit -= len(bodies)
        self.largest = max(self.largest, *map(len, bodies))
        branches = [self.branches[queue] for queue in self.last]
        pending = [each for each in branches if each.publish_run(bodies, size, durable=durable)]
        if not pending:
            self._weigh()
            return []
        messages = [RoutedMessage(body, pending, None, None) for body in bodies]
        for branch in pending:
            branch.unsettled.extend(messages)
        self.unsettled += len(messages)
        self._weigh()
        return messages

    def _branch(self, queue: Queue) -> Branch:
        branch = self.branches.get(queue)
        if branch is None:
            branch = self.branches[queue] = Branch(self)
            branch.producer = self.links.attach_producer(
                self.connection, queue, self.link, self.channel, branch, inside=True
            )
        return branch

    def _cache_set(self, together: tuple[Queue, ...], branches: Sequence[Branch]) -> None:
        """Work out which queues share every message: a producer of one of them is blocked by the others too."""
        if len(self.cached_sets) >= MOST_CACHED_SETS:
            self.cached_sets.clear()
        self.cached_sets.add(together)
        whole = frozenset(together)
        #: By identity: branches that share all messages have one set, which is narrowed once.
        narrowed: dict[int, tuple[frozenset[Queue], frozenset[Queue]]] = {}
        for branch in branches:
            before = branch.beside
            if before is None:
                branch.beside = whole
                continue
            if id(before) not in narrowed:
                narrowed[id(before)] = before, (before if before <= whole else before & whole)
            branch.beside = narrowed[id(before)][1]
        self._share_reasons()

    def _share_reasons(self) -> None:
        siblings = tuple(branch.producer for branch in self.branches.values())
        groups: dict[int, tuple[Producer, ...]] = {}  # by the identity of the set of queues
        for branch in self.branches.values():
            branch.producer.siblings = siblings
            beside = branch.beside
            if beside is None or len(beside) == 1:
                branch.producer.fan_out = ()
                continue
            if id(beside) not in groups:
                groups[id(beside)] = self._producers_of(beside)
            branch.producer.fan_out = groups[id(beside)]
        fan_out_changed(self.links.turn, siblings)

    def _producers_of(self, queues: frozenset[Queue]) -> tuple[Producer, ...]:
        """Return the producers of these queues, the oldest first; none if it is a single one."""
        branches = [branch for queue in queues if (branch := self.branches.get(queue)) is not None]
        return tuple(sorted((b.producer for b in branches), key=lambda p: p.id)) if len(branches) > 1 else ()

    def pump(self) -> None:
        """Publish what can be published, in the order of arrival for each queue."""
        delayed: set[Branch] = set()
        waiting, self.waiting = self.waiting, []
        for message in waiting:
            if message.enrolment is not None and message.enrolment.over:
                message.outcome = Outcome.ROLLED_BACK
                self.done(message)
            elif all(branch.open and branch not in delayed for branch in message.branches):
                self._send(message)
            else:
                delayed.update(message.branches)
                self.waiting.append(message)
        self._weigh()

    def _weigh(self) -> None:
        """Count waiting messages, and what may still arrive on the client's credit. Queues count published messages."""
        self.footprint.weigh(0, sum(len(message.body) for message in self.waiting))
        self.footprint.pledge(self.credit, self.largest or DEFAULT_MESSAGE_BYTES)

    def _window(self) -> int:
        """Return `WINDOW`, or less if a limit on memory has no room for it."""
        left = self.footprint.left()
        if left == UNLIMITED:
            return WINDOW
        left += self.footprint.pledged
        return max(1, min(WINDOW, left // (2 * (self.largest or DEFAULT_LARGEST_BYTES))))

    def _send(self, message: RoutedMessage) -> None:
        refusing = [t for t in message.branches if t.producer.queue.refuses(message.body)]
        if refusing:
            message.branches = refusing[:1]
            message.pending = 1
        for branch in list(message.branches):
            branch.publish(message)
        if message.enrolment is not None:
            message.enrolment.transaction.wait_ended(self)

    def abandon(self, transaction: Transaction) -> None:
        """Give the waiting messages of a transaction that is rolled back their outcome."""
        withdrawn = [p for p in self.waiting if p.enrolment is not None and p.enrolment.transaction is transaction]
        for message in withdrawn:
            self.waiting.remove(message)
            message.outcome = Outcome.ROLLED_BACK
            self.done(message)
        self.pump()

    def done(self, message: RoutedMessage) -> None:
        """Settle a message that has its outcome from every queue."""
        self.unsettled -= 1
        if message.outcome is not Outcome.ACCEPTED and message.enrolment is not None:
            message.enrolment.refused()
        if not self.ended:
            self.settled(message)

    def top_up(self) -> int:
        """Return the credit to grant the client now; 0 until half of its window is used up."""
        window = self._window()
        more = window - self.credit - self.unsettled
        if more <= 0 or (more < window // 2 and self.credit > window // 2):
            return 0
        self.credit += more
        self._weigh()
        return more

    def forget(self, branch: Branch) -> None:
        """Remove the branch of a deleted queue. Its messages go to their other queues, or are rejected."""
        self.branches = {q: t for q, t in self.branches.items() if t is not branch}
        self.last = ()
        self._share_reasons()
        for message in list(branch.unsettled):
            if message.record(Outcome.REJECTED):  # it was not stored yet
                self.done(message)
        branch.unsettled.clear()
        for message in [p for p in self.waiting if branch in p.branches]:
            message.branches.remove(branch)
            message.pending -= 1
            if not message.branches:
                self.waiting.remove(message)
                message.outcome = Outcome.REJECTED
                self.done(message)
                if message.enrolment is not None:
                    message.enrolment.transaction.wait_ended(self)
        self.pump()

    def close(self) -> None:
        """Drop the waiting messages, none of which was accepted, and detach the branches: the client's link has
        ended."""
        self.ended = True
        waiting, self.waiting = self.waiting, []
        for message in waiting:
            if message.enrolment is not None:
                message.enrolment.lost()
        for branch in list(self.branches.values()):
            self.links.detach(branch.producer)
        self.branches.clear()
        self.last = ()
        self.footprint.clear()
