"""Lists of the messages of a queue for people: a page of descriptions, without bodies; see
`brokers/model/message_operations.py`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.queues.browsing import Browsing, Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.services.message_match import Match, arrival
from brokers.engine.services.message_search import Search, place
from brokers.engine.services.message_values import MOST_TEXT, shortened, shortened_map
from brokers.engine.values.message import NEVER, sequence_of
from brokers.engine.values.message_format import DeadLetterMark, Head
from brokers.engine.values.message_ids import id_of, priority_of
from brokers.model.message_operations import AVAILABLE, DELAYED, MOST_LISTED, UNACKNOWLEDGED

#: Characters of an answer.
MOST_ANSWER = 256 << 10

_USUAL = 50
#: Begins the cursor of a list whose first part, the acquired messages, is done.
_OTHERS = "q"


class MessageLists:
    """See the module."""

    def page(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of messages. `given`: the arguments of `list-messages`. Raises InvalidValue; TryAgain if a
        store cannot be read now."""
        count = counted(given, "count", _USUAL, MOST_LISTED)
        match, browsing = Match(given.get("match"), queue.turn.format), Browsing(queue)
        if given.get("order") == UNACKNOWLEDGED:
            return self._acquired_first(queue, match, browsing, given.get("after") or "", count)
        search = Search(queue, match, browsing.after, place(given.get("after")), decodes=True)
        messages = self._described(queue, browsing, search, count)
        return answer(messages, None if search.ended else str(search.last), search.searched)

    def _acquired_first(
        self, queue: Queue, match: Match, browsing: Browsing, cursor: str, count: int
    ) -> dict[str, Any]:
        messages, searched = [], 0
        if not cursor.startswith(_OTHERS):
            oldest = sorted(browsing.acquired, key=_sequence)

            def after(sequence: int, most: int) -> list[Seen]:
                at = bisect_right(oldest, sequence, key=_sequence)
                return oldest[at : at + most]

            search = Search(queue, match, after, place(cursor), decodes=True, place_of=_sequence)
            messages = self._described(queue, browsing, search, count)
            searched, cursor = search.searched, ""
            if not search.ended or len(messages) >= count:
                return answer(messages, str(search.last), searched)
        others = Search(queue, match, browsing.not_acquired_after, place(cursor.removeprefix(_OTHERS)), decodes=True)
        messages += self._described(queue, browsing, others, count - len(messages))
        rest = None if others.ended else f"{_OTHERS}{others.last}"
        return answer(messages, rest, searched + others.searched)

    def _described(self, queue: Queue, browsing: Browsing, search: Search, count: int) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        left = MOST_ANSWER
        for seen, body in search:
            head = Head() if body is None else search.heads.of(body)
            messages.append(described(queue, browsing, seen, body, head=head))
            left -= len(str(messages[-1]))
            if len(messages) >= count or left <= 0:
                break
        return messages


def described(
    queue: Queue, browsing: Browsing, seen: Seen, body: bytes | None, *, head: Head, most: int = MOST_TEXT
) -> dict[str, Any]:
    """Return a message as the model describes it, with values of at most `most` characters. `head`: that of `body`."""
    turn = queue.turn
    header = turn.header(body or b"")
    return {
        "id": id_of(seen.number, body),
        "position": browsing.position(seen.number) if seen.state == AVAILABLE else None,
        "at": arrival(queue, seen.number, body, lambda _: head),
        "size": seen.size,
        "durable": header.durable and queue.durable is not None,
        "priority": priority_of(seen.number),
        "redeliveries": queue.failed_deliveries.get(seen.number, 0),
        "state": seen.state,
        "consumer": None if seen.consumer is None else str(seen.consumer.name),
        "expires": None if seen.expires == NEVER else seen.expires + turn.ahead,
        "due": _due(queue, seen, header.due),
        "properties": shortened_map(head.properties, most),
        "application_properties": shortened_map(head.application_properties, most),
        "dead_letter": None if head.dead_letter is None else _mark(head.dead_letter, most),
    }


def _mark(mark: DeadLetterMark, most: int) -> dict[str, Any]:
    return {
        "reason": shortened(mark.reason, most),
        "queue": shortened(mark.queue, most),
        "failed_deliveries": mark.failed_deliveries,
        "description": shortened(mark.description, most),
    }


def _due(queue: Queue, seen: Seen, named: int) -> int | None:
    """`named`: the delivery time in the message, ms since the epoch, which may not have been read yet."""
    if seen.state != DELAYED:
        return None
    return seen.due + queue.turn.ahead if seen.due != NEVER else named or None


def answer(messages: list[dict[str, Any]], cursor: str | None, searched: int) -> dict[str, Any]:
    return {"messages": messages, "next": cursor, "searched": searched}


def counted(given: Mapping[str, Any], name: str, usual: int, most: int) -> int:
    """Return a number of messages. Raises InvalidValue."""
    count = int(given.get(name) or usual)
    if count > most:
        raise InvalidValue({name: f"{name} is {count}: it must be from 1 to {most:,}"})
    return count


def _sequence(seen: Seen) -> int:
    return sequence_of(seen.number)
