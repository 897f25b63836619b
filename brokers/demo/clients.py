"""A producer and a consumer on Proton's Container, at a pace that is set from outside, each on its own connection.

They are what a good client should be: a producer sends only on credit and answers a drain; both connect again after
a loss, at once at first and then more slowly. All of them share one thread and one clock tick.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from proton import VERSION, Delivery, Event, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container

#: What a client says of itself: the console lists the library of each connection.
LIBRARY = {symbol("product"): "Qpid Proton", symbol("version"): ".".join(map(str, VERSION))}

LONGEST_PAUSE = 5.0  # seconds between attempts to connect, at most
BACKLOG = 5.0  # seconds of messages that a blocked producer keeps, to send once it may; older ones it forgets


class Client(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """One connection with one link. `wanted` says whether it should be there."""

    def __init__(self, name: str, address: str, rate: float) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.name = name
        self.address = address
        self.rate = rate  # messages/s
        self.wanted = True
        self.error = ""  # why it is not connected, as the broker or the system said it
        self._link: Any = None
        self._connection: Any = None
        self._failures = 0
        self._retry_at = 0.0
        self._now = 0.0
        self._allowance = 0.0  # messages that the rate allows now

    @property
    def attached(self) -> bool:
        return self._link is not None and bool(self._link.state & self._link.REMOTE_ACTIVE)

    def tick(self, container: Container, url: str, now: float, passed: float) -> None:
        """`now`: seconds of a clock that only grows; `passed`: seconds of the demo's own time since the last tick."""
        self._now = now
        if self._connection is None:
            if self.wanted and now >= self._retry_at:
                container.container_id = self.name
                self._connection = container.connect(
                    url,
                    handler=self,
                    reconnect=False,  # Proton's own would bring the link back with deliveries that are no more
                    heartbeat=30,
                    virtual_host="default",
                    allowed_mechs="ANONYMOUS",
                    properties=LIBRARY,
                )
                self._link = self._attach(container)
        elif not self.wanted:
            self._connection.close()
        elif self.attached:
            self._allowance = min(self._allowance + passed * self.rate, max(BACKLOG * self.rate, 1.0))
            self._work()

    def _attach(self, container: Container) -> Any:
        raise NotImplementedError

    def _work(self) -> None:
        raise NotImplementedError

    # -- Proton's events ----------------------------------------------------------------------------------------

    def on_link_opened(self, event: Event) -> None:
        self._failures = 0
        self.error = ""

    def on_link_error(self, event: Event) -> None:
        self._close(event, event.link.remote_condition)

    def on_link_closed(self, event: Event) -> None:
        self._close(event, event.link.remote_condition)

    def on_connection_error(self, event: Event) -> None:
        self._close(event, event.connection.remote_condition)

    def on_transport_error(self, event: Event) -> None:
        self.error = _text(event.transport.condition) or "the connection was lost"

    def on_transport_closed(self, event: Event) -> None:
        self._connection = self._link = None
        self._allowance = 0.0
        self._failures += 1
        self._retry_at = self._now + min(0.25 * 2 ** (self._failures - 1), LONGEST_PAUSE)
        self._forget()

    def _close(self, event: Event, condition: Any) -> None:
        self.error = _text(condition) or self.error
        if self._connection is not None:
            self._connection.close()

    def _forget(self) -> None:
        pass


def _text(condition: Any) -> str:
    return str(condition.description or condition.name) if condition else ""


class Producer(Client):
    """Sends `make(n)` for n = 1, 2, ... at its rate, within its credit."""

    def __init__(self, name: str, address: str, rate: float, make: Callable[[int], bytes | str]) -> None:
        super().__init__(name, address, rate)
        self.sent = 0
        self._make = make

    def _attach(self, container: Container) -> Any:
        return container.create_sender(self._connection, self.address, name=f"{self.name}-out")

    def _work(self) -> None:
        while self._allowance >= 1 and self._link.credit > 0:
            self._allowance -= 1
            self.sent += 1
            self._link.send(Message(body=self._make(self.sent), id=f"{self.name}-{self.sent}"))

    def on_link_flow(self, event: Event) -> None:
        if event.link.is_sender and event.link.drain_mode:
            event.link.drained()  # give back what it does not use now


class Consumer(Client):
    """Takes messages, and acknowledges them at its rate. `window`: maximum of unacknowledged messages and credit.
    `rejected`: it rejects each message with a number that this divides; 0: none."""

    def __init__(
        self, name: str, address: str, rate: float, *, window: int = 20, wanted: bool = True, rejected: int = 0
    ) -> None:
        super().__init__(name, address, rate)
        self.rejected = rejected
        self.window = window
        self.wanted = wanted
        self.acknowledged = 0
        self._unacknowledged: deque[Delivery] = deque()

    @property
    def unacknowledged(self) -> int:
        return len(self._unacknowledged)

    def _attach(self, container: Container) -> Any:
        return container.create_receiver(self._connection, self.address, name=f"{self.name}-in")

    def _work(self) -> None:
        while self._allowance >= 1 and self._unacknowledged:
            self._allowance -= 1
            self.acknowledged += 1
            delivery = self._unacknowledged.popleft()
            if self.rejected and self.acknowledged % self.rejected == 0:
                self.reject(delivery)
            else:
                self.accept(delivery)
        if not self._unacknowledged:
            self._allowance = min(self._allowance, 1.0)  # an idle consumer accumulates no allowance
        missing = self.window - len(self._unacknowledged) - self._link.credit
        if missing > self.window // 2 or (missing > 0 and self._link.credit == 0):
            self._link.flow(missing)

    def on_message(self, event: Event) -> None:
        self._unacknowledged.append(event.delivery)

    def _forget(self) -> None:
        self._unacknowledged.clear()
