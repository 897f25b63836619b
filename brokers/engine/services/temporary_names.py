"""The names of temporary queues and topics: what begins like one is never created by a client that attaches to it."""

from __future__ import annotations

from brokers.admin import NotFound

QUEUE_PREFIX, TOPIC_PREFIX = "temporary-queue.", "temporary-topic."


def is_temporary(address: str) -> bool:
    return address.startswith((QUEUE_PREFIX, TOPIC_PREFIX))


def check_not_gone(name: str) -> None:
    """Of a name that nothing has. Raises NotFound if it can only have been temporary, so that it is not created."""
    if is_temporary(name):
        raise NotFound(f"there is no {name}: what is temporary goes with the link that it was made for")
