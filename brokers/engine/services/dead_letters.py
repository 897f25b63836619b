"""What becomes of a message that consumers give up: one that is rejected, or whose deliveries failed too often.

It goes to the dead-letter queue of its queue, which is created if it is not there, or away if there is none set. A
dead-letter queue takes it even above its capacity: no producer could be blocked for it. Of a stored message the move is
one change of the store, so that a crash finds it in one of the two.

No message goes round in circles: a queue that is its own dead-letter queue, directly or by way of others, has none. The
maximum of deliveries removes nothing from such a queue, so that a default for all queues does not empty the dead-letter
queue of a careless reader.
"""

from __future__ import annotations

from brokers.admin import AdminError
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.values.events import Fact, dead_letter_words
from brokers.engine.values.message import Message
from brokers.engine.values.outcomes import MAXIMUM


class DeadLetters:
    """See the module."""

    def __init__(self, registry: Registry, agenda: Agenda[Queue], queues: QueueLifecycle) -> None:
        self.registry = registry
        self.agenda = agenda
        self.turn = agenda.turn
        self.queues = queues
        self._facts: list[Fact] = []  # of the turn in which something was given up last
        self._told: dict[tuple[Queue, str, str], tuple[int, int]] = {}  # fate -> place in them, messages
        agenda.dead_letter = self.dead_letter

    def dead_letter(self, queue: Queue, consumer: Consumer, message: Message, reason: str, said: str) -> int | None:
        """Take a message that a consumer has out of its queue, for good. Returns as `Queue.remove` does; None: it must
        stay. `said`: why, in the consumer's words."""
        circular = self._circular(queue)
        if queue.deleted or (circular and reason == MAXIMUM):
            return None
        name = "" if circular else queue.gate.limits.dead_letter_queue
        if not name:
            ticket = queue.remove(consumer, message)
            queue.discarded += 1
            self._tell(queue, "", reason)
            return ticket
        target = self._target(queue, name)
        if target is None:
            return None
        body = self.turn.as_dead_letter(message[1], reason, queue.name, queue.lanes.deliveries.get(message[0], 0), said)
        ticket = queue.hand_over(consumer, message, target, body)
        queue.dead_lettered += 1
        self._tell(queue, name, reason)
        return ticket

    def _circular(self, queue: Queue) -> bool:
        """Whether its dead letters would come back to it, if they were given up again and again."""
        queues = self.registry.host_of(queue).queues
        passed: set[str] = set()
        name = queue.gate.limits.dead_letter_queue
        while name and name not in passed:
            if name == queue.name:
                return True
            passed.add(name)
            name = queues[name].gate.limits.dead_letter_queue if name in queues else ""
        return False

    def _target(self, queue: Queue, name: str) -> Queue | None:
        host = self.registry.host_of(queue)
        try:
            return host.queues.get(name) or self.queues.create(host, name, durable=queue.store_id > 0)
        except AdminError:
            return None  # no store can be opened, which the log says

    def _tell(self, queue: Queue, target: str, reason: str) -> None:
        """State it: one fact in a turn for all messages of a queue with the same fate."""
        facts, fate = self.turn.facts, (queue, target, reason)
        if facts is not self._facts:
            self._facts, self._told = facts, {}
        before = self._told.get(fate)
        count = 1 if before is None else before[1] + 1
        self._told[fate] = (len(facts) if before is None else before[0], count)
        kind = "queue-dead-lettered" if target else "queue-discarded"
        attributes = {"messages": count, "dead_letter_queue": target, "reason": reason}
        queue.gate.add_fact(kind, dead_letter_words(count, target, reason), attributes)
        if before is not None:
            facts[before[0]] = facts.pop()
