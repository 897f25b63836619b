"""The key of a queue in the history's tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueKey:
    """`broker`: the broker's slug or the name of an imported log; `name`: the queue's name."""

    broker: str
    virtualhost: str
    name: str
