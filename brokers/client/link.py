"""A link to the broker and its queue of messages to send.

Application threads call `transfer` and wait; everything else runs in the connection's thread, which alone touches
Proton. What both touch (`_line`, `_unsettled`, the state of a `Sending`) is guarded by the connection's lock. A
message leaves the line only when the link has credit for it, so a send that ends before that has sent nothing.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from proton import Delivery, Endpoint, Event, Handler, Session, Terminus, symbol

from brokers.client.deadlines import Clock, Deadline
from brokers.client.errors import ClientError, LinkRefused, NotSent, SendInDoubt, SendTimeout, TransactionFailed

#: States of a delivery that Proton has no name for: AMQP 1.0, part 4.
DECLARED, TRANSACTIONAL = 0x33, 0x34

log = logging.getLogger("headgate.client")


class LinkOwner(Protocol):
    """The interface of a link to its connection. `lock` guards what the application's threads and the connection's
    share.
    `missing`: why nothing can be sent now, besides flow control; "" while it is connected."""

    lock: threading.RLock
    clock: Clock
    missing: str

    def check_open(self) -> None:
        """Raise ConnectionFailed if the connection has ended."""

    def ask(self, call: Callable[[], None]) -> None:
        """Run a function in the connection's thread."""

    def attach(self, link: SenderLink) -> None:
        """Attach the link, if there is a session. In the connection's thread."""


class Numbered(Protocol):
    """The transaction of a message."""

    @property
    def number(self) -> Any:
        """Return the broker's id of it. Raises TransactionFailed if it has ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a message. `state`: Proton's number; `transaction`: the id in the answer to a declaration."""

    state: int
    condition: str = ""
    description: str = ""
    transaction: Any = None


class Sending:
    """One message that is being sent. `transaction`: the broker's id of it. `changed` is notified
    when there is an `outcome` or an `error`."""

    __slots__ = ("changed", "data", "error", "outcome", "sent", "transaction")

    def __init__(self, data: bytes, transaction: Any, lock: threading.RLock) -> None:
        self.data = data
        self.transaction = transaction
        self.changed = threading.Condition(lock)
        self.sent = False
        self.outcome: Outcome | None = None
        self.error: ClientError | None = None

    @property
    def done(self) -> bool:
        return self.outcome is not None or self.error is not None

    def end(self, outcome: Outcome | None = None, error: ClientError | None = None) -> None:
        """Settle; the caller owns the lock."""
        if not self.done:
            self.outcome, self.error = outcome, error
            self.changed.notify_all()


