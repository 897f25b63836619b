"""A receiving link of a client, as its queue knows it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brokers.engine.connection import Connection
from brokers.engine.values.message import number_of, rank_of
from brokers.model import ObjectName, object_name

if TYPE_CHECKING:
    from brokers.engine.queues.queue import Queue


#: How many messages one of several consumers gets at a time.
BATCH = 16


class Consumer:
    """`credit`: messages it will take now. A browsing one gets copies and removes nothing. `selects`: which messages
    it wants, by their encoded form; None: all. `seen`: of each priority, by its rank, the number of the last message
    that a browser got, or that was looked at for its selector; `again`: those before it that came since. `handle`
    belongs to the protocol layer. `oldest`: of the messages that it holds unsettled the oldest, as so manieth of all
    that came to the queue, if the protocol layer tells."""

    __slots__ = (
        "again",
        "browsing",
        "connection",
        "credit",
        "handle",
        "id",
        "link",
        "messages",
        "name",
        "oldest",
        "queue",
        "seen",
        "selects",
        "unacknowledged",
    )

    def __init__(
        self,
        number: int,
        connection: Connection,
        queue: Queue,
        link: str,
        *,
        browsing: bool,
        handle: Any,
        selects: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.id = number
        self.connection = connection
        self.queue = queue
        self.link = link
        self.browsing = browsing
        self.handle = handle
        self.credit = 0
        self.messages = 0
        self.unacknowledged = 0
        self.selects = selects
        self.seen: dict[int, int] = {}
        self.again: list[int] = []
        self.oldest: Callable[[], int | None] = lambda: None
        self.name: ObjectName = object_name("Consumer", virtualhost=connection.virtualhost, id=number)

    def seen_of(self, rank: int) -> int:
        """All messages of this rank are before this number that need not be looked at."""
        return self.seen.get(rank, number_of(0, 4 - rank))

    def look_anew(self) -> None:
        """Messages that it has passed over may be for it now."""
        self.seen.clear()
        self.again.clear()

    def look_again(self, number: int) -> None:
        """The message is in the queue again, or its delivery time has come: it may have been passed over."""
        if number <= self.seen_of(rank_of(number)):
            at = bisect_left(self.again, number)
            if self.again[at : at + 1] != [number]:
                self.again.insert(at, number)
