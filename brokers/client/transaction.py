"""A local transaction: its messages are committed together or not at all (AMQP 1.0, part 4)."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from proton import Delivery, Described, Message, symbol

from brokers.client.errors import SendError, TransactionFailed
from brokers.client.link import DECLARED, Outcome, SenderLink


class Coordinated(Protocol):
    """The interface of a transaction to its connection. `epoch`: the number of its connections so far; each ends with
    its transactions."""

    epoch: int

    def coordinator(self) -> SenderLink: ...


class Transaction:
    """Created by `Connection.transaction`, which begins it. As a context manager it commits at the end of the block, or
    rolls back if an exception leaves it."""

    def __init__(self, connection: Coordinated, timeout: float | None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._over = ""
        self._epoch = connection.epoch
        outcome = self._request("begin", "amqp:declare:list", [None])
        if outcome.state != DECLARED:
            raise TransactionFailed("the broker did not begin a transaction", outcome.condition)
        self._number = outcome.transaction

    @property
    def number(self) -> Any:
        """Return the broker's id of it. Raises TransactionFailed if it has ended."""
        if self._epoch != self._connection.epoch:
            raise TransactionFailed("the transaction was lost with the connection; none of its messages are committed")
        if self._over:
            raise TransactionFailed(f"the transaction has ended: {self._over}")
        return self._number

    def commit(self) -> None:
        """Commit. Raises TransactionFailed if the broker refuses; then no message is committed. If the connection is
        lost meanwhile, the error says that the result is in doubt."""
        self._discharge("commit", failed=False)

    def rollback(self) -> None:
        self._discharge("roll back", failed=True)

    def _discharge(self, verb: str, *, failed: bool) -> None:
        number = self.number
        self._over = "rolled back" if failed else "committed"
        outcome = self._request(verb, "amqp:discharge:list", [number, failed])
        if outcome.state != Delivery.ACCEPTED:
            self._over = f"the broker refused to {verb} it"
            text = ": ".join(filter(None, (self._over, outcome.condition, outcome.description)))
            raise TransactionFailed(text, outcome.condition)

    def _request(self, verb: str, descriptor: str, fields: list[Any]) -> Outcome:
        message = Message(body=Described(symbol(descriptor), fields))
        try:
            return self._connection.coordinator().transfer(message.encode(), self._timeout, None)
        except SendError as error:
            self._over = f"cannot {verb} it"
            raise TransactionFailed(f"cannot {verb} a transaction: {error}", getattr(error, "condition", "")) from error

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._over:
            return
        if kind is None:
            self.commit()
        elif self._epoch == self._connection.epoch:
            self.rollback()
