"""Publishing to one address, for any number of threads."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from proton import Delivery, Message

from brokers.client.deadlines import check
from brokers.client.errors import Rejected, Released
from brokers.client.link import LinkOwner, SenderLink
from brokers.client.transaction import Transaction

#: The default: the publisher's own value applies.
AS_MADE: Any = object()


class PublisherOwner(LinkOwner, Protocol):
    """The interface of a publisher to its connection."""

    def add(self, link: SenderLink) -> None: ...

    def remove(self, link: SenderLink) -> None: ...


class Publisher:
    """Created by `Connection.publisher`. A blocked publisher does not delay the others on its connection."""

    def __init__(
        self,
        connection: PublisherOwner,
        address: str,
        name: str,
        send_timeout: float | None,
        notify_period: float | None,
    ) -> None:
        check("send_timeout", send_timeout)
        check("notify_period", notify_period)
        self.address = address
        self.send_timeout = send_timeout
        self.notify_period = notify_period
        self._connection = connection
        self._link = SenderLink(connection, address, name)
        connection.add(self._link)

    def send(
        self, message: Any, *, send_timeout: float | None = AS_MADE, transaction: Transaction | None = None
    ) -> None:
        """Send a `proton.Message`, or a value for the body of one (text, bytes, numbers, lists, maps), and
        return when the broker has accepted it: it waits while the broker withholds credit or the settlement.

        Threads that wait get their turns in the order in which they came. With a `transaction` the message counts
        from its commit on; no error of this call ends the transaction.

        Raises SendTimeout if it could not be sent within `send_timeout` seconds (None: no limit), SendInDoubt if it
        was sent and not settled within them, Rejected, Released, LinkRefused, ConnectionFailed; TransactionFailed if
        the transaction has ended.
        """
        if not isinstance(message, Message):
            message = Message(body=message)
        outcome = self._link.transfer(
            message.encode(),
            self.send_timeout if send_timeout is AS_MADE else send_timeout,
            self.notify_period,
            transaction,
        )
        if outcome.state == Delivery.REJECTED:
            raise Rejected(f"the broker rejected a message to {self.address}", outcome.condition, outcome.description)
        if outcome.state != Delivery.ACCEPTED:
            raise Released(f"the broker released a message to {self.address}")

    def close(self) -> None:
        """End the link. Waiting sends end with an error."""
        self._connection.remove(self._link)

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
