"""Periodic work on queues: take back unused credit, expire messages, deliver delayed ones, measure rates, mark arrival
times."""

from __future__ import annotations

from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.dead_letters import DeadLetters
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.services.stopping import Stopping
from brokers.engine.values.message import NEVER


class Upkeep:
    """See the module. The server calls each method at an interval of its own."""

    def __init__(
        self,
        registry: Registry,
        agenda: Agenda[Queue],
        *,
        queues: QueueLifecycle,
        slow_consumers: SlowConsumers,
        stopping: Stopping,
        dead_letters: DeadLetters,
    ) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn
        self.queues = queues
        self.slow_consumers = slow_consumers
        self.stopping = stopping
        self.dead_letters = dead_letters
        self._minute = self.turn.now // 60_000
        self._sampled_at = self.turn.now

    def sweep(self) -> None:
        """Take back unused credit; called about every `credit.IDLE_CREDIT_MS` while queues are watched."""
        for queue in list(self.agenda.watched):
            if not queue.sweep():
                self.agenda.watched.discard(queue)
        minute = self.turn.now // 60_000
        if minute != self._minute:
            self._minute = minute
            for queue in self.registry.queues():
                queue.gate.ledger.new_minute()

    def expire(self) -> None:
        """Remove expired messages, and try again to move the dead letters that wait; called about once a second."""
        for queue in list(self.agenda.expiring):
            if not queue.lanes.expire_all():
                self.agenda.expiring.discard(queue)
        self.dead_letters.retry()

    def release(self) -> bool:
        """Make messages visible whose delivery time has come; called at `agenda.release_at`, or some ms later. Return
        True if there are more, for another turn."""
        agenda, more = self.agenda, False
        if self.turn.now < agenda.release_at:
            return False
        for queue in list(agenda.delayed):
            more = queue.lanes.release() or more
            if not queue.lanes.delayed:
                agenda.delayed.discard(queue)
        self._look_for_next_release()
        return more

    def _look_for_next_release(self) -> None:
        all_delayed = (queue.lanes.delayed for queue in self.agenda.delayed)
        now = self.turn.now
        self.agenda.release_at = min((now if d.has_unread else d.soonest for d in all_delayed), default=NEVER)

    def clock_set(self, ahead: int) -> None:
        """Handle a change of the machine's clock, which is `ahead` ms ahead of the engine's time now. Times of day
        move, durations do not."""
        turn = self.turn
        step, turn.ahead = ahead - turn.ahead, ahead
        self.agenda.changed.update(self.registry.queues())  # their times of day have changed
        for queue in self.agenda.delayed:
            queue.lanes.delayed.clock_set(step)
        self._look_for_next_release()

    def mark_arrivals(self) -> None:
        """Mark when the messages since the last call arrived; called about once a second."""
        agenda = self.agenda
        since, agenda.marked_at = agenda.marked_at, self.turn.now
        for queue in agenda.changed:
            gate = queue.gate
            queue.arrivals.mark(gate.enqueued, since, empty=not gate.depth_messages)

    def sample(self) -> list[Queue]:
        """Measure rates, and end slow consumers and due stops; called once a second. Return the queues that have
        changed since the last call."""
        now = self.turn.now
        for queue, why in self.slow_consumers.find_slow():
            self.queues.delete(queue, why)
        self.stopping.end_due_stops()
        self.mark_arrivals()
        passed, self._sampled_at = now - self._sampled_at, now
        seconds = passed / 1000 if passed > 0 else 1  # a clock may be set back
        changed = [queue for queue in self.agenda.changed if self.registry.has(queue)]
        self.agenda.changed.clear()
        for queue in changed:
            enqueued, dequeued = queue.sampled
            queue.rate_in = round((queue.gate.enqueued - enqueued) / seconds, 1)
            queue.rate_out = round((queue.lanes.dequeued - dequeued) / seconds, 1)
            queue.sampled = (queue.gate.enqueued, queue.lanes.dequeued)
            if queue.rate_in or queue.rate_out:
                self.agenda.changed.add(queue)  # again, so that its rates fall to 0
        return changed
