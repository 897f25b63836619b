"""What identifies a queue in the history's tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueKey:
    """`broker`: the slug of its settings; `name`: the queue's own."""

    broker: str
    virtualhost: str
    name: str
