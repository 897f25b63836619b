"""Events of producers that a poll finds name the queue and the connection, and end with the producer."""

from __future__ import annotations

from typing import Any

from brokers.adapters.artemis import CAPABILITIES
from brokers.adapters.capabilities import types_of
from brokers.adapters.differences import facts
from brokers.adapters.inventory import Change
from brokers.admin import Event
from brokers.model import object_name
from console.history.storage.event_rows import event_row

PRODUCER = object_name("Producer", virtualhost="default", id="7")
QUEUE = str(object_name("Queue", virtualhost="default", name="orders"))
RUNNING: dict[str, Any] = {"queue": QUEUE, "client": "billing", "link": "out", "blocked": False, "blocked_ms": 0}
BLOCKED = {**RUNNING, "blocked": True, "blocked_since": 1_000, "reasons": ["queue-overfull:orders"]}
TYPES = types_of(CAPABILITIES)


def test_block_is_of_the_queue_in_the_history() -> None:
    (found,) = facts([Change(PRODUCER, RUNNING, BLOCKED)], 1_000, TYPES)
    row = event_row("artemis", "run", Event(1, found.at, found.kind, found.object, found.text, found.attributes))
    assert (row["kind"], row["virtualhost"], row["queue"], row["client"]) == (
        "producer-blocked", "default", "orders", "billing",
    )  # fmt: skip


def test_block_ends_when_the_producer_has_gone() -> None:
    (found,) = facts([Change(PRODUCER, BLOCKED, None)], 4_000, TYPES)
    assert (found.kind, found.attributes["blocked_ms"], found.attributes["queue"]) == (
        "producer-released",
        3_000,
        QUEUE,
    )
    assert not facts([Change(PRODUCER, RUNNING, None)], 4_000, TYPES)
