"""A search through the messages of a queue, a bounded part in each call: how much is searched, loaded and answered.

A management call runs in a turn of the broker, in which no other client is served; so the turn must be short whatever
the queue contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brokers.admin import InvalidValue, TryAgain
from brokers.engine.queues.browsing import FRONT, Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.services.message_match import Match
from brokers.engine.values.message import rank_of, sequence_of
from brokers.model.message_operations import ACQUIRED

#: What one call may cost: messages that are compared, or a tenth of that if they are decoded.
COST, DECODED = 5_000, 10
#: Bytes that one call decodes, but at least one message: about a quarter of a second.
DECODED_BYTES = 512 << 10
#: Bytes of bodies that one call reads, but at least one message.
READ_BYTES = 8 << 20
#: Messages looked at, and bytes of bodies loaded, at a time.
_CHUNK, _LOAD_BYTES = 256, 1 << 20

_SEQUENCE_BITS = 48

Found = tuple[Seen, bytes | None]


class Search:
    """The matching messages after a place, each with its body; None for one that is missing from a damaged store.

    `after`: returns the first messages after a place; `place_of`: that of a message. `until`: the last sequence number
    that is searched. `decodes`: the caller decodes each one, by `heads`. `last`: the place of the last message that was
    returned or passed over. `ended`: no message is left. Messages may be removed meanwhile up to the last one that was
    returned.
    """

    def __init__(
        self,
        queue: Queue,
        match: Match,
        after: Callable[[int, int], list[Seen]],
        last: int = FRONT,
        *,
        until: int | None = None,
        decodes: bool = False,
        place_of: Callable[[Seen], int] = lambda seen: seen.number,
    ) -> None:
        self._queue = queue
        self._match = match
        self._after = after
        self._until = until
        self._place_of = place_of
        self._cost = DECODED if match.decodes or decodes else 1
        self._left = COST
        self._bytes = READ_BYTES
        self._decoded = DECODED_BYTES
        self.heads = match.heads
        self.last = last
        self.searched = 0
        self.ended = False

    @property
    def spent(self) -> bool:
        """Whether this call must end."""
        return self._left <= 0 or self._bytes <= 0 or self._decoded <= 0

    def __iter__(self) -> Iterator[Found]:
        while not self.spent:
            chunk = self._after(self.last, _CHUNK)
            if not chunk:
                self.ended = True
                return
            yield from self._found(chunk)

    def _found(self, chunk: list[Seen]) -> Iterator[Found]:
        queue, at = self._queue, 0
        while at < len(chunk) and not self.spent:
            end, size = at, 0
            while end < len(chunk) and (end == at or size + chunk[end].size <= _LOAD_BYTES):
                size += chunk[end].size
                end += 1
            now = queue.turn.now
            there = (seen for seen in chunk[at:end] if seen.expires > now or seen.state == ACQUIRED)
            part = [seen for seen in there if self._match.may_match(queue, seen)]
            bodies = self._bodies(part)
            wanted = {seen.number for seen in part}
            for seen in chunk[at:end]:
                if self._until is not None and sequence_of(seen.number) > self._until:
                    self.last = (rank_of(seen.number) + 1) << _SEQUENCE_BITS  # all others of its priority are newer
                    return
                self.last = self._place_of(seen)
                self.searched += 1
                self._left -= 1
                if seen.number not in wanted:
                    continue
                self._left -= self._cost
                self._bytes -= seen.size
                body = bodies.get(seen.number)
                if self._cost == DECODED and body is not None:
                    self._decoded -= queue.turn.format.decoded_bytes(body)
                if self._match.matches(queue, seen, body):
                    yield seen, body
                if self.spent:
                    return
            at = end

    def _bodies(self, part: list[Seen]) -> dict[int, bytes]:
        bodies = {seen.number: seen.body for seen in part if seen.body is not None}
        stored = [seen.entry for seen in part if seen.body is None]
        if stored:
            loaded = self._queue.storage.bodies(stored)
            if loaded is None:
                raise TryAgain(f"the stored messages of queue {self._queue.name} cannot be read now: try again")
            bodies.update(loaded)
        return bodies


def place(text: str | None, name: str = "after") -> int:
    """Return the place that a cursor names; FRONT without one. Raises InvalidValue."""
    if not text:
        return FRONT
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 20 and FRONT <= int(text) <= -FRONT:
        return int(text)
    raise InvalidValue({name: f"{name} is {text[:80]!r}: it is not a place that an earlier answer named"})
