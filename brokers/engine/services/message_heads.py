"""What precedes the bodies of messages, decoded once for each: decoding costs more than the rest of a search."""

from __future__ import annotations

from brokers.engine.values.message_format import Head, MessageFormat


class Heads:
    """Remembers that of the last message, which its conditions and its description need in turn."""

    def __init__(self, reads: MessageFormat) -> None:
        self._reads = reads
        self._body: bytes | None = None
        self._head = Head()

    def of(self, body: bytes) -> Head:
        """Return the head of a message, as `MessageFormat.head` does."""
        if body is not self._body:
            self._body, self._head = body, self._reads.head(body)
        return self._head
