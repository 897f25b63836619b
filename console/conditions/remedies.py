"""What operators can do on a broker about a problem, as its types declare: advice names nothing else. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.model import TYPES, ManagedType


@dataclass(frozen=True, slots=True)
class Remedies:
    """`settable`: the attributes that can be set on objects of some type. `patterns`: a policy can be set for a pattern
    of queues. `purge`, `stop`, `close`: queues can be purged, their producers stopped, connections closed."""

    settable: frozenset[str]
    patterns: bool
    purge: bool
    stop: bool
    close: bool

    @classmethod
    def of(cls, types: Mapping[str, ManagedType]) -> Remedies:
        """Return the remedies of a broker with these types."""

        def has(type_name: str, operation: str) -> bool:
            return type_name in types and types[type_name].operation(operation) is not None

        return cls(
            frozenset(a.name for each in types.values() for a in each.attributes if a.writable or a.creatable),
            "Policy" in types,
            has("Queue", "purge"),
            has("Queue", "stop-producers"),
            has("Connection", "close"),
        )

    def sets(self, *attributes: str) -> bool:
        """Return whether one of these attributes can be set."""
        return not self.settable.isdisjoint(attributes)

    @property
    def removal(self) -> str:
        """How messages leave a queue, as a verb."""
        return "consume or purge" if self.purge else "consume"


#: Those of a broker that has everything that the model declares.
ALL = Remedies.of(TYPES)
