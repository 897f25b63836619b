"""Dead-lettering: of messages that consumers reject, or whose deliveries failed too often.

Such a message goes to the dead-letter queue of its queue, which is created on first use, or is discarded if none is
set. A dead-letter queue accepts messages above its capacity, since no producer could be blocked for them. A stored
message is moved by one change of the store, so that after a crash it is in exactly one of the two queues.

There are no cycles: a queue that is its own dead-letter queue, directly or through others, counts as having none. The
maximum of deliveries removes nothing from such a queue, so that a default for all queues does not empty the dead-letter
queue of a faulty consumer.
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
        self._facts: list[Fact] = []  # of the last turn with a dead-lettered message
        #: (queue, target, reason) -> index of the fact in `_facts`, messages
        self._reported: dict[tuple[Queue, str, str], tuple[int, int]] = {}
        agenda.dead_letter = self.dead_letter

    def dead_letter(self, queue: Queue, consumer: Consumer, message: Message, reason: str, error: str) -> int | None:
        """Dead-letter or discard an acquired message. Return as `Queue.remove` does; None: it must stay in the queue.
        `error`: the consumer's error."""
        circular = self._circular(queue)
        if queue.deleted or (circular and reason == MAXIMUM):
            return None
        name = "" if circular else queue.gate.limits.dead_letter_queue
        if not name:
            ticket = queue.remove(consumer, message)
            queue.discarded += 1
            self._report(queue, "", reason)
            return ticket
        target = self._target(queue, name)
        if target is None:
            return None
        body = self.turn.as_dead_letter(
            message[1], reason, queue.name, queue.lanes.deliveries.get(message[0], 0), error
        )
        ticket = queue.hand_over(consumer, message, target, body)
        queue.dead_lettered += 1
        self._report(queue, name, reason)
        return ticket

    def _circular(self, queue: Queue) -> bool:
        """Return whether its dead letters would return to it through its chain of dead-letter queues."""
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
            return None  # no store can be opened, as the log says

    def _report(self, queue: Queue, target: str, reason: str) -> None:
        """Add one fact per turn for all messages of a queue with the same target and reason."""
        facts, key = self.turn.facts, (queue, target, reason)
        if facts is not self._facts:
            self._facts, self._reported = facts, {}
        before = self._reported.get(key)
        count = 1 if before is None else before[1] + 1
        self._reported[key] = (len(facts) if before is None else before[0], count)
        kind = "queue-dead-lettered" if target else "queue-discarded"
        attributes = {"messages": count, "dead_letter_queue": target, "reason": reason}
        queue.gate.add_fact(kind, dead_letter_words(count, target, reason), attributes)
        if before is not None:
            facts[before[0]] = facts.pop()
