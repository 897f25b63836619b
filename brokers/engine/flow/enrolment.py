"""What flow control asks of a transaction: to know where its messages wait, and what becomes of them."""

from __future__ import annotations

from typing import Any, Protocol


class Place(Protocol):
    """Where a message of a transaction may wait."""

    def abandon(self, transaction: Transaction) -> None:
        """The transaction is rolled back: its messages there have their outcome, and nothing more is said of them."""
        ...


class Transaction(Protocol):
    """`committing_since`: when its client asked for the commit, ms; None: it has not."""

    committing_since: int | None

    def wait(self, place: Place) -> None:
        """A message of it waits there."""
        ...

    def arrived(self, place: Place) -> None:
        """A message waits there no longer."""
        ...

    def add_published(self, queue: Any, body: bytes) -> None:
        """A message of it counts in the queue from now on; its commit or rollback goes there."""
        ...

    def takes_from(self, place: Place) -> bool:
        """Whether its commit takes messages out of the queue behind this gate."""
        ...


class Enrolment(Protocol):
    """A message's part in a transaction."""

    @property
    def transaction(self) -> Transaction: ...

    def refused(self, place: Place | None = None) -> None:
        """The message was not taken; `place`: where it waited."""
        ...

    def lost(self) -> None:
        """The message has gone, and its client does not know."""
        ...
