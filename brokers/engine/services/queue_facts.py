"""Facts about a queue, with the attributes of all events of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.engine.queues.queue import Queue
from brokers.engine.values.events import queue_subject


def queue_fact(queue: Queue, kind: str, words: str, attributes: Mapping[str, Any] | None = None) -> None:
    """Add a fact about a queue."""
    subject = queue_subject(queue.virtualhost, queue.name)
    queue.turn.add_fact(kind, queue.object_name, subject, words, {**queue.event_attributes(), **(attributes or {})})