class SenderLink(Handler):  # type: ignore[misc]  # Proton has no types
    """`address` None: the transaction coordinator."""

    def __init__(self, connection: LinkOwner, address: str | None, name: str) -> None:
        super().__init__()
        self.address = address
        self._closed = False
        self._connection = connection
        self._lock = connection.lock
        self._clock = connection.clock
        self._name = name
        self._link: Any = None
        self._line: deque[Sending] = deque()
        self._unsettled: dict[str, Sending] = {}
        self._tags = itertools.count(1)

    def __str__(self) -> str:
        return "the transaction coordinator" if self.address is None else self.address

    # -- in the application's thread --------------------------------------------------------------------------

    def transfer(
        self,
        data: bytes,
        timeout: float | None,
        notify_period: float | None,
        transaction: Numbered | None = None,
    ) -> Outcome:
        """Send an encoded message and wait for its outcome. Raises SendTimeout, SendInDoubt,
        LinkRefused, ConnectionFailed, TransactionFailed."""
        deadline = Deadline(self._clock.now(), timeout, notify_period)
        with self._lock:
            self._connection.check_open()
            if self._closed:
                raise NotSent(f"the publisher to {self} is closed")
            sending = Sending(data, transaction.number if transaction is not None else None, self._lock)
            self._line.append(sending)
        try:
            self._connection.ask(self._work)
            while not self._wait(sending, deadline):
                log.warning("%s", self._delay(round(deadline.waited(self._clock.now()))))
        finally:
            with self._lock:
                self._withdraw(sending)  # however the wait ended, it must not be sent afterwards
        if sending.error is not None:
            raise sending.error
        assert sending.outcome is not None
        return sending.outcome

    def _wait(self, sending: Sending, deadline: Deadline) -> bool:
        """Wait until it is done, possibly with a timeout error. Return False if a log line about the delay is due."""
        with self._lock:
            while not sending.done:
                now = self._clock.now()
                if deadline.over(now):
                    sending.error = self._too_late(sending, deadline.waited(now))
                elif deadline.notice(now):
                    return False
                else:
                    self._clock.wait(sending.changed, deadline.next(now))
        return True

    def _too_late(self, sending: Sending, waited: float) -> ClientError:
        self._withdraw(sending)
        if sending.sent:
            return SendInDoubt(f"the broker has not settled a message to {self} within {waited:g} s")
        why = self._connection.missing or "the broker gave no credit"
        return SendTimeout(f"a message to {self} was not sent within {waited:g} s: {why}", waited)

    def _delay(self, seconds: int) -> str:
        if missing := self._connection.missing:
            return f"Message send delayed by {seconds}s: {missing}"
        return f"Message send delayed by {seconds}s due to broker enforced flow control"

    def _withdraw(self, sending: Sending) -> None:
        if not sending.sent and sending in self._line:
            self._line.remove(sending)

    def close(self) -> None:
        """Close the link. Messages in flight or waiting end with an error."""
        with self._lock:
            self._closed = True
            closed = f"the publisher to {self} is closed"
            self.lost(closed, for_good=NotSent(closed))
        self._connection.ask(self.detach)

    # -- in the connection's thread ---------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        if self._link is not None or self._closed:
            return
        self._link = link = session.sender(self._name)
        link.handler = self
        if self.address is None:
            link.target.type = Terminus.COORDINATOR
            link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        else:
            link.target.address = self.address
        link.open()

    def disconnected(self) -> None:
        """The connection of the link was lost."""
        self._link = None

    def detach(self) -> None:
        if self._link is not None:
            self._link.close()

    def lost(self, why: str, *, for_good: ClientError | None = None) -> None:
        """Mark messages in flight as in doubt. `for_good`: waiting messages will not be sent, either. In any thread."""
        with self._lock:
            for sending in self._unsettled.values():
                sending.end(error=SendInDoubt(f"a message to {self} was sent and not settled: {why}"))
            self._unsettled.clear()
            if for_good is not None:
                self._fail_line(for_good)
            else:  # messages of that connection's transactions are lost
                for sending in [s for s in self._line if s.transaction is not None]:
                    self._line.remove(sending)
                    sending.end(error=TransactionFailed(f"the transaction of a message to {self} is lost: {why}"))

    def _fail_line(self, error: ClientError) -> None:
        while self._line:
            self._line.popleft().end(error=error)

    def _work(self) -> None:
        """Send waiting messages, within the credit."""
        link = self._link
        if link is None:
            self._connection.attach(self)
            return
        with self._lock:
            while self._line and link.credit > 0 and link.state & Endpoint.LOCAL_ACTIVE:
                sending = self._line.popleft()
                tag = str(next(self._tags))
                delivery = link.delivery(tag)
                if sending.transaction is not None:
                    delivery.local.data = [sending.transaction]
                    delivery.update(TRANSACTIONAL)
                link.stream(sending.data)
                link.advance()
                sending.sent = True
                self._unsettled[tag] = sending

    def on_link_flow(self, event: Event) -> None:
        if event.link == self._link:
            self._work()
            if event.link.drain_mode:
                event.link.drained()  # return unused credit, so that other producers can have it

    def on_delivery(self, event: Event) -> None:
        delivery = event.delivery
        outcome = _outcome(delivery)
        if outcome is None and not delivery.settled:
            return
        with self._lock:
            if sending := self._unsettled.pop(delivery.tag, None):
                sending.end(outcome or Outcome(Delivery.ACCEPTED))
        delivery.settle()

    def on_link_remote_close(self, event: Event) -> None:
        if event.link != self._link:
            return
        condition = event.link.remote_condition
        name, words = (str(condition.name), condition.description or "") if condition else ("", "")
        with self._lock:
            self._fail_line(LinkRefused(f"the broker does not take messages to {self}", name, words))
            self.lost(": ".join(filter(None, ("the broker ended the link", name, words))))
        self._link = None
        event.link.close()
        event.link.free()

    on_link_remote_detach = on_link_remote_close


def _outcome(delivery: Delivery) -> Outcome | None:
    """Return the outcome; None: not yet."""
    state, data = delivery.remote_state, delivery.remote.data
    if state in (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.MODIFIED):
        return Outcome(state)
    if state == Delivery.REJECTED:
        condition = delivery.remote.condition
        return Outcome(state, str(condition.name), condition.description or "") if condition else Outcome(state)
    if state == DECLARED:
        return Outcome(state, transaction=bytes(data[0]))  # a copy: Proton's view becomes invalid with the delivery
    if state == TRANSACTIONAL:
        return _transactional(data[1] if data and len(data) > 1 else None)
    return None


def _transactional(described: Any) -> Outcome | None:
    """Return the outcome in a transactional state: a described list, as `Data` decodes it."""
    if described is None:
        return None
    state = int(described.descriptor)
    error = described.value[0] if state == Delivery.REJECTED and described.value else None
    if error is None:
        return Outcome(state)
    fields = list(error.value)
    return Outcome(state, str(fields[0]), str(fields[1]) if len(fields) > 1 and fields[1] else "")
