"""Links of a client: one that sends messages once there is credit, and one that gives credit for what was consumed.

They turn what Proton reports into calls of their user, and know of their connection only that it can be woken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from proton import Condition, Delivery, Link


class LinkOwner(Protocol):
    """The interface of a link to its connection."""

    def wake(self) -> None:
        """Schedule a write of the pending output of Proton's objects."""

    def forget(self, name: str) -> None:
        """Ignore further events of the link with this name, which has ended."""


class LinkEnded(Exception):
    """The broker refused or ended a link, with an AMQP error condition."""

    def __init__(self, condition: str, description: str, info: Mapping[str, Any] | None = None) -> None:
        super().__init__(description or condition)
        self.condition = condition
        self.description = description
        self.info = dict(info or {})


def ended_by(condition: Condition | None) -> LinkEnded:
    if condition is None:
        return LinkEnded("", "the broker ended it without a reason")
    return LinkEnded(str(condition.name), condition.description or "", condition.info)


class Sender:
    """A link to the broker. Messages wait here until the broker gives credit."""

    def __init__(self, owner: LinkOwner, link: Link, refused: Callable[[str, LinkEnded], None]) -> None:
        self._owner = owner
        self.link = link
        self.name: str = link.name
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._refused = refused
        self._waiting: dict[str, bytes] = {}

    def open(self) -> None:
        self.link.open()

    def send(self, tag: str, message: bytes) -> None:
        """Send once there is credit; ignored if the link has ended."""
        self._waiting[tag] = message
        self.on_flow()

    def forget(self, tag: str) -> None:
        """Do not send the message if it is still waiting for credit."""
        self._waiting.pop(tag, None)

    def on_open(self) -> None:
        """Do nothing: messages wait for credit."""

    def on_flow(self) -> None:
        while self._waiting and not self.ended.done() and self.link.credit > 0:
            tag = next(iter(self._waiting))
            self.link.delivery(tag)
            self.link.stream(self._waiting.pop(tag))
            self.link.advance()
            self._owner.wake()

    def on_delivery(self, delivery: Delivery) -> None:
        state = delivery.remote_state
        if not (state or delivery.settled):
            return
        if state in (Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED):
            condition = delivery.remote.condition if state == Delivery.REJECTED else None
            self._refused(delivery.tag, ended_by(condition))
        delivery.settle()

    def end(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        self._waiting.clear()


class Receiver:
    """A link from the broker. `ended` is done, with the reason as its result, when it has ended. `address`: that of its
    source, once the broker has opened the link. `pace`: shortest time between two renewals of its credit, s; a sender
    that collects what happens meanwhile then sends fewer messages."""

    def __init__(
        self, owner: LinkOwner, link: Link, window: int, deliver: Callable[[bytes], None], pace: float = 0.0
    ) -> None:
        self._owner = owner
        self.link = link
        self.name: str = link.name
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Exception] = loop.create_future()
        self.address: asyncio.Future[str] = loop.create_future()
        self._window = window
        self._consumed = 0  # messages whose credit was not renewed yet
        self._pace = pace
        self._renewed = float("-inf")
        self._renewal: asyncio.TimerHandle | None = None
        self._deliver = deliver

    def open(self) -> None:
        self.link.open()
        self.link.flow(self._window)

    def consumed(self) -> None:
        """Count a processed message. Credit is renewed in halves of the window, not one by one."""
        self._consumed += 1
        if self._consumed * 2 < self._window or self._renewal is not None:
            return
        loop = self.ended.get_loop()
        if self._renewed + self._pace <= loop.time():
            self._renew()
        else:
            self._renewal = loop.call_at(self._renewed + self._pace, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        if self.ended.done():
            return
        self._renewed = self.ended.get_loop().time()
        self.link.flow(self._consumed)
        self._consumed = 0
        self._owner.wake()

    def widen(self, window: int) -> None:
        """Allow this many unread messages, more than so far."""
        if not self.ended.done():
            self.link.flow(window - self._window)
            self._window = window
            self._owner.wake()

    def detach(self) -> None:
        """End the link; what arrives after this is dropped."""
        if not self.ended.done():
            self.end(LinkEnded("", "it was closed here"))
            self._owner.forget(self.name)
            self.link.close()
            self._owner.wake()

    def on_open(self) -> None:
        # A link that is refused has no source.
        if (address := self.link.remote_source.address) and not self.address.done():
            self.address.set_result(address)

    def on_flow(self) -> None:
        """Do nothing: a receiver gives credit and gets none."""

    def on_delivery(self, _delivery: Delivery) -> None:
        # Proton reads the link's current delivery, which is not always the event's.
        messages: deque[bytes] = deque()
        while (current := self.link.current) is not None and current.readable and not current.partial:
            aborted = current.aborted
            data = b"" if aborted else self.link.recv(current.pending) or b""
            current.update(Delivery.ACCEPTED)
            self.link.advance()
            current.settle()
            if aborted:
                self.consumed()
            else:
                messages.append(data)
        while messages:
            self._deliver(messages.popleft())

    def end(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
