"""What flow control needs of a transaction: it records where its messages wait, and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Place(Protocol):
    """Where a message of a transaction may wait."""

    def abandon(self, transaction: Transaction) -> None:
        """Drop the messages of a transaction that is rolled back."""
        ...


class Transaction(Protocol):
    """`committing_since`: when its client requested the commit, ms; None: not yet."""

    committing_since: int | None

    @property
    def uses_resources(self) -> bool:
        """Whether its commit may end a shortage: it has messages, or removes some."""
        ...

    def wait(self, place: Place) -> None:
        """Record that one of its messages waits there."""
        ...

    def wait_ended(self, place: Place) -> None:
        """Record that one of its messages no longer waits there."""
        ...

    def add_published(self, queue: Any, body: bytes) -> None:
        """Record one of its messages, which counts in the queue until the commit or rollback."""
        ...

    def add_published_run(self, queue: Any, bodies: Sequence[bytes], size: int, *, durable: bool) -> None:
        """As `add_published`, with all messages of a run; `size` in bytes."""
        ...

    def takes_from(self, place: Place) -> bool:
        """Return whether its commit removes messages from the queue of this gate."""
        ...


class Enrolment(Protocol):
    """A message's part in a transaction."""

    @property
    def transaction(self) -> Transaction: ...

    def refused(self, place: Place | None = None) -> None:
        """Record that the message was rejected; `place`: where it waited."""
        ...

    def lost(self) -> None:
        """Fail the transaction: the message is lost, and its client cannot know."""
        ...
