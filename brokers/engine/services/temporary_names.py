"""The names of temporary queues and topics: attaching to a name with one of these prefixes creates nothing."""

from __future__ import annotations

from brokers.admin import NotFound

QUEUE_PREFIX, TOPIC_PREFIX = "temporary-queue.", "temporary-topic."


def is_temporary(address: str) -> bool:
    return address.startswith((QUEUE_PREFIX, TOPIC_PREFIX))


def check_not_temporary(name: str) -> None:
    """Raise NotFound for an unknown name with a temporary prefix, so that it is not created."""
    if is_temporary(name):
        raise NotFound(f"there is no {name}: temporary queues and topics are deleted with the link that created them")
