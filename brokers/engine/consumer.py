"""A receiving link of a client, as its queue knows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brokers.engine.connection import Connection
from brokers.managed import ObjectName, object_name

if TYPE_CHECKING:
    from brokers.engine.queue import Queue


class Consumer:
    """`credit`: messages it will take now. A browsing one gets copies and removes nothing; `seen` is the number of the
    last message it got. `handle` belongs to the protocol layer. `oldest`: of the messages that it holds unsettled
    the oldest, as so manieth of all that came to the queue, if the protocol layer tells."""

    __slots__ = (
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
        "unacknowledged",
    )

    def __init__(
        self, number: int, connection: Connection, queue: Queue, link: str, *, browsing: bool, handle: Any
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
        self.seen = 0
        self.oldest: Callable[[], int | None] = lambda: None
        self.name: ObjectName = object_name("Consumer", virtualhost=connection.virtualhost, id=number)
