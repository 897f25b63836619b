"""Dead-lettering: of messages that consumers reject, or whose deliveries failed too often.

Such a message goes to the dead-letter queue of its queue, which is created on first use, or is discarded if none is
set. A dead-letter queue accepts messages above its capacity, since no producer could be blocked for them. A stored
message is moved by one change of the store, so that after a crash it is in exactly one of the two queues. A durable
message of a queue that is not durable must be stored first: while its dead-letter queue's store takes no messages, it
waits in its queue, where no consumer gets it and it does not expire, and is part of the depth.

There are no cycles: a queue that is its own dead-letter queue, directly or through others, counts as having none. The
maximum of deliveries removes nothing from such a queue, so that a default for all queues does not empty the dead-letter
queue of a faulty consumer.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import NamedTuple

from brokers.admin import AdminError
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.backlog import HERE
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.leaving import send
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.queue_lifecycle import QueueLifecycle
from brokers.engine.values.events import Fact, dead_letter_words
from brokers.engine.values.message import NEVER, Message
from brokers.engine.values.outcomes import MAXIMUM

#: Of the waiting messages of a queue, how many are sent at a time, and their bytes, but at least one message. The next
#: ones follow when the store has those.
MOST_SENT, MOST_SENT_BYTES = 1000, 4 << 20


class _Letter(NamedTuple):
    """A message that must be stored to be dead-lettered. `error`: the consumer's; `expires`: ms, or NEVER."""

    message: Message
    reason: str
    error: str
    expires: int


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
        self._waiting: dict[Queue, dict[int, _Letter]] = {}  # by number
        agenda.dead_letter = self.dead_letter

    def dead_letter(self, queue: Queue, consumer: Consumer, message: Message, reason: str, error: str) -> int | None:
        """Dead-letter or discard an acquired message. Return as `Queue.remove` does; None: it must stay in the queue.
        `error`: the consumer's error."""
        if queue.deleted or (self._circular(queue) and reason == MAXIMUM):
            return None
        name = self.queue_of(queue)
        if not name:
            ticket = queue.remove(consumer, message)
            queue.discarded += 1
            self._report(queue, "", reason)
            return ticket
        target = self._target(queue, name)
        if target is None:
            return None
        letter = _Letter(message, reason, error, queue.lanes.deadlines.at.get(message[0], NEVER))
        if target.must_store(message, queue):
            consumer.unacknowledged -= 1
            self._send(queue, letter, target)
            return 0
        ticket = queue.hand_over(
            consumer, message, target, self.marked(queue, letter.message, letter.reason, letter.error)
        )
        self._count(queue, name, reason)
        return ticket

    def queue_of(self, queue: Queue) -> str:
        """Return the name of its dead-letter queue; "": it has none."""
        return "" if self._circular(queue) else queue.gate.limits.dead_letter_queue

    def marked(self, queue: Queue, message: Message, reason: str, error: str = "") -> bytes:
        """Return a message of the queue as a dead letter. `error`: the consumer's."""
        number, body = message
        return self.turn.as_dead_letter(body, reason, queue.name, queue.lanes.deliveries.get(number, 0), error)

    # -- messages that must be stored ------------------------------------------------------------------------------

    def _send(self, queue: Queue, letter: _Letter, target: Queue) -> None:
        """Dead-letter a message that is in no lane when the store has it."""
        if target.durable is None or not target.has_room_in_store:
            self._wait(queue, letter)
            return
        body = self.marked(queue, letter.message, letter.reason, letter.error)
        answered = partial(self._answered, queue, letter, target.name)
        send(queue, letter.message, target.durable, body, header=self.turn.header(body), answered=answered)

    def _answered(self, queue: Queue, letter: _Letter, target: str, stored: bool) -> None:
        if not stored:
            self._wait(queue, letter)
            return
        self._count(queue, target, letter.reason)
        if not queue.lanes.leaving and queue in self._waiting:
            self._retry(queue)

    def _wait(self, queue: Queue, letter: _Letter) -> None:
        """Put a message aside until `retry`: among the delayed ones, without a time."""
        number, body = letter.message
        queue.lanes.deadlines.forget(number)
        queue.lanes.delayed.add(NEVER, (number, len(body), HERE, body, NEVER), of_day=False)
        self._waiting.setdefault(queue, {})[number] = letter
        queue.touch()

    def retry(self) -> None:
        """Dead-letter waiting messages for which there is room now; called about once a second."""
        for queue in list(self._waiting):
            if queue.deleted:
                del self._waiting[queue]
            elif not queue.lanes.leaving:
                self._retry(queue)

    def _retry(self, queue: Queue) -> None:
        waiting, delayed = self._waiting[queue], queue.lanes.delayed
        name = self.queue_of(queue)
        target = self._target(queue, name) if name else None
        sent = size = 0
        for number, letter in list(islice(waiting.items(), MOST_SENT)):
            found = delayed.get(number)
            if found is None or found[0] != NEVER:  # an operator has moved or deleted it
                del waiting[number]
                continue
            size += len(letter.message[1])
            if (sent and size > MOST_SENT_BYTES) or (name and (target is None or not _takes(target))):
                break
            sent += 1
            del waiting[number]
            delayed.take(number)
            queue.storage.loaded(number, found[1][2])
            if target is None:
                self._return(queue, letter)
            elif target.durable is not None:
                self._send(queue, letter, target)
            else:
                body = self.marked(queue, letter.message, letter.reason, letter.error)
                queue.lanes.discount(number, len(letter.message[1]))
                queue.gate.measure()
                target.enqueue(body)
                self._count(queue, name, letter.reason)
        if not waiting:
            del self._waiting[queue]
        queue.touch()

    def _return(self, queue: Queue, letter: _Letter) -> None:
        """Return a message to its place: the queue has no dead-letter queue any more."""
        number = letter.message[0]
        if letter.expires != NEVER:
            queue.lanes.expires(number, letter.expires)
        queue.restore(letter.message)

    # -- reports ---------------------------------------------------------------------------------------------------

    def _count(self, queue: Queue, target: str, reason: str) -> None:
        queue.dead_lettered += 1
        self._report(queue, target, reason)

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


def _takes(target: Queue) -> bool:
    return target.durable is None or target.has_room_in_store
